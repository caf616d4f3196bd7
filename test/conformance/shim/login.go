package shim

import (
	"context"
	"fmt"
	"net/http"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

const (
	// redirectURI is the address to which the browser would be sent. The shim does not open it.
	redirectURI = "http://127.0.0.1:3000/callback"
	// maxLogins is how often a user logs in for one request.
	maxLogins = 3
)

// loggedIn calls a function, and logs in and calls it again if the server asks for a login.
func (u *user) loggedIn(ctx context.Context, do func() error) error {
	for range maxLogins {
		err := do()
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED {
			return err
		}
		u.log.InfoContext(ctx, "logging in", "because", err)
		if err := u.login(ctx); err != nil {
			return fmt.Errorf("logging in: %w", err)
		}
	}
	return do()
}

// login acts as a person with a browser: it opens the address, agrees, and is sent back.
func (u *user) login(ctx context.Context) error {
	begun, err := u.StartMcpLogin(ctx, &mcppoolv1.StartMcpLoginRequest{McpId: serverID, RedirectUri: redirectURI})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, begun.GetAuthorizationUrl(), nil)
	if err != nil {
		return err
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	back, err := res.Location()
	if err != nil {
		return fmt.Errorf("the authorization server answered %s without a redirect: %w", res.Status, err)
	}
	query := back.Query()
	_, err = u.FinishMcpLogin(ctx, &mcppoolv1.FinishMcpLoginRequest{
		State: query.Get("state"), Code: query.Get("code"), Iss: query.Get("iss"),
		Error: query.Get("error"), ErrorDescription: query.Get("error_description"),
	})
	return err
}
