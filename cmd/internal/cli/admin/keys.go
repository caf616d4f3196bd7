package admin

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
)

// KeysCmd is `pawl keys`. Running servers reload the key file when it changes.
type KeysCmd struct {
	Keys string `name:"keys" type:"path" placeholder:"FILE" help:"The file of hashed API keys. Without it, an operator's --key changes the keys of the server."`

	Add    KeysAddCmd    `cmd:"" group:"sub" help:"Create an API key; it is shown only once."`
	List   KeysListCmd   `cmd:"" default:"1" group:"sub" help:"List the keys."`
	Remove KeysRemoveCmd `cmd:"" aliases:"revoke" group:"sub" help:"Revoke a key; servers refuse it within 2 seconds."`
}

// client returns a client for the keys of the file or, without a file, of the server.
func (c *KeysCmd) client(s *discover.Session) (identityv1.IdentityServiceClient, error) {
	if c.Keys == "" {
		if cfg := s.Config(); cfg.Server == "" && cfg.Key == "" {
			return nil, ui.Usagef("which keys?").Then("--keys FILE or PAWL_KEYS for a file, as pawl up --keys FILE uses it; --key of an operator, for those of the running server")
		}
		return identityv1.NewIdentityServiceClient(s), nil
	}
	file, err := identity.OpenKeyFile(c.Keys)
	if err != nil {
		return nil, ui.Errorf("%v", err)
	}
	// A process that may change the file may do everything with keys.
	operator := identity.Principal{Sub: identity.LocalSub, Roles: []identity.Role{identity.RoleOperator}}
	conn := inproc.New(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return next(identity.NewContext(ctx, operator), req)
	}, nil)
	identityv1.RegisterIdentityServiceServer(conn, identity.NewAPI(file))
	return identityv1.NewIdentityServiceClient(conn), nil
}

// flags returns the flag with which another command reaches the same keys.
func (c *KeysCmd) flags(s *discover.Session) string {
	if c.Keys == "" {
		return s.Flags()
	}
	return " --keys " + c.Keys
}

// keyView returns a key as --json prints it.
func keyView(key *identityv1.ApiKey) map[string]any {
	view := map[string]any{"id": key.GetId(), "sub": key.GetSub(), "roles": roleNames(key.GetRoles()), "created": key.GetCreateTime().AsTime()}
	if key.GetNote() != "" {
		view["note"] = key.GetNote()
	}
	addRights(view, key)
	if at := key.GetExpireTime(); at != nil {
		view["expires"] = at.AsTime()
	}
	if at := key.GetLastUseTime(); at != nil {
		view["last_use"] = at.AsTime()
	}
	return view
}

// addRights adds the restrictions of a key to a view.
func addRights(view map[string]any, of interface {
	GetOnBehalfOf() []string
	GetMethods() []string
}) {
	if users := of.GetOnBehalfOf(); len(users) > 0 {
		view["on_behalf_of"] = users
	}
	if methods := of.GetMethods(); len(methods) > 0 {
		view["methods"] = methods
	}
}

// roleNames returns roles as --role takes them.
func roleNames(roles []identityv1.Role) []string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = strings.ToLower(strings.TrimPrefix(r.String(), "ROLE_"))
	}
	return names
}

// KeysAddCmd is `pawl keys add`.
type KeysAddCmd struct {
	Sub        string        `arg:"" help:"Whose key: the user's id."`
	Role       []string      `enum:"user,operator,service" default:"user" help:"What the key may do (repeatable): ${enum}."`
	OnBehalfOf []string      `sep:"none" placeholder:"GLOB" help:"With --role service: the users for whom the service may act (repeatable), such as 'partner:*' (default: all)."`
	Methods    []string      `sep:"none" placeholder:"GLOB" help:"With --role service: the gRPC methods that it may call (repeatable), such as 'pawl.mcppool.v1.*' (default: all)."`
	Note       string        `placeholder:"TEXT" help:"What the key is for."`
	Expires    time.Duration `placeholder:"TIME" help:"How long the key is valid, such as 720h (default: until it is removed)."`
}

// Run makes a key.
func (c *KeysAddCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, keys *KeysCmd) error {
	client, err := keys.client(s)
	if err != nil {
		return err
	}
	req := &identityv1.CreateApiKeyRequest{Sub: c.Sub, Note: c.Note, OnBehalfOf: c.OnBehalfOf, Methods: c.Methods}
	for _, r := range c.Role {
		req.Roles = append(req.Roles, identityv1.Role(identityv1.Role_value["ROLE_"+strings.ToUpper(r)]))
	}
	if c.Expires != 0 {
		req.ExpireTime = timestamppb.New(u.Now().Add(c.Expires))
	}
	made, err := client.CreateApiKey(ctx, req)
	if err != nil {
		return err
	}
	key := made.GetApiKey()
	if u.JSON {
		view := keyView(key)
		view["token"] = made.GetToken()
		return u.Document(view)
	}
	u.Printf("%s\n", made.GetToken())
	u.Note("key %s of %s; this token is not shown again", key.GetId(), key.GetSub())
	return nil
}

// KeysListCmd is `pawl keys list`.
type KeysListCmd struct{}

// Run lists keys.
func (c *KeysListCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, keys *KeysCmd) error {
	client, err := keys.client(s)
	if err != nil {
		return err
	}
	date := func(at *timestamppb.Timestamp) string {
		if at == nil {
			return "-"
		}
		return at.AsTime().In(u.Now().Location()).Format("2006-01-02 15:04")
	}
	lastUse := func(key *identityv1.ApiKey) string {
		if keys.Keys != "" {
			return "unknown" // only a server that runs knows
		}
		return date(key.GetLastUseTime())
	}
	views, t := []map[string]any{}, u.Table("ID", "USER", "ROLES", "CREATED", "EXPIRES", "LAST USE", "NOTE")
	req := &identityv1.ListApiKeysRequest{PageSize: 1000}
	for {
		page, err := client.ListApiKeys(ctx, req)
		if err != nil {
			return err
		}
		for _, key := range page.GetApiKeys() {
			views = append(views, keyView(key))
			roles := strings.Join(roleNames(key.GetRoles()), ",")
			if len(key.GetOnBehalfOf())+len(key.GetMethods()) > 0 {
				roles += " (restricted)"
			}
			t.Row(key.GetId(), key.GetSub(), roles,
				date(key.GetCreateTime()), date(key.GetExpireTime()), lastUse(key), key.GetNote())
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return u.List(map[string]any{"keys": views}, nil, t, "no keys; pawl keys add USER"+keys.flags(s)+" creates one")
		}
	}
}

// KeysRemoveCmd is `pawl keys remove`.
type KeysRemoveCmd struct {
	ID string `arg:"" help:"The key's id, as pawl keys list shows it."`
}

// Run removes a key.
func (c *KeysRemoveCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, keys *KeysCmd) error {
	client, err := keys.client(s)
	if err != nil {
		return err
	}
	if _, err := client.RevokeApiKey(ctx, &identityv1.RevokeApiKeyRequest{Id: c.ID}); err != nil {
		return ui.AsError(err).Then("pawl keys list%s", keys.flags(s))
	}
	return u.Result(map[string]string{"removed": c.ID}, nil, "key %s is removed", c.ID)
}
