package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// TestRights: a service calls the methods that its key allows, for the users that its key allows.
func TestRights(t *testing.T) {
	const callTool = "/pawl.mcppool.v1.McpPoolService/CallTool"
	service, user := []Role{RoleService}, []Role{RoleUser, RoleService}
	for name, c := range map[string]struct {
		roles       []Role
		users       []string
		methods     []string
		method, sub string
		want        commonv1.ErrorReason
	}{
		"no restriction":             {service, nil, nil, callTool, "ann", ok},
		"for itself":                 {service, nil, nil, callTool, "", forbidden},
		"for itself, as a user":      {user, nil, nil, callTool, "", ok},
		"for itself, as an operator": {[]Role{RoleOperator, RoleService}, nil, nil, callTool, "", ok},
		"for itself, a replica":      {service, nil, nil, "/pawl.mcppool.v1.McpPoolPeerService/PullEntries", "", ok},
		"for itself, who it is":      {service, nil, []string{"x"}, "/pawl.identity.v1.IdentityService/WhoAmI", "", ok},
		"for itself, keys":           {service, nil, nil, "/pawl.identity.v1.IdentityService/ListApiKeys", "", forbidden},
		"reflection":                 {service, nil, []string{"x"}, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "", ok},

		"the user":              {service, []string{"bob", "ann"}, nil, callTool, "ann", ok},
		"another user":          {service, []string{"ann"}, nil, callTool, "anna", forbidden},
		"users with a prefix":   {service, []string{"partner:*"}, nil, callTool, "partner:ann", ok},
		"without the prefix":    {service, []string{"partner:*"}, nil, callTool, "ann", forbidden},
		"a star and a slash":    {service, []string{"*"}, nil, callTool, "spiffe://a/b", forbidden},
		"two stars":             {service, []string{"**"}, nil, callTool, "spiffe://a/b", ok},
		"the service as a user": {user, []string{"bob"}, nil, callTool, "", ok},

		"the method":            {service, nil, []string{"pawl.mcppool.v1.McpPoolService/CallTool"}, callTool, "ann", ok},
		"with a slash in front": {service, nil, []string{callTool}, callTool, "ann", ok},
		"another method":        {service, nil, []string{"/pawl.mcppool.v1.McpPoolService/CallTools"}, callTool, "ann", forbidden},
		"all of a service":      {service, nil, []string{"pawl.mcppool.v1.McpPoolService/*"}, callTool, "ann", ok},
		"a service":             {service, nil, []string{"pawl.mcppool.v1.McpPoolService"}, callTool, "ann", ok},
		"another service":       {service, nil, []string{"pawl.planner.v1.PlannerService/*"}, callTool, "ann", forbidden},
		"a package":             {service, nil, []string{"x", "pawl.mcppool.v1.*"}, callTool, "ann", ok},
		"another package":       {service, nil, []string{"pawl.mcppool.v2.*"}, callTool, "ann", forbidden},
		"methods by verb":       {service, nil, []string{"pawl.**/{Get,List}*"}, callTool, "ann", forbidden},
		"also as a user":        {user, nil, []string{"x"}, callTool, "", forbidden},
		"both":                  {service, []string{"ann"}, []string{"pawl.**"}, callTool, "ann", ok},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := open(t, keyPath(t))
			token, _, err := k.Add(Key{Sub: "executor", Roles: c.roles, Rights: Rights{c.users, c.methods}})
			if err != nil {
				t.Fatal(err)
			}
			md := metadata.Pairs("authorization", "Bearer "+token)
			if c.sub != "" {
				md.Set(onBehalfKey, c.sub)
			}
			p, _, err := call(t, k, c.method, md)
			if errs.Reason(err) != c.want {
				t.Fatalf("err = %v, want %v", err, c.want)
			}
			if err == nil && c.sub != "" && (p.Sub != c.sub || !p.OnBehalf || p.Has(RoleService)) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestRightsInTheFile: what the file says is enforced, and what cannot be enforced is refused.
func TestRightsInTheFile(t *testing.T) {
	entry := "version: 1\nkeys:\n- {id: a, sub: executor, roles: [service], sha256: " + strings.Repeat("1", 64) + ", created: 2026-01-01T00:00:00Z, on_behalf_of: [ann]}\n"
	for name, c := range map[string]struct{ old, new, want string }{
		"right":         {"", "", ""},
		"no service":    {"[service]", "[user]", "field on_behalf_of: it restricts services"},
		"empty":         {"[ann]", "[]", "field on_behalf_of: the list is empty"},
		"an empty glob": {"[ann]", `[""]`, `field on_behalf_of: "" is not a glob`},
		"no glob":       {"on_behalf_of: [ann]", `methods: ["a["]`, `field methods: "a[" is not a glob`},
		"misspelt":      {"on_behalf_of", "onBehalfOf", "field onBehalfOf not found"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys.yaml")
			if err := os.WriteFile(path, []byte(strings.Replace(entry, c.old, c.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			k, err := OpenKeyFile(path)
			if c.want == "" && (err != nil || k.List()[0].OnBehalfOf[0] != "ann") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}
