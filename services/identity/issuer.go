package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

const (
	keysFresh    = 5 * time.Minute // after which an issuer's keys are fetched again
	keysUsable   = time.Hour       // for which they are used if the issuer cannot be reached
	refetchAfter = 5 * time.Second // least time between two fetches, so that tokens with forged key ids do not cause requests
	fetchTimeout = 5 * time.Second
	maxFetched   = 1 << 20 // bytes
)

// issuer is an OpenID Connect provider with its public keys.
type issuer struct {
	issuerSettings
	client *http.Client
	now    func() time.Time

	mu      sync.Mutex    // guards the following
	keys    *keySet       // nil before the first fetch
	fetched time.Time     // when keys was last found to be current
	tried   time.Time     // when the last fetch began
	running chan struct{} // closed when the running fetch ends; nil: none runs
}

// keySet is one version of an issuer's keys. It is never changed.
type keySet struct {
	raw  []byte
	keys []jose.JSONWebKey
}

// newIssuer returns an issuer and begins to fetch its keys.
func newIssuer(s issuerSettings, now func() time.Time) (*issuer, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if s.CA != "" {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(s.roots) {
			return nil, fmt.Errorf("issuer %s: the file %s has no certificate in PEM format", s.URL, s.CA)
		}
	}
	i := &issuer{issuerSettings: s, now: now, client: &http.Client{
		Transport: transport, Timeout: fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	i.current()
	return i, nil
}

// current returns the keys, or nil if they are too old or were never fetched. If they are no longer fresh, it begins to fetch them.
func (i *issuer) current() *keySet {
	i.mu.Lock()
	defer i.mu.Unlock()
	age := i.now().Sub(i.fetched)
	if age >= keysFresh {
		i.fetch()
	}
	if age >= keysUsable {
		return nil
	}
	return i.keys
}

// fetch begins to fetch the keys, unless a fetch runs or began a short time ago. It returns a channel that is closed at the end of the
// running fetch, or nil if none runs. The caller holds mu.
func (i *issuer) fetch() <-chan struct{} {
	if now := i.now(); i.running == nil && now.Sub(i.tried) >= refetchAfter {
		i.tried, i.running = now, make(chan struct{})
		go func() { // ends after two requests with a timeout each
			raw, err := i.download()
			i.keep(raw, now, err)
		}()
	}
	return i.running
}

// keep ends a fetch.
func (i *issuer) keep(raw []byte, began time.Time, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	defer close(i.running)
	defer func() { i.running = nil }()
	var keys []jose.JSONWebKey
	if err == nil {
		keys, err = i.parseKeys(raw)
	}
	if err != nil {
		if i.keys == nil {
			slog.Warn("the keys of a token issuer cannot be fetched; its tokens are refused until they can be", "issuer", i.URL, "error", err)
			return
		}
		slog.Warn("the keys of a token issuer cannot be fetched; its last keys are used for an hour after they were fetched",
			"issuer", i.URL, "fetched", i.fetched, "error", err)
		return
	}
	i.fetched = began
	if i.keys == nil || !bytes.Equal(raw, i.keys.raw) {
		i.keys = &keySet{raw, keys}
	}
}

// download returns the issuer's current JSON Web Key Set.
func (i *issuer) download() ([]byte, error) {
	raw, err := i.get(strings.TrimSuffix(i.URL, "/") + "/.well-known/openid-configuration")
	if err != nil {
		return nil, err
	}
	var provider struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(raw, &provider); err != nil {
		return nil, fmt.Errorf("decode the discovery document: %w", err)
	}
	if provider.Issuer != i.URL {
		return nil, fmt.Errorf("the discovery document is of the issuer %q; write it exactly so in the issuer file", provider.Issuer)
	}
	if err := checkIssuerURL(provider.Keys); err != nil {
		return nil, fmt.Errorf("the discovery document's jwks_uri: %w", err)
	}
	return i.get(provider.Keys)
}

func (i *issuer) get(address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil) // the client has a timeout
	if err != nil {
		return nil, err
	}
	resp, err := i.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", address, resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxFetched+1))
	if err == nil && len(raw) > maxFetched {
		err = fmt.Errorf("GET %s: the document has over %d bytes", address, maxFetched)
	}
	return raw, err
}

// parseKeys returns the keys for signatures with an accepted algorithm. It skips keys that it does not know.
func (i *issuer) parseKeys(raw []byte) ([]jose.JSONWebKey, error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("decode the key set: %w", err)
	}
	var keys []jose.JSONWebKey
	for _, member := range doc.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(member, &k) != nil || !k.IsPublic() || !k.Valid() || k.Use != "" && k.Use != "sig" {
			continue
		}
		if k.Algorithm == "" || slices.Contains(i.Algorithms, k.Algorithm) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key for signatures with an accepted algorithm")
	}
	return keys, nil
}

// matching returns the keys for a token with that key id, which may be empty, and algorithm. s may be nil.
func (s *keySet) matching(id, algorithm string) (keys []jose.JSONWebKey) {
	if s == nil {
		return nil
	}
	for _, k := range s.keys {
		if (id == "" || k.KeyID == id) && (k.Algorithm == "" || k.Algorithm == algorithm) {
			keys = append(keys, k)
		}
	}
	return keys
}

var (
	errUnreachable = errors.New("the keys of the token's issuer cannot be fetched at present; try again later")
	errUnknownKey  = errors.New("the token is signed with a key that its issuer does not publish; log in again for a new token")
	errSignature   = errors.New("the token's signature is not valid")
	errKind        = errors.New("the token is of a kind that does not identify a caller")
)

// signatureCheck implements oidc.KeySet for one token. It keeps its result, because the verifier does not wrap errors.
type signatureCheck struct {
	*issuer
	verifiedBy *keySet
	err        error
}

// VerifySignature implements oidc.KeySet.
func (c *signatureCheck) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	defer func() { c.err = err }()
	var accepted []jose.SignatureAlgorithm
	for _, a := range c.Algorithms {
		accepted = append(accepted, jose.SignatureAlgorithm(a))
	}
	jws, err := jose.ParseSigned(token, accepted)
	if err != nil {
		return nil, err
	}
	header := jws.Signatures[0].Header
	if kind, _ := header.ExtraHeaders["typ"].(string); !slices.Contains([]string{"", "jwt", "at+jwt", "application/at+jwt"}, strings.ToLower(kind)) {
		return nil, errKind
	}
	keys, err := c.keysFor(ctx, header)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if payload, err := jws.Verify(k.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errSignature
}

// keysFor returns the keys that may have signed a token. If none may, it fetches the keys first.
func (c *signatureCheck) keysFor(ctx context.Context, header jose.Header) ([]jose.JSONWebKey, error) {
	c.verifiedBy = c.current()
	keys := c.verifiedBy.matching(header.KeyID, header.Algorithm)
	if len(keys) > 0 {
		return keys, nil
	}
	c.mu.Lock()
	running := c.fetch()
	c.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			return nil, errUnreachable
		}
		c.verifiedBy = c.current()
		keys = c.verifiedBy.matching(header.KeyID, header.Algorithm)
	}
	switch {
	case c.verifiedBy == nil:
		return nil, errUnreachable
	case len(keys) == 0:
		return nil, errUnknownKey
	}
	return keys, nil
}
