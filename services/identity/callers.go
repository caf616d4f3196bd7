package identity

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// Callers authenticates by API keys (`pawl_…`) and by tokens of issuers.
type Callers struct {
	*KeyFile          // without a path, it has ephemeral keys only
	issuers  *Issuers // nil: none
}

// Open returns the authenticator of a key file and an issuer file; one path may be empty. If both are, it returns Local.
func Open(keyFile, issuerFile string) (Authenticator, error) {
	if keyFile == "" && issuerFile == "" {
		return Local(), nil
	}
	if keyFile != "" {
		// `pawl keys add` creates the file; a service without keys would refuse every caller.
		if _, err := os.Stat(keyFile); err != nil {
			return nil, fmt.Errorf("read the API keys: %w; make the file with `pawl keys add SUB --keys %s`", err, keyFile)
		}
	}
	keys, err := OpenKeyFile(keyFile)
	if err != nil || issuerFile == "" {
		return &Callers{KeyFile: keys}, err
	}
	issuers, err := OpenIssuers(issuerFile)
	return &Callers{keys, issuers}, err
}

// IssuerURLs returns the issuers whose tokens are accepted, sorted.
func (c *Callers) IssuerURLs() []string {
	if c == nil || c.issuers == nil {
		return nil
	}
	return c.issuers.URLs()
}

// Authenticate implements Authenticator.
func (c *Callers) Authenticate(ctx context.Context, token string) (Principal, error) {
	if c.issuers == nil || strings.HasPrefix(token, tokenPrefix) {
		return c.KeyFile.Authenticate(ctx, token)
	}
	if token == "" {
		return Principal{}, unauthenticated("no credential was sent; send `authorization: Bearer` with an API key (`pawl_…`) or a token from `pawl login`")
	}
	return c.issuers.Authenticate(ctx, token)
}
