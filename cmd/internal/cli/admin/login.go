package admin

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
)

// LoginCmd is `pawl login`.
type LoginCmd struct {
	Issuer   string   `required:"" placeholder:"URL" help:"The OpenID Connect issuer that the server accepts."`
	ClientID string   `name:"client-id" required:"" placeholder:"ID" help:"This program's client id at the issuer, which allows logins by device code without a client secret."`
	Scope    []string `default:"openid,offline_access" placeholder:"SCOPE" help:"Scopes to ask for (default ${default}; offline_access allows renewal)."`
}

// Run logs in by device code (RFC 8628): the user enters a code in any browser, which may be on another machine.
func (c *LoginCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	ctx = oidc.ClientContext(ctx, &http.Client{Timeout: discover.LoginTimeout})
	provider, err := oidc.NewProvider(ctx, c.Issuer)
	if err != nil {
		return ui.Errorf("the issuer %s cannot be used: %v", c.Issuer, err).Then("write its address exactly as its discovery document does")
	}
	endpoint := provider.Endpoint()
	if endpoint.DeviceAuthURL == "" {
		return ui.Errorf("the issuer %s has no logins by device code", c.Issuer).Then("use an API key: --key or PAWL_KEY")
	}
	endpoint.AuthStyle = oauth2.AuthStyleInParams
	config := oauth2.Config{ClientID: c.ClientID, Endpoint: endpoint, Scopes: c.Scope}
	code, err := config.DeviceAuth(ctx)
	if err != nil {
		return ui.Errorf("the issuer refused to begin a login: %v", err).Then("check --client-id and --scope")
	}
	address := code.VerificationURI
	if code.VerificationURIComplete != "" {
		address = code.VerificationURIComplete
	}
	u.Eprintf("Open %s\nand check or enter the code %s\n", ui.Line(address), u.ErrStyle().Bold(ui.Line(code.UserCode)))
	token, err := config.DeviceAccessToken(ctx, code)
	if err != nil {
		return ui.Errorf("the login failed: %v", err).Then("pawl login begins again")
	}
	login := discover.Login{Issuer: c.Issuer, ClientID: c.ClientID, TokenURL: endpoint.TokenURL}
	login.Take(token)
	if err := discover.SaveLogin(s.Config().Server, &login); err != nil {
		return ui.Errorf("%v", err)
	}
	return u.Result(map[string]any{"issuer": login.Issuer, "expires": login.Expires, "renewable": login.Refresh != ""}, nil,
		"logged in at %s; pawl whoami%s shows as which user", login.Issuer, s.Flags())
}

// LogoutCmd is `pawl logout`.
type LogoutCmd struct{}

// Run forgets the login for the server.
func (c *LogoutCmd) Run(u *ui.UI, s *discover.Session) error {
	server := s.Config().Server
	logins, err := discover.Logins()
	if _, ok := logins[server]; err == nil && !ok {
		return u.Result(map[string]bool{"removed": false}, nil, "there is no login for this server")
	}
	if err == nil {
		err = discover.SaveLogin(server, nil)
	}
	if err != nil {
		return ui.Errorf("%v", err)
	}
	return u.Result(map[string]bool{"removed": true}, nil, "logged out; the session at the issuer stays")
}

// WhoamiCmd is `pawl whoami`.
type WhoamiCmd struct{}

// Run shows who the caller is to the server.
func (c *WhoamiCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	who, err := identityv1.NewIdentityServiceClient(s).WhoAmI(ctx, &identityv1.WhoAmIRequest{})
	if err != nil {
		return err
	}
	view := map[string]any{"sub": who.GetSub(), "roles": roleNames(who.GetRoles())}
	expires := ""
	if at := who.GetExpireTime(); at != nil {
		view["expires"] = at.AsTime()
		expires = at.AsTime().In(u.Now().Location()).Format(time.RFC3339)
	}
	if who.GetKeyId() != "" {
		view["key"] = who.GetKeyId()
	}
	if who.GetIssuer() != "" {
		view["issuer"] = who.GetIssuer()
	}
	return u.Show(view, nil, func() string {
		st := u.OutStyle()
		return st.Field("user", 9, who.GetSub()) + st.Field("roles", 9, strings.Join(roleNames(who.GetRoles()), ", ")) +
			st.Field("key", 9, who.GetKeyId()) + st.Field("issuer", 9, who.GetIssuer()) + st.Field("expires", 9, expires)
	})
}
