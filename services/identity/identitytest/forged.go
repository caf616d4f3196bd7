package identitytest

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	jose "github.com/go-jose/go-jose/v4"
)

// Forged returns tokens that a service must refuse if it accepts p, with RS256 and ES256, but not other. They are named by their fault, and have
// these claims changed. The provider must have an RSA key.
func (p *Provider) Forged(other *Provider, edits map[string]any) map[string]string {
	now, key := p.Now(), p.Key()
	claims := p.Claims(edits)
	with := func(claim string, value any) string {
		changed := maps.Clone(edits)
		if changed == nil {
			changed = map[string]any{}
		}
		changed[claim] = value
		return p.Token(changed)
	}
	valid, stranger := p.Token(edits), RSA(key.ID)
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + valid[strings.IndexByte(valid, '.'):]
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	signed := func(secret crypto.PrivateKey, id, algorithm string) string {
		return oidctest.SignIDToken(secret, id, algorithm, claims)
	}
	return map[string]string{
		"no JWT":               "abc",
		"a JWT of five parts":  "a.b.c.d.e",
		"payload is no JSON":   "e30.YWJj.e30",
		"wrong issuer":         key.Sign(other.Claims(edits)),
		"no issuer":            with("iss", nil),
		"wrong audience":       with("aud", "mail"),
		"no audience":          with("aud", nil),
		"alg none":             unsigned[:strings.LastIndexByte(unsigned, '.')+1],
		"alg none, signature":  unsigned,
		"HS256, public key":    signed(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), key.ID, "HS256"),
		"HS256, DER":           signed(x509.MarshalPKCS1PublicKey(key.Public().(*rsa.PublicKey)), key.ID, "HS256"),
		"algorithm not listed": signed(key.Signer, key.ID, "RS512"),
		"unknown key id":       signed(key.Signer, "k2", "RS256"),
		"another's key":        stranger.Sign(claims),
		"own key in header":    stranger.signWith(&jose.SignerOptions{EmbedJWK: true}, claims),
		"changed payload":      payloadOf(valid, with("sub", "eve")),
		"logout token":         key.Typed("logout+jwt", claims),
		"expired":              with("exp", now.Add(-time.Hour).Unix()),
		"never expires":        with("exp", nil),
		"not yet valid":        with("nbf", now.Add(time.Hour).Unix()),
		"issued in the future": with("iat", now.Add(time.Hour).Unix()),
		"no user":              with("sub", nil),
		"user with spaces":     with("sub", "a b"),
		"user is a number":     with("sub", 7),
	}
}

// Typed returns a token of a kind, such as at+jwt.
func (k Key) Typed(kind, claims string) string {
	return k.signWith((&jose.SignerOptions{}).WithType(jose.ContentType(kind)), claims)
}

func (k Key) signWith(o *jose.SignerOptions, claims string) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.Algorithm), Key: k.Signer}, o.WithHeader("kid", k.ID))
	if err != nil {
		panic(err)
	}
	jws, err := signer.Sign([]byte(claims))
	if err != nil {
		panic(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

// payloadOf returns a token with the payload of another.
func payloadOf(token, other string) string {
	parts, others := strings.Split(token, "."), strings.Split(other, ".")
	return strings.Join([]string{parts[0], others[1], parts[2]}, ".")
}
