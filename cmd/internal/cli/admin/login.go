package admin

import (
	"cmp"
	"context"
	"errors"
	"io"
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
	Issuer     string   `placeholder:"URL" help:"The OpenID Connect issuer that the server accepts. Its certificate may be of an authority of --ca."`
	ClientID   string   `name:"client-id" placeholder:"ID" help:"This program's client id at the issuer, which allows logins by device code."`
	SecretFile string   `name:"client-secret-file" type:"path" placeholder:"FILE" help:"File with the client's secret, if it has one. The environment variable PAWL_CLIENT_SECRET may have it instead."`
	Audience   string   `placeholder:"AUDIENCE" help:"Ask for a token for this audience, if the issuer gives tokens for several (default: the client's ID token)."`
	Scope      []string `default:"openid,offline_access" placeholder:"SCOPE" help:"Scopes to ask for (default ${default}; offline_access allows renewal)."`
	TokenStdin bool     `name:"token-stdin" help:"Read a token from standard input, for issuers without device codes. It is not renewed."`
}

// Run logs in by device code (RFC 8628): the user enters a code in any browser, which may be on another machine.
func (c *LoginCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	login := &discover.Login{Issuer: c.Issuer, ClientID: c.ClientID, SecretFile: c.SecretFile, Audience: c.Audience, CA: s.Config().TLS.CA}
	var err error
	switch {
	case c.TokenStdin:
		err = takeToken(ctx, u, login)
	case c.Issuer == "" || c.ClientID == "":
		return ui.Usagef("missing --issuer and --client-id").Then("pawl login --issuer URL --client-id ID, as the operator of the server says")
	default:
		err = c.byDeviceCode(ctx, u, login)
	}
	if err != nil {
		return err
	}
	err = discover.ChangeLogins(ctx, func(logins map[string]discover.Login) error {
		logins[s.Config().Server] = *login
		return nil
	})
	if err != nil {
		return ui.Errorf("%v", err)
	}
	return u.Result(map[string]any{"issuer": login.Issuer, "expires": login.Expires, "renewable": login.Refresh != ""}, nil,
		"logged in at %s; pawl whoami%s shows as which user", ui.Line(login.Issuer), s.Flags())
}

// takeToken reads the token from standard input.
func takeToken(ctx context.Context, u *ui.UI, login *discover.Login) error {
	if u.CanAsk() {
		u.Eprintf("the token: ")
	}
	text, err := u.Lines().Read(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := login.TakeToken(strings.TrimSpace(text)); err != nil {
		return ui.Errorf("%v", err).Then("give an API key with --key or PAWL_KEY")
	}
	return nil
}

func (c *LoginCmd) byDeviceCode(ctx context.Context, u *ui.UI, login *discover.Login) error {
	ctx, config, err := login.Client(ctx)
	if err != nil {
		return ui.Errorf("%v", err)
	}
	provider, err := oidc.NewProvider(ctx, c.Issuer)
	var more struct {
		RevokeURL string `json:"revocation_endpoint"`
	}
	if err == nil {
		err = provider.Claims(&more)
	}
	if err != nil {
		return ui.Errorf("the issuer %s cannot be used: %s", c.Issuer, ui.Line(err.Error())).Then("check whether it answers, and write its address exactly as its discovery document does")
	}
	config.Scopes, config.Endpoint.TokenURL, config.Endpoint.DeviceAuthURL = c.Scope, provider.Endpoint().TokenURL, provider.Endpoint().DeviceAuthURL
	login.TokenURL, login.RevokeURL = config.Endpoint.TokenURL, more.RevokeURL
	if config.Endpoint.DeviceAuthURL == "" {
		return ui.Errorf("the issuer %s has no logins by device code", c.Issuer).
			Then("give a token of it to pawl login --token-stdin, or use an API key: --key or PAWL_KEY")
	}
	var options []oauth2.AuthCodeOption
	for name, value := range map[string]string{"audience": c.Audience, "client_secret": config.ClientSecret} {
		if value != "" {
			options = append(options, oauth2.SetAuthURLParam(name, value))
		}
	}
	code, err := config.DeviceAuth(ctx, options...)
	if err != nil {
		return ui.Errorf("the issuer refused to begin a login: %s", ui.Line(err.Error())).Then("check --client-id, its secret, --audience and --scope")
	}
	u.Eprintf("Open %s\nand check or enter the code %s\n", ui.Line(cmp.Or(code.VerificationURIComplete, code.VerificationURI)), u.ErrStyle().Bold(ui.Line(code.UserCode)))
	token, err := config.DeviceAccessToken(ctx, code)
	if err == nil {
		err = login.Take(token)
	}
	if err != nil {
		return ui.Errorf("the login failed: %s", ui.Line(err.Error())).Then("pawl login begins again")
	}
	return nil
}

// LogoutCmd is `pawl logout`.
type LogoutCmd struct{}

// Run forgets the login for the server, and makes the issuer revoke its refresh token.
func (c *LogoutCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	var login discover.Login
	var found bool
	err := discover.ChangeLogins(ctx, func(logins map[string]discover.Login) error {
		login, found = logins[s.Config().Server]
		delete(logins, s.Config().Server)
		return nil
	})
	if err != nil {
		return ui.Errorf("%v", err)
	}
	if !found {
		return u.Result(map[string]bool{"removed": false}, nil, "there is no login for this server")
	}
	revoked, remains := false, ""
	switch {
	case login.Refresh == "":
	case login.RevokeURL == "":
		remains = "; the issuer revokes no tokens on request, so the session there stays until it expires or you end it there"
	default:
		if err := login.Revoke(ctx); err != nil {
			return ui.Errorf("logged out here, but the refresh token could not be revoked: %s", ui.Line(err.Error())).Then("end the session at %s", ui.Line(login.Issuer))
		}
		revoked, remains = true, "; the issuer has revoked the refresh token"
	}
	return u.Result(map[string]bool{"removed": true, "revoked": revoked}, nil, "logged out%s", remains)
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
	addRights(view, who)
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
			st.Field("key", 9, who.GetKeyId()) + st.Field("issuer", 9, who.GetIssuer()) + st.Field("expires", 9, expires) +
			st.Field("acts for", 9, strings.Join(who.GetOnBehalfOf(), ", ")) + st.Field("methods", 9, strings.Join(who.GetMethods(), ", "))
	})
}
