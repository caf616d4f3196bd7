package oauth

import (
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
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
	key, method, err := parseKey([]byte(keyPEM))
	if err != nil {
		return "", err
	}
	text, err := jwt.NewWithClaims(method, jwt.MapClaims{
		"iss": clientID, "sub": clientID, "aud": issuer, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	}).SignedString(key)
	if err != nil {
		return "", fmt.Errorf("signing a client assertion: %w", err)
	}
	return text, nil
}

func parseKey(text []byte) (crypto.PrivateKey, jwt.SigningMethod, error) {
	if key, err := jwt.ParseECPrivateKeyFromPEM(text); err == nil {
		if key.Curve != elliptic.P256() {
			return nil, nil, refused("the client's private key is on the curve %s; use P-256", key.Params().Name)
		}
		return key, jwt.SigningMethodES256, nil
	}
	if key, err := jwt.ParseRSAPrivateKeyFromPEM(text); err == nil {
		return key, jwt.SigningMethodRS256, nil
	}
	if key, err := jwt.ParseEdPrivateKeyFromPEM(text); err == nil {
		return key, jwt.SigningMethodEdDSA, nil
	}
	return nil, nil, refused("the client's private key cannot be read or used; give one for ES256, RS256 or EdDSA in PEM: PKCS #8, EC or RSA")
}
