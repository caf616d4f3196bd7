package mcp

import (
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// LoginFlags say how the pool logs in to a server.
type LoginFlags struct {
	ClientID          *string  `placeholder:"ID" help:"The client that logins to the server are made as (default: Pawl registers itself)."`
	ClientSecret      *string  `placeholder:"SECRET" help:"Its secret, a private key, or better a reference: $${env:NAME}, $${file:PATH}."`
	ClientCredentials bool     `help:"The pool logs in as that client, for everybody."`
	Scope             []string `sep:"none" placeholder:"SCOPE" help:"What logins ask for (repeatable; default: what the server names)."`
}

// logins sets what the flags say, and returns the names of the fields.
func (f *LoginFlags) logins(s *mcppoolv1.McpServer) ([]string, error) {
	if f.ClientID == nil && f.ClientSecret == nil && !f.ClientCredentials && len(f.Scope) == 0 {
		return nil, nil
	}
	http := s.GetHttp()
	if http == nil {
		return nil, ui.Usagef("--client-id, --client-secret, --client-credentials and --scope are for servers with --url").Then("pawl mcp add --help")
	}
	if http.GetOauth() == nil {
		http.Oauth = &mcppoolv1.OAuth{}
	}
	o, fields := http.GetOauth(), []string(nil)
	if f.ClientID != nil {
		o.ClientId = *f.ClientID
		fields = append(fields, "http.oauth.client_id")
	}
	if f.ClientSecret != nil {
		o.ClientSecret = *f.ClientSecret
		fields = append(fields, "http.oauth.client_secret")
	}
	if len(f.Scope) > 0 {
		o.Scopes = f.Scope
		fields = append(fields, "http.oauth.scopes")
	}
	if f.ClientCredentials {
		o.Grant = mcppoolv1.OAuth_GRANT_CLIENT_CREDENTIALS
		fields = append(fields, "http.oauth.grant")
	}
	return fields, nil
}

func wantsLogin(err error) bool {
	return errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED
}
