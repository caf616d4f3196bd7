package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// maxVerified bounds the tokens whose verification is remembered.
const maxVerified = 10_000

// Issuers authenticates by signed tokens (JWT) of the OpenID Connect issuers in a YAML file. A changed file is read again; if that fails, the
// error is logged and the previous issuers stay in force. If the file is deleted, all tokens are refused.
type Issuers struct {
	now func() time.Time

	mu          sync.Mutex // guards the following and the map verified of current
	watchedFile            // its path never changes
	current     *accepted
}

// accepted is one version of the issuer file. A token that is verified while the file changes is remembered in the old version.
type accepted struct {
	issuers  map[string]*issuer // by URL; never changed
	verified map[[sha256.Size]byte]verified
}

// verified is a token that was accepted.
type verified struct {
	Principal
	from  *issuer
	keys  *keySet   // the token must be verified again after the issuer's keys have changed
	until time.Time // Expires and the clock skew
}

// OpenIssuers reads the file once, so that its errors show at start.
func OpenIssuers(path string) (*Issuers, error) {
	s := newIssuers(path)
	return s, s.load()
}

func newIssuers(path string) *Issuers {
	return &Issuers{watchedFile: watchedFile{path: path, kind: "issuer"}, now: time.Now, current: &accepted{}}
}

// load reads the file. The caller holds mu, or s is not shared yet.
func (s *Issuers) load() error {
	raw, info, err := s.read()
	if err != nil {
		return err
	}
	settings, err := parseIssuers(raw, filepath.Dir(s.path))
	if err != nil {
		return fmt.Errorf("issuer file %s: %w", s.path, err)
	}
	next := &accepted{issuers: map[string]*issuer{}, verified: map[[sha256.Size]byte]verified{}}
	for _, e := range settings {
		i := s.current.issuers[e.URL]
		if i == nil || !reflect.DeepEqual(i.issuerSettings, e) {
			if i, err = newIssuer(e, s.now); err != nil {
				return fmt.Errorf("issuer file %s: %w", s.path, err)
			}
		}
		next.issuers[e.URL] = i
	}
	s.current, s.lastRead, s.checked = next, info, s.now()
	return nil
}

// Authenticate implements Authenticator. A token that was accepted before costs a hash and a look-up until it expires or the issuer's keys change.
func (s *Issuers) Authenticate(ctx context.Context, token string) (Principal, error) {
	hash := sha256.Sum256([]byte(token))
	now, in, known := s.find(hash)
	if known.from != nil && now.Before(known.until) && known.from.current() == known.keys {
		return known.Principal, nil
	}
	v, err := in.verify(ctx, token, now)
	if err != nil {
		return Principal{}, unauthenticated("%w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(in.verified) >= maxVerified {
		maps.DeleteFunc(in.verified, func(_ [sha256.Size]byte, v verified) bool { return !now.Before(v.until) })
	}
	if len(in.verified) < maxVerified {
		in.verified[hash] = v
	}
	return v.Principal, nil
}

// URLs returns the issuers whose tokens are accepted, sorted.
func (s *Issuers) URLs() []string {
	_, in, _ := s.find([sha256.Size]byte{})
	return slices.Sorted(maps.Keys(in.issuers))
}

// find returns the time, the accepted issuers, and what is known of a token. If a check of the file is due, it first reads a changed file.
func (s *Issuers) find(hash [sha256.Size]byte) (time.Time, *accepted, verified) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now.Sub(s.checked) >= recheckAfter {
		s.checked = now
		s.refresh(s.load, func() { s.current = &accepted{} })
	}
	return now, s.current, s.current.verified[hash]
}

// verify checks a token. Its errors are for the caller.
func (a *accepted) verify(ctx context.Context, token string, now time.Time) (verified, error) {
	url, ok := issuerOf(token)
	if !ok {
		return verified{}, errors.New("the credential is neither an API key (`pawl_…`) nor a signed token (JWT)")
	}
	from := a.issuers[url]
	if from == nil {
		return verified{}, errors.New("the issuer of the token is not accepted here; log in at one that is")
	}
	check := &signatureCheck{issuer: from}
	// The verifier's errors would not tell the caller more, and its leeway for the time cannot be set.
	t, err := oidc.NewVerifier(from.URL, check, &oidc.Config{
		SupportedSigningAlgs: from.Algorithms, SkipClientIDCheck: true, SkipExpiryCheck: true,
	}).Verify(ctx, token)
	switch {
	case check.err != nil:
		return verified{}, check.err
	case err != nil:
		slog.Debug("a token was refused", "issuer", from.URL, "error", err)
		return verified{}, fmt.Errorf("the token is not a JWT of its issuer with one of the algorithms %s", strings.Join(from.Algorithms, ", "))
	case !slices.Contains(t.Audience, from.Audience):
		return verified{}, errors.New("the token is for another audience; log in for this service")
	}
	var claims map[string]any
	if err := t.Claims(&claims); err != nil {
		return verified{}, errors.New("the claims of the token are not a JSON object")
	}
	if err := from.checkTime(t, claims, now); err != nil {
		return verified{}, err
	}
	p, err := from.principal(claims)
	if err != nil {
		return verified{}, err
	}
	for _, other := range a.issuers {
		if len(other.Prefix) > len(from.Prefix) && strings.HasPrefix(p.Sub, other.Prefix) {
			return verified{}, errors.New("the user id of the token begins like those of another issuer")
		}
	}
	p.Expires, p.Issuer = t.Expiry, from.URL
	return verified{p, from, check.verifiedBy, t.Expiry.Add(*from.ClockSkew)}, nil
}

// issuerOf returns the issuer that a token names, which is not verified yet.
func issuerOf(token string) (url string, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return "", false
	}
	return claims.Issuer, true
}

// checkTime returns an error unless a token is valid now, give or take the clock skew.
func (i *issuerSettings) checkTime(t *oidc.IDToken, claims map[string]any, now time.Time) error {
	if t.Expiry.IsZero() {
		return errors.New("the token does not expire; it needs the claim exp")
	}
	if !now.Before(t.Expiry.Add(*i.ClockSkew)) {
		return fmt.Errorf("the token expired at %s; log in again", t.Expiry.UTC().Format(time.RFC3339))
	}
	start := t.IssuedAt
	if seconds, ok := claims["nbf"].(float64); ok {
		start = time.Unix(int64(seconds), 0)
	}
	if now.Add(*i.ClockSkew).Before(start) {
		return fmt.Errorf("the token is not valid before %s; check the clocks", start.UTC().Format(time.RFC3339))
	}
	return nil
}

// principal maps claims to the user and its roles.
func (i *issuerSettings) principal(claims map[string]any) (Principal, error) {
	sub, _ := claims[i.SubClaim].(string)
	p := Principal{Sub: i.Prefix + sub}
	if err := CheckSub(p.Sub); sub == "" || err != nil {
		return p, fmt.Errorf("the claim %q of the token is not a user id of 1 to 200 printable characters without spaces", i.SubClaim)
	}
	values := valuesOf(claims, i.RolesClaim)
	for _, r := range allRoles {
		if slices.ContainsFunc(values, func(v string) bool { return slices.Contains(i.Roles[v], r) }) {
			p.Roles = append(p.Roles, r)
		}
	}
	if len(p.Roles) == 0 {
		p.Roles = *i.DefaultRoles
	}
	if len(p.Roles) == 0 {
		return p, errors.New("the token gives no role here; ask the operator")
	}
	p.Roles = slices.Clip(p.Roles)
	return p, nil
}

// valuesOf returns the strings of a claim: of that name, or at a path with dots such as realm_access.roles.
func valuesOf(claims map[string]any, name string) (values []string) {
	value, ok := claims[name]
	if head, rest, nested := strings.Cut(name, "."); !ok && nested {
		inner, _ := claims[head].(map[string]any)
		return valuesOf(inner, rest)
	}
	switch v := value.(type) {
	case string:
		if name == "scope" { // a list with spaces; other claims may have them within a value
			return strings.Fields(v)
		}
		return []string{v}
	case []any:
		for _, e := range v {
			if s, ok := e.(string); ok {
				values = append(values, s)
			}
		}
	}
	return values
}
