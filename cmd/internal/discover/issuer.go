package discover

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"pawl.dev/services/loopback"
)

const (
	// secretVariable is the environment variable with the secret of the client at an issuer.
	secretVariable = "PAWL_CLIENT_SECRET" //nolint:gosec // its name
	// issuerTimeout bounds a request to an issuer.
	issuerTimeout = 15 * time.Second
	// maxAnswer bounds its answer, in bytes.
	maxAnswer = 1 << 20
)

// Client returns the login's OAuth client, and a context in which it and package oidc reach the issuer.
func (l *Login) Client(ctx context.Context) (context.Context, *oauth2.Config, error) {
	config := &oauth2.Config{
		ClientID: l.ClientID, ClientSecret: os.Getenv(secretVariable),
		Endpoint: oauth2.Endpoint{TokenURL: l.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
	}
	if l.SecretFile != "" {
		raw, err := os.ReadFile(l.SecretFile)
		if err != nil {
			return nil, nil, fmt.Errorf("read the client's secret: %w", err)
		}
		config.ClientSecret = strings.TrimSpace(string(raw))
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if l.CA != "" {
		raw, err := os.ReadFile(l.CA)
		if err != nil {
			return nil, nil, fmt.Errorf("read the certificate authorities of the issuer: %w", err)
		}
		if transport.TLSClientConfig.RootCAs, err = x509.SystemCertPool(); err != nil {
			transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		}
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(raw)
	}
	return context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: issuerTransport{transport}}), config, nil
}

// issuerTransport refuses requests that show tokens to everyone on the network path, and bounds time and size of the answers. It reads them whole,
// because package oauth2 does not close all of them.
type issuerTransport struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t issuerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !loopback.Is(r.URL.Host) {
		return nil, fmt.Errorf("the address %s://%s does not begin with https://", r.URL.Scheme, r.URL.Host)
	}
	ctx, cancel := context.WithTimeout(r.Context(), issuerTimeout)
	defer cancel()
	res, err := t.RoundTripper.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	answer := *res
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return &answer, nil
}

// Revoke makes the issuer revoke the refresh token (RFC 7009).
func (l *Login) Revoke(ctx context.Context) error {
	ctx, config, err := l.Client(ctx)
	if err != nil {
		return err
	}
	form := url.Values{"token": {l.Refresh}, "token_type_hint": {"refresh_token"}, "client_id": {l.ClientID}}
	if config.ClientSecret != "" {
		form.Set("client_secret", config.ClientSecret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.RevokeURL, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := oauth2.NewClient(ctx, nil).Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the issuer answered %s", res.Status)
	}
	return nil
}
