package mcp

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// UpdateCmd is `pawl mcp update`.
type UpdateCmd struct {
	ID      string   `arg:"" complete:"server" help:"The server."`
	Command []string `arg:"" optional:"" help:"Behind --: the program to start and its arguments."`

	TransportFlags
	Trusted  *bool             `negatable:"" help:"Believe what the server says of its tools, or do not."`
	Disabled *bool             `negatable:"" help:"Keep all users from using it, or let them again."`
	Effect   map[string]string `mapsep:"none" placeholder:"TOOL=EFFECT" help:"What a tool does: read, write or destructive; * for those not named (repeatable)."`
	TrustFlags
	LoginFlags
	Unset   []string `sep:"none" placeholder:"WHAT" help:"Take away: env.NAME, header.NAME, effect.TOOL, cwd, rules, roots, sampling, scopes or oauth (repeatable)."`
	From    string   `type:"existingfile" placeholder:"FILE" help:"Make all of it as this file in the mcpServers format has it."`
	NoCheck bool     `name:"no-check" help:"Do not connect to see whether it works."`
}

// Run changes a server.
func (c *UpdateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	var file *mcppoolv1.McpServer
	if c.From != "" {
		var err error
		if file, err = c.entry(u); err != nil {
			return err
		}
	}
	at, err := s.Server(ctx)
	if err != nil {
		return err
	}
	old, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: c.ID})
	if err != nil {
		return err
	}
	server, mask, err := c.changed(old, file, at.Local())
	if err != nil {
		return err
	}
	got, err := s.Pool.UpdateMcpServer(ctx, &mcppoolv1.UpdateMcpServerRequest{McpServer: server, UpdateMask: mask})
	if err != nil {
		return err
	}
	if !u.JSON {
		u.Printf("%s is changed\n", c.ID)
		c.sayConsequences(u, old, got, mask.GetPaths())
	}
	warnOfModel(ctx, u, s, got)
	checked := c.check(ctx, u, s, got)
	if u.JSON {
		return cmp.Or(u.Document(got), checked)
	}
	return checked
}

// entry is what the file says of the server.
func (c *UpdateCmd) entry(u *ui.UI) (*mcppoolv1.McpServer, error) {
	add := AddCmd{Name: c.ID, From: c.From, Command: c.Command, TransportFlags: c.TransportFlags}
	servers, err := add.imported(u)
	if errors.Is(err, errNotInFile) {
		return nil, ui.Errorf("%s has no server %q", c.From, c.ID).Then("name the entry %s in the file, or say with flags what is to change: pawl mcp update --help", c.ID)
	}
	if err != nil {
		return nil, err
	}
	return servers[0], nil
}

// changed is the server as it is to be, and what of it is to be taken: with a file all of it, else what was named. Its etag is
// the old one's, so that a change made meanwhile is not lost.
func (c *UpdateCmd) changed(old, file *mcppoolv1.McpServer, local bool) (*mcppoolv1.McpServer, *fieldmaskpb.FieldMask, error) {
	server := proto.CloneOf(old)
	if file != nil {
		server = proto.CloneOf(file)
		server.Id, server.Etag, server.OwnerSub = old.GetId(), old.GetEtag(), old.GetOwnerSub()
		server.AutoActivate = file.GetAutoActivate() || old.GetAutoActivate() // a file that does not say it means no change
	} else if c.namesRules() {
		server.Permissions = nil
	}
	if file == nil && len(c.Root) > 0 {
		server.Roots = nil
	}
	if file != nil && local {
		localise(server)
	}
	var fields []string
	for _, set := range []func(*mcppoolv1.McpServer) ([]string, error){
		c.unset, // before what is given in its place
		func(s *mcppoolv1.McpServer) ([]string, error) { return c.reach(s, c.Command, local) },
		c.logins, c.switches, c.apply,
	} {
		names, err := set(server)
		if err != nil {
			return nil, nil, err
		}
		fields = append(fields, names...)
	}
	if file != nil {
		return server, &fieldmaskpb.FieldMask{Paths: []string{"*"}}, nil
	}
	if len(fields) == 0 {
		return nil, nil, ui.Usagef("nothing is to be changed").Then("pawl mcp update --help shows what can be")
	}
	slices.Sort(fields)
	return server, &fieldmaskpb.FieldMask{Paths: outermost(slices.Compact(fields))}, nil
}

// outermost leaves out what is part of another one that is named; the names are sorted.
func outermost(fields []string) []string {
	var kept []string
	for _, f := range fields {
		if n := len(kept); n > 0 && len(f) > len(kept[n-1]) && f[:len(kept[n-1])+1] == kept[n-1]+"." {
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// switches sets what is on or off, and what tools do.
func (c *UpdateCmd) switches(s *mcppoolv1.McpServer) ([]string, error) {
	var fields []string
	if c.Trusted != nil {
		s.Trusted = *c.Trusted
		fields = append(fields, "trusted")
	}
	if c.Disabled != nil {
		s.Disabled = *c.Disabled
		fields = append(fields, "disabled")
	}
	if len(c.Effect) > 0 {
		fields = append(fields, "tool_policies")
	}
	return fields, setEffects(s, c.Effect)
}

// check connects to the server, to see whether it works.
func (c *UpdateCmd) check(ctx context.Context, u *ui.UI, s *discover.Session, server *mcppoolv1.McpServer) error {
	if c.NoCheck || server.GetDisabled() || !server.GetActive() {
		return nil
	}
	tools, err := discover.All(ctx, s.Pool.ListTools, &mcppoolv1.ListToolsRequest{McpId: c.ID})
	switch {
	case wantsLogin(err):
		u.Say("  it wants a login: pawl mcp login %s", c.ID)
		return nil
	case err != nil:
		return ui.Errorf("%s is changed, but it does not work: %s", c.ID, ui.AsError(err).Message).
			Then("pawl mcp test %[1]s%[2]s says more; pawl mcp update %[1]s%[2]s changes it again", c.ID, s.Flags())
	}
	u.Say("  it works: %s (pawl mcp tools %s)", ui.Plural(len(tools.GetTools()), "tool"), c.ID)
	if n := tools.GetQuarantinedCount(); n > 0 {
		u.Say("  %d more need an approval: pawl mcp tools %s --quarantined", n, c.ID)
	}
	return nil
}
