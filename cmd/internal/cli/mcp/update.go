package mcp

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// UpdateCmd is `pawl mcp update`.
type UpdateCmd struct {
	ServerArg
	Command []string `arg:"" optional:"" help:"Behind --: the program to start and its arguments."`

	ServerFlags
	Trusted  *bool    `negatable:"" help:"Believe what the server says of its tools, or do not."`
	Disabled *bool    `negatable:"" help:"Keep all users from using it, or let them again."`
	Unset    []string `sep:"none" placeholder:"WHAT" help:"Take away: env.NAME, header.NAME, effect.TOOL, cwd, rules, roots, sampling, scopes or oauth (repeatable)."`
	From     string   `type:"existingfile" placeholder:"FILE" help:"Make all of it as this file in the mcpServers format has it."`
}

// Run changes a server.
func (c *UpdateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if nothing := (UpdateCmd{ServerArg: c.ServerArg, ServerFlags: ServerFlags{NoCheck: c.NoCheck}}); reflect.DeepEqual(*c, nothing) {
		return ui.Usagef("nothing is to be changed").Then("pawl mcp update --help shows what can be")
	}
	var file *mcppoolv1.McpServer
	if c.From != "" {
		add := AddCmd{Name: c.ID, From: c.From, Command: c.Command, ServerFlags: ServerFlags{URL: c.URL}}
		servers, err := add.imported(u, "name the entry "+c.ID+" in the file, or say with flags what is to change: pawl mcp update --help")
		if err != nil {
			return err
		}
		file = servers[0]
	}
	at, err := s.Server(ctx)
	if err != nil {
		return err
	}
	old, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: c.ID})
	if err != nil {
		return err
	}
	server, err := c.changed(old, file, at.Local())
	if err != nil {
		return err
	}
	mask := &fieldmaskpb.FieldMask{Paths: []string{"*"}}
	if file == nil {
		mask.Paths = discover.Differences(old.ProtoReflect(), server.ProtoReflect())
	}
	got := old
	if len(mask.GetPaths()) > 0 {
		if got, err = s.Pool.UpdateMcpServer(ctx, &mcppoolv1.UpdateMcpServerRequest{McpServer: server, UpdateMask: mask}); err != nil {
			return err
		}
	}
	if !u.JSON {
		u.Printf("%s is changed\n", c.ID)
		c.sayConsequences(u, old, got, mask.GetPaths())
	}
	warnOfModel(ctx, u, s, got)
	found := ""
	if !c.NoCheck && !got.GetDisabled() && got.GetActive() {
		found, err = connect(ctx, s, c.ID, "changed")
	}
	if u.JSON {
		return cmp.Or(u.Document(got), err)
	}
	if strings.HasPrefix(found, ":") {
		found = "it works" + found
	}
	if found != "" {
		u.Printf("  %s\n", strings.TrimPrefix(found, "; "))
	}
	return err
}

// changed is the server as it is to be. Its etag is the old one's, so that a change made meanwhile is not lost.
func (c *UpdateCmd) changed(old, file *mcppoolv1.McpServer, local bool) (*mcppoolv1.McpServer, error) {
	server := proto.CloneOf(old)
	if file != nil {
		server = proto.CloneOf(file)
		server.Id, server.Etag, server.OwnerSub = old.GetId(), old.GetEtag(), old.GetOwnerSub()
		server.AutoActivate = file.GetAutoActivate() || old.GetAutoActivate() // a file that does not say it means no change
		if local {
			localise(server)
		}
	} else {
		if len(c.Deny)+len(c.Ask)+len(c.Allow) > 0 {
			server.Permissions = nil
		}
		if len(c.Root) > 0 {
			server.Roots = nil
		}
	}
	for _, what := range c.Unset { // before what is given in its place
		if err := unset(server, what); err != nil {
			return nil, err
		}
	}
	ui.Set(&server.Trusted, c.Trusted)
	ui.Set(&server.Disabled, c.Disabled)
	return server, c.apply(server, c.Command, local)
}

// wholes are what --unset takes away of any server.
var wholes = map[string]func(*mcppoolv1.McpServer){
	"rules":    func(s *mcppoolv1.McpServer) { s.Permissions = nil },
	"sampling": func(s *mcppoolv1.McpServer) { s.Sampling = nil },
	"roots":    func(s *mcppoolv1.McpServer) { s.Roots = nil },
}

// unset takes away what --unset names.
func unset(s *mcppoolv1.McpServer, what string) error {
	kind, name, _ := strings.Cut(what, ".")
	there := true
	switch {
	case name != "" && kind == "env":
		there = remove(s.GetStdio().GetEnv(), name)
	case name != "" && kind == "header":
		there = remove(s.GetHttp().GetHeaders(), name)
	case name != "" && kind == "effect":
		there = remove(s.GetToolPolicies(), name)
	case wholes[what] != nil:
		wholes[what](s)
	case what == "cwd" && s.GetStdio() != nil:
		s.GetStdio().Cwd = ""
	case what == "scopes" && s.GetHttp().GetOauth() != nil:
		s.GetHttp().GetOauth().Scopes = nil
	case what == "oauth" && s.GetHttp() != nil:
		s.GetHttp().Oauth = nil
	case slices.Contains([]string{"cwd", "scopes", "oauth"}, what):
		return ui.Usagef("--unset %s: %s is not a server that has it", what, s.GetId()).Then("pawl mcp show %s says what it has", s.GetId())
	default:
		return ui.Usagef("--unset %q: there is nothing of that name", what).
			Then("use env.NAME, header.NAME, effect.TOOL, cwd, rules, roots, sampling, scopes or oauth")
	}
	if !there {
		return ui.Errorf("--unset %s: %s has none of that name", what, s.GetId()).Then("pawl mcp show %s says what it has", s.GetId())
	}
	return nil
}

// remove deletes a key and reports whether it was there.
func remove[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	delete(m, key)
	return ok
}

// sayConsequences says what a change means for what was approved, for logins, and for who may use the server.
func (c *UpdateCmd) sayConsequences(u *ui.UI, old, now *mcppoolv1.McpServer, fields []string) {
	if moved(old, now) || c.URL != "" && hides(now.GetHttp().GetUrl()) && !hides(c.URL) {
		u.Printf("  it is another server now: what was approved of its tools, and logins to it, are forgotten; the tools that it has when it\n" +
			"  is used for the first time are taken as they are\n")
	} else if slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "http.oauth") }) {
		u.Printf("  a login that there is stays; the next one is made as said now (pawl mcp login %s)\n", now.GetId())
	}
	if old.GetPinning() != now.GetPinning() {
		u.Printf("  %s\n", pinningText(now.GetPinning()))
	}
	if !now.GetDisabled() && !now.GetActive() {
		u.Printf("  your tasks do not use it: pawl mcp activate %s\n", now.GetId())
	}
}

// hides reports whether a part of an address is not shown.
func hides(address string) bool { return strings.Contains(address, "***") }

// moved reports whether another program or address answers now: what the pool keeps approvals and logins for.
func moved(old, now *mcppoolv1.McpServer) bool {
	o, n := old.GetStdio(), now.GetStdio()
	return (o == nil) != (n == nil) || o.GetCommand() != n.GetCommand() || !slices.Equal(o.GetArgs(), n.GetArgs()) || o.GetCwd() != n.GetCwd() ||
		old.GetHttp().GetUrl() != now.GetHttp().GetUrl()
}

func pinningText(p mcppoolv1.Pinning) string {
	switch p {
	case mcppoolv1.Pinning_PINNING_TRUST_ALL:
		return "its tools need no approval now; those that were given are kept for when they do again"
	case mcppoolv1.Pinning_PINNING_ALLOW_NEW:
		return "tools of it that change need an approval now, new ones do not"
	}
	return "tools of it that are new or change need an approval now; those that came while they did not need it do too"
}
