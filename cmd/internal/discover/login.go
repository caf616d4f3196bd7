package discover

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/services/identity"
)

const (
	// LoginTimeout bounds a request to an issuer.
	LoginTimeout = 15 * time.Second
	// refreshBefore is how long before its end a token is refreshed.
	refreshBefore = 30 * time.Second
)

// Login is a login at an OpenID Connect issuer for one server.
type Login struct {
	Issuer   string    `json:"issuer"`
	ClientID string    `json:"client_id"`
	TokenURL string    `json:"token_url"`
	Token    string    `json:"token"` // sent to the server
	Refresh  string    `json:"refresh_token,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
}

// Take takes the token for servers from an answer of the issuer: the ID token, or else the access token.
func (l *Login) Take(t *oauth2.Token) {
	l.Token, l.Expires = t.AccessToken, t.Expiry
	if id, _ := t.Extra("id_token").(string); id != "" {
		l.Token, l.Expires = id, expiryOf(id, t.Expiry)
	}
	if t.RefreshToken != "" {
		l.Refresh = t.RefreshToken
	}
}

// expiryOf returns the claim exp of a token, which the server verifies; otherwise if it has none.
func expiryOf(token string, otherwise time.Time) time.Time {
	var claims struct {
		Expires int64 `json:"exp"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return otherwise
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Expires == 0 {
		return otherwise
	}
	return time.Unix(claims.Expires, 0)
}

// loginFile returns the path of the file with the logins, by the server's address as --server gives it ("": this machine's server). It is "" if
// there is no home folder.
func loginFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "pawl", "logins.json")
}

// Logins returns the logins by server.
func Logins() (map[string]Login, error) {
	logins := map[string]Login{}
	path := loginFile()
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return logins, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &logins)
	}
	if err != nil {
		return nil, fmt.Errorf("read the logins in %s: %w", path, err)
	}
	return logins, nil
}

// SaveLogin stores the login for a server, readable by its owner alone; nil removes it.
func SaveLogin(server string, login *Login) error {
	path := loginFile()
	if path == "" {
		return errors.New("there is no home folder to keep the login in")
	}
	logins, err := Logins()
	if err != nil {
		return err
	}
	delete(logins, server)
	if login != nil {
		logins[server] = *login
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder for the login: %w", err)
	}
	return WriteFile(path, func(f *os.File) error {
		return json.NewEncoder(f).Encode(logins) //nolint:gosec // only its owner can read the file
	})
}

// LoginCredentials sends the token of a login with each call, and refreshes it in time. It goes to no server but the one it was made for.
type LoginCredentials struct {
	server string
	mu     sync.Mutex
	login  Login // guarded by mu
}

// CredentialsFor returns the credentials of the login for a server, or nil if none.
func CredentialsFor(server string) (*LoginCredentials, error) {
	logins, err := Logins()
	if login, ok := logins[server]; ok {
		return &LoginCredentials{server: server, login: login}, nil
	}
	return nil, err
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (c *LoginCredentials) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mustRefresh() {
		if err := c.refresh(ctx); err != nil {
			return nil, status.Errorf(codes.Unauthenticated, "the login at %s could not be refreshed: %v; log in again with pawl login", c.login.Issuer, err)
		}
	}
	return map[string]string{"authorization": identity.BearerHeader(c.login.Token)}, nil
}

func (c *LoginCredentials) mustRefresh() bool {
	return c.login.Refresh != "" && !c.login.Expires.IsZero() && time.Until(c.login.Expires) < refreshBefore
}

// refresh gets a new token from the issuer, or from the file if another command has refreshed it.
func (c *LoginCredentials) refresh(ctx context.Context) error {
	if logins, err := Logins(); err == nil && logins[c.server].Issuer == c.login.Issuer {
		c.login = logins[c.server]
	}
	if !c.mustRefresh() {
		return nil
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: LoginTimeout})
	config := oauth2.Config{ClientID: c.login.ClientID, Endpoint: oauth2.Endpoint{TokenURL: c.login.TokenURL, AuthStyle: oauth2.AuthStyleInParams}}
	t, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: c.login.Refresh}).Token()
	if err != nil {
		return err
	}
	c.login.Take(t)
	return SaveLogin(c.server, &c.login)
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. Servers on loopback may have no TLS.
func (*LoginCredentials) RequireTransportSecurity() bool { return false }
