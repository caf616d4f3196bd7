package identity

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"go.yaml.in/yaml/v3"

	"pawl.dev/services/loopback"
)

const (
	defaultSkew = 30 * time.Second
	maxSkew     = 5 * time.Minute
)

// Algorithms of public keys. Those of shared secrets are never accepted: a public key would be the secret.
var (
	knownAlgorithms   = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}
	defaultAlgorithms = []string{oidc.RS256, oidc.ES256}
)

// issuerSettings is an entry of the issuer file.
type issuerSettings struct {
	URL          string            `yaml:"issuer"`
	Audience     string            `yaml:"audience"`
	Algorithms   []string          `yaml:"algorithms"`    // empty: RS256 and ES256
	ClockSkew    *time.Duration    `yaml:"clock_skew"`    // nil: 30 s
	Prefix       string            `yaml:"prefix"`        // of the ids of its users
	SubClaim     string            `yaml:"sub_claim"`     // empty: sub
	RolesClaim   string            `yaml:"roles_claim"`   // may be a path with dots; empty: all users have the default roles
	Roles        map[string][]Role `yaml:"roles"`         // by value of the claim
	DefaultRoles *[]Role           `yaml:"default_roles"` // of users without a value in Roles; nil: user; empty: they are refused
	CA           string            `yaml:"ca"`            // PEM file, relative to the issuer file; empty: the system's authorities

	roots []byte // content of CA
}

// parseIssuers reads the issuers of a file in the folder dir. Unknown fields are refused, because a misspelt one would have no effect.
func parseIssuers(raw []byte, dir string) ([]issuerSettings, error) {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	var doc struct {
		Issuers []issuerSettings `yaml:"issuers"`
	}
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(doc.Issuers) == 0 {
		return nil, errors.New("it has no issuers; it needs `issuers:` and a list with the fields issuer and audience")
	}
	for i := range doc.Issuers {
		s := &doc.Issuers[i]
		if err := s.complete(dir); err != nil {
			return nil, fmt.Errorf("issuers[%d]: %w", i, err)
		}
		for j, other := range doc.Issuers[:i] {
			if other.URL == s.URL {
				return nil, fmt.Errorf("issuers[%d]: field issuer: issuers[%d] has the same", i, j)
			}
			if other.Prefix == s.Prefix {
				return nil, fmt.Errorf("issuers[%d]: field prefix: issuers[%d] has the same prefix %q, so a user of one could be taken for one of the other", i, j, s.Prefix)
			}
		}
	}
	return doc.Issuers, nil
}

// complete checks the fields, fills in defaults and reads the certificate authorities.
func (s *issuerSettings) complete(dir string) error {
	if err := checkIssuerURL(s.URL); err != nil {
		return fmt.Errorf("field issuer: %w", err)
	}
	if s.Audience == "" {
		return errors.New("field audience: is missing; without it, tokens for other services would be accepted")
	}
	if len(s.Algorithms) == 0 {
		s.Algorithms = defaultAlgorithms
	}
	for _, a := range s.Algorithms {
		if !slices.Contains(knownAlgorithms, a) {
			return fmt.Errorf("field algorithms: %q is none of %s", a, strings.Join(knownAlgorithms, ", "))
		}
	}
	skew := defaultSkew
	s.ClockSkew = cmp.Or(s.ClockSkew, &skew)
	if *s.ClockSkew < 0 || *s.ClockSkew > maxSkew {
		return fmt.Errorf("field clock_skew: must be 0s to %s", maxSkew)
	}
	if s.Prefix != "" {
		if err := CheckSub(s.Prefix); err != nil {
			return fmt.Errorf("field prefix: %w", err)
		}
	}
	s.SubClaim = cmp.Or(s.SubClaim, "sub")
	if err := s.completeRoles(); err != nil {
		return err
	}
	if s.CA == "" {
		return nil
	}
	if !filepath.IsAbs(s.CA) {
		s.CA = filepath.Join(dir, s.CA)
	}
	var err error
	if s.roots, err = os.ReadFile(s.CA); err != nil {
		return fmt.Errorf("field ca: %w", err)
	}
	return nil
}

func (s *issuerSettings) completeRoles() error {
	s.DefaultRoles = cmp.Or(s.DefaultRoles, &userRoles)
	if (s.RolesClaim == "") != (len(s.Roles) == 0) {
		return errors.New("fields roles_claim and roles: give both or none")
	}
	for value, roles := range s.Roles {
		if err := checkRoles(roles); err != nil {
			return fmt.Errorf("field roles: %q: %w", value, err)
		}
	}
	if len(*s.DefaultRoles) > 0 {
		if err := checkRoles(*s.DefaultRoles); err != nil {
			return fmt.Errorf("field default_roles: %w", err)
		}
	}
	return nil
}

// checkIssuerURL refuses addresses at which others on the network path could replace the keys.
func checkIssuerURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return err
	case u.Host == "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("%q is not an address such as https://login.example.com", address)
	case u.Scheme == "https" || u.Scheme == "http" && loopback.Is(u.Host):
		return nil
	}
	return fmt.Errorf("%q must begin with https://", address)
}
