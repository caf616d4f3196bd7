package discover

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/internal/ui"
	"pawl.dev/services/identity"
	"pawl.dev/services/privatefile"
)

// refreshBefore is how long before its end a token is refreshed.
const refreshBefore = 30 * time.Second

// Login is a login at an OpenID Connect issuer for one server.
type Login struct {
	Issuer     string    `json:"issuer"`
	ClientID   string    `json:"client_id,omitempty"`
	SecretFile string    `json:"client_secret_file,omitempty"` // with the client's secret; "": it has none, or secretVariable has it
	CA         string    `json:"ca,omitempty"`                 // certificate authorities of the issuer, besides those of the system
	Audience   string    `json:"audience,omitempty"`           // of the token; "": the client itself
	TokenURL   string    `json:"token_url,omitempty"`
	RevokeURL  string    `json:"revocation_url,omitempty"` // "": the issuer revokes no tokens
	Token      string    `json:"token"`                    // sent to the server
	Refresh    string    `json:"refresh_token,omitempty"`
	Expires    time.Time `json:"expires,omitzero"`
}

// Take takes the tokens from an answer of the issuer. Servers are sent the token for the login's audience; without one the ID token, or else the
// access token.
func (l *Login) Take(t *oauth2.Token) error {
	id, _ := t.Extra("id_token").(string)
	tokens := slices.DeleteFunc([]string{id, t.AccessToken}, func(token string) bool {
		return token == "" || l.Audience != "" && !claimsOf(token).isFor(l.Audience)
	})
	if len(tokens) == 0 {
		return fmt.Errorf("the issuer gave no token for the audience %q", l.Audience)
	}
	l.Token, l.Expires = tokens[0], t.Expiry
	if at := claimsOf(l.Token).Expires; at != 0 {
		l.Expires = time.Unix(at, 0)
	}
	if t.RefreshToken != "" {
		l.Refresh = t.RefreshToken
	}
	return nil
}

// TakeToken takes a token that the user has from elsewhere.
func (l *Login) TakeToken(token string) error {
	claims := claimsOf(token)
	if claims.Issuer == "" {
		return errors.New("this is not a token of an issuer (JWT)")
	}
	l.Issuer = claims.Issuer
	return l.Take(&oauth2.Token{AccessToken: token})
}

// claims are what the command line reads of a token. It does not verify them: the server does.
type claims struct {
	Issuer   string `json:"iss"`
	Audience any    `json:"aud"`
	Expires  int64  `json:"exp"`
}

// claimsOf returns the claims of a token, or none if it is not a JWT.
func claimsOf(token string) (c claims) {
	if parts := strings.Split(token, "."); len(parts) == 3 {
		if raw, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(raw, &c) // the fields that fit
		}
	}
	return c
}

func (c claims) isFor(audience string) bool {
	several, _ := c.Audience.([]any)
	return c.Audience == audience || slices.Contains(several, any(audience))
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

// readLogins returns the logins by server.
func readLogins() (map[string]Login, error) {
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

// ChangeLogins edits the logins by server, while no other command changes them.
func ChangeLogins(ctx context.Context, edit func(map[string]Login) error) error {
	path := loginFile()
	if path == "" {
		return errors.New("there is no home folder to keep the login in")
	}
	unlock, err := privatefile.LockDir(ctx, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	logins, err := readLogins()
	if err != nil {
		return err
	}
	if err := edit(logins); err != nil {
		return err
	}
	return privatefile.Write(path, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(logins) //nolint:gosec // only its owner can read the file
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
	logins, err := readLogins()
	if login, ok := logins[server]; ok {
		return &LoginCredentials{server: server, login: login}, nil
	}
	return nil, err
}

// GetRequestMetadata implements credentials.PerRPCCredentials. A token that cannot be refreshed is sent until it expires.
func (c *LoginCredentials) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expiresWithin(refreshBefore) {
		if err := c.refresh(ctx); err != nil && c.expiresWithin(0) {
			return nil, status.Error(codes.Unauthenticated, c.explain(err))
		}
	}
	return map[string]string{"authorization": identity.BearerHeader(c.login.Token)}, nil
}

// expiresWithin reports whether a token that can be refreshed expires within a time.
func (c *LoginCredentials) expiresWithin(d time.Duration) bool {
	return c.login.Refresh != "" && !c.login.Expires.IsZero() && time.Until(c.login.Expires) < d
}

var errReplaced = errors.New("another command has logged out, or in elsewhere")

// refresh gets a new token from the issuer, unless another command has got one. It holds the lock meanwhile, because issuers accept a refresh token only once.
func (c *LoginCredentials) refresh(ctx context.Context) error {
	return ChangeLogins(ctx, func(logins map[string]Login) error {
		stored, ok := logins[c.server]
		if !ok || stored.Issuer != c.login.Issuer || stored.ClientID != c.login.ClientID {
			return errReplaced
		}
		if c.login = stored; !c.expiresWithin(refreshBefore) {
			return nil
		}
		// If the command is interrupted now, the new refresh token must not be lost.
		ctx, config, err := c.login.Client(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		token, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: c.login.Refresh}).Token()
		if err == nil {
			err = c.login.Take(token)
		}
		logins[c.server] = c.login
		return err
	})
}

// explain says why a token could not be refreshed, and what to do.
func (c *LoginCredentials) explain(err error) string {
	var refused *oauth2.RetrieveError
	advice := "try again later, or log in again with `pawl login`"
	if errors.As(err, &refused) && refused.ErrorCode != "" || errors.Is(err, errReplaced) {
		advice = "log in again with `pawl login`"
	}
	return fmt.Sprintf("the login at %s has expired and could not be refreshed: %s; %s", c.login.Issuer, ui.Line(err.Error()), advice)
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. Servers on loopback may have no TLS.
func (*LoginCredentials) RequireTransportSecurity() bool { return false }
