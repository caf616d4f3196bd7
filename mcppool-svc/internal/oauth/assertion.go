package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"time"
)

// assertionLife is how long an assertion can be used; clocks differ.
const assertionLife = 2 * time.Minute

// isPrivateKey reports whether a client's secret is a key to sign with.
func isPrivateKey(secret string) bool {
	return strings.HasPrefix(strings.TrimSpace(secret), "-----BEGIN")
}

// assert signs that the client is who it says (private_key_jwt, RFC 7523). The audience is the issuer alone: an assertion
// for one server is of no use at another.
func assert(keyPEM, clientID, issuer string, now time.Time) (string, error) {
	key, err := parseKey(keyPEM)
	if err != nil {
		return "", err
	}
	header := map[string]any{"typ": "JWT"}
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		header["alg"] = "ES256"
	case ed25519.PrivateKey:
		header["alg"] = "EdDSA"
	case *rsa.PrivateKey:
		header["alg"] = "RS256"
	default:
		return "", refused("the client's private key is a %T; use one for ES256, RS256 or EdDSA", k)
	}
	claims := map[string]any{
		"iss": clientID, "sub": clientID, "aud": issuer, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	}
	text, err := joined(header, claims)
	if err != nil {
		return "", err
	}
	signature, err := sign(key, text)
	if err != nil {
		return "", fmt.Errorf("signing a client assertion: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func joined(header, claims map[string]any) (string, error) {
	var parts [2]string
	for i, part := range []map[string]any{header, claims} {
		b, err := json.Marshal(part)
		if err != nil {
			return "", fmt.Errorf("writing a client assertion: %w", err)
		}
		parts[i] = base64.RawURLEncoding.EncodeToString(b)
	}
	return parts[0] + "." + parts[1], nil
}

// sign makes a JWS signature (RFC 7518, RFC 8037).
func sign(key crypto.Signer, text string) ([]byte, error) {
	sum := sha256.Sum256([]byte(text))
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			return nil, err
		}
		out := make([]byte, 64)
		r.FillBytes(out[:32])
		s.FillBytes(out[32:])
		return out, nil
	case ed25519.PrivateKey:
		return ed25519.Sign(k, []byte(text)), nil
	default:
		return key.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
}

func parseKey(text string) (crypto.Signer, error) {
	const what = "the client's private key cannot be read; give it in PEM: PKCS #8, EC or RSA"
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, refused(what)
	}
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return nil, refused(what)
	}
	if k, isEC := signer.(*ecdsa.PrivateKey); isEC && k.Curve != elliptic.P256() {
		return nil, refused("the client's private key is on the curve %s; use P-256", k.Params().Name)
	}
	return signer, nil
}
