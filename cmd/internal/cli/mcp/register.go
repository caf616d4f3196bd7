package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/mcppool-svc/mcppool"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// AddCmd is `pawl mcp add`.
type AddCmd struct {
	Name    string   `arg:"" optional:"" help:"The server's id: lower-case letters, digits, - and _. With --from: the only entry to take."`
	Command []string `arg:"" optional:"" help:"After --: the program to start and its arguments."`

	ServerFlags
	Trusted bool   `help:"Believe what the server declares about its tools (read-only, destructive …)."`
	From    string `type:"existingfile" placeholder:"FILE" help:"Take the servers of a file in the mcpServers format that other MCP clients use."`
}

// Run registers servers.
func (c *AddCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	servers, err := c.servers(u)
	if err != nil {
		return err
	}
	pawl, err := s.Server(ctx)
	if err != nil {
		return err
	}
	added := &mcppoolv1.ListMcpServersResponse{}
	var failed []error
	for _, server := range servers {
		if pawl.Local() {
			localise(server)
		}
		got, err := c.add(ctx, u, s, server)
		if got != nil {
			added.McpServers = append(added.McpServers, got)
			warnOfModel(ctx, u, s, got)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if u.JSON {
		if err := u.Document(added); err != nil {
			return err
		}
	}
	return reportAllButLast(u, failed)
}

// reportAllButLast reports all errors but the last one, which it returns; nil if there are none.
func reportAllButLast(u *ui.UI, failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	for _, err := range failed[:len(failed)-1] {
		u.Report(err)
	}
	return failed[len(failed)-1]
}

// add registers and activates one server, checks the connection, and prints the result. A disabled server, and one with an owner in the file, is
// only registered.
func (c *AddCmd) add(ctx context.Context, u *ui.UI, s *discover.Session, server *mcppoolv1.McpServer) (*mcppoolv1.McpServer, error) {
	id, owner := server.GetId(), server.GetOwnerSub()
	server, err := s.Pool.CreateMcpServer(ctx, &mcppoolv1.CreateMcpServerRequest{McpServer: server, McpServerId: id})
	if err != nil {
		return nil, withID(id, err)
	}
	if server.GetDisabled() {
		u.Say("%s is registered, but disabled", id)
		return server, nil
	}
	if owner != "" {
		u.Say("%s is registered for %s; only that user can activate it: pawl mcp activate %[1]s", id, owner)
		return server, nil
	}
	if server, err = s.Pool.ActivateMcpServer(ctx, &mcppoolv1.ActivateMcpServerRequest{Id: id}); err != nil {
		return nil, withID(id, err)
	}
	found := ""
	if !c.NoCheck {
		if found, err = connect(ctx, s, id, "registered"); err != nil {
			return server, err
		}
	}
	u.Say("%s is registered and active%s", id, found)
	if s.Shared() && server.GetOwnerSub() == "" {
		u.Say("%s is shared: all users see and may use it, with the secrets that it is registered with", id)
	}
	return server, nil
}

// connect lists the tools of a server and returns a summary of them, or the advice to log in. done is what the command did to the server before
// ("registered", "changed"), for the error.
func connect(ctx context.Context, s *discover.Session, id, done string) (string, error) {
	tools, err := discover.All(ctx, s.Pool.ListTools, &mcppoolv1.ListToolsRequest{McpId: id})
	switch {
	case errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED:
		return "; it requires a login: pawl mcp login " + id, nil
	case err != nil:
		return "", ui.Errorf("%s is %s, but it does not work: %s", id, done, ui.AsError(err).Message).
			Then("pawl mcp test %[1]s%[2]s says more; pawl mcp update %[1]s%[2]s changes what is wrong with it", id, s.Flags())
	}
	found := fmt.Sprintf(": %s (pawl mcp tools %s)", ui.Plural(len(tools.GetTools()), "tool"), id)
	if n := tools.GetQuarantinedCount(); n > 0 {
		found += fmt.Sprintf(", %d more need an approval (pawl mcp tools %s --quarantined)", n, id)
	}
	return found, nil
}

// withID returns err with the server's id in its message and its advice.
func withID(id string, err error) error {
	e := ui.AsError(err)
	then := strings.ReplaceAll(e.Next, " ID", " "+id)
	if errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS {
		then = fmt.Sprintf("pawl mcp update %s changes it, pawl mcp remove %[1]s removes it; or choose another id", id)
	}
	labelled := ui.WrapError(err, "%s: %s", id, e.Message).Then("%s", then)
	labelled.Code = e.Code
	return labelled
}

// servers returns the registrations that the command line asks for.
func (c *AddCmd) servers(u *ui.UI) ([]*mcppoolv1.McpServer, error) {
	servers := []*mcppoolv1.McpServer{{Id: c.Name}}
	switch {
	case c.From != "":
		var err error
		if servers, err = c.readFile(u, "leave the name out to take all of them"); err != nil {
			return nil, err
		}
	case c.Name == "":
		return nil, ui.Usagef("the server has no name").Then("pawl mcp add NAME -- COMMAND ARGS…, pawl mcp add NAME --url URL, or pawl mcp add --from FILE")
	case c.URL == "" && len(c.Command) == 0:
		return nil, ui.Usagef("%s has neither a command nor --url", c.Name).
			Then("pawl mcp add %s -- COMMAND ARGS…, or pawl mcp add %s --url URL", c.Name, c.Name)
	}
	for _, s := range servers {
		s.Trusted = s.GetTrusted() || c.Trusted // a file may set it too
		if err := c.apply(s, c.Command, false); err != nil {
			return nil, err
		}
	}
	return servers, nil
}

// readFile reads servers from the file. advice is for the error that no server has the name.
func (c *AddCmd) readFile(u *ui.UI, advice string) ([]*mcppoolv1.McpServer, error) {
	if len(c.Command) > 0 || c.URL != "" {
		return nil, ui.Usagef("--from takes commands and addresses from the file").Then("leave the command and --url out")
	}
	servers, err := mcppool.ReadServers(c.From, c.Name)
	if err != nil {
		return nil, fileError(c.From, err)
	}
	if len(servers) == 0 {
		return nil, ui.Errorf("%s has no server %q", c.From, c.Name).Then("%s", advice)
	}
	var chosen []*mcppoolv1.McpServer
	for _, s := range servers {
		for _, key := range s.Unknown {
			u.Warn("server %q: the key %q is unknown and has no effect", cmp.Or(s.GetDisplayName(), s.GetId()), key)
		}
		chosen = append(chosen, s.McpServer)
	}
	return chosen, nil
}

// fileError explains an error of a file, and names an entry that can still be added.
func fileError(path string, err error) error {
	var bad *mcppool.BadServers
	if !errors.As(err, &bad) || len(bad.Good) == 0 {
		return ui.Errorf("%v", err).Then(`correct the file; it must be {"mcpServers": {"name": {"command": …}}}`)
	}
	return ui.Errorf("%v", err).Then("nothing was added: correct the file, or add only a valid entry: pawl mcp add %s --from %s", bad.Good[0], path)
}

// localise makes the current folder the working folder of a program that has none, and resolves the program's relative path against it.
func localise(s *mcppoolv1.McpServer) {
	stdio := s.GetStdio()
	if stdio == nil || stdio.GetCwd() != "" {
		return
	}
	here, err := os.Getwd()
	if err != nil {
		return // the folder is gone; the program runs in the pool's folder
	}
	stdio.Cwd = here
	if strings.ContainsRune(stdio.GetCommand(), filepath.Separator) && !filepath.IsAbs(stdio.GetCommand()) {
		stdio.Command = filepath.Join(here, stdio.GetCommand())
	}
}

// warnOfModel warns if the server's sampling policy names a model that does not exist. It prints nothing if models cannot be listed.
func warnOfModel(ctx context.Context, u *ui.UI, s *discover.Session, server *mcppoolv1.McpServer) {
	model := server.GetSampling().GetModel()
	if model == "" {
		return
	}
	if _, err := s.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{Name: model}); status.Code(err) == codes.InvalidArgument {
		u.Warn("%s cannot use its sampling model: %s; choose another: pawl mcp update %[1]s --sampling MODEL", server.GetId(), ui.AsError(err).Message)
	}
}

// UpdateCmd is `pawl mcp update`.
type UpdateCmd struct {
	ServerArg
	OwnerFlag
	Command []string `arg:"" optional:"" help:"After --: the program to start and its arguments."`

	ServerFlags
	Trusted  *bool    `negatable:"" help:"Believe what the server declares about its tools, or do not."`
	Disabled *bool    `negatable:"" help:"Forbid all users to use the server, or allow it again."`
	Unset    []string `sep:"none" placeholder:"WHAT" help:"Remove env.NAME, header.NAME, effect.TOOL, cwd, rules, roots, sampling, scopes or oauth (repeatable)."`
	From     string   `type:"existingfile" placeholder:"FILE" help:"Replace the whole configuration by the entry of this file in the mcpServers format."`
}

// Run changes a server.
func (c *UpdateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if nothing := (UpdateCmd{ServerArg: c.ServerArg, OwnerFlag: c.OwnerFlag, ServerFlags: ServerFlags{NoCheck: c.NoCheck}}); reflect.DeepEqual(*c, nothing) {
		return ui.Usagef("no change is given").Then("pawl mcp update --help lists the flags")
	}
	var file *mcppoolv1.McpServer
	if c.From != "" {
		add := AddCmd{Name: c.ID, From: c.From, Command: c.Command, ServerFlags: ServerFlags{URL: c.URL}}
		servers, err := add.readFile(u, "name the entry "+c.ID+" in the file, or change the server with flags: pawl mcp update --help")
		if err != nil {
			return err
		}
		file = servers[0]
	}
	pawl, err := s.Server(ctx)
	if err != nil {
		return err
	}
	old, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: c.ID, OwnerSub: c.Owner})
	if err != nil {
		return err
	}
	server, err := c.updatedServer(old, file, pawl.Local())
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
	return c.report(ctx, u, s, old, got, mask.GetPaths())
}

// report prints the consequences of the change, and connects to check the server.
func (c *UpdateCmd) report(ctx context.Context, u *ui.UI, s *discover.Session, old, now *mcppoolv1.McpServer, fields []string) (err error) {
	if !u.JSON {
		u.Printf("%s is changed\n", c.ID)
		c.printConsequences(u, old, now, fields)
	}
	warnOfModel(ctx, u, s, now)
	found := ""
	if !c.NoCheck && c.Owner == "" && !now.GetDisabled() && now.GetActive() {
		found, err = connect(ctx, s, c.ID, "changed")
	}
	switch {
	case u.JSON:
		return cmp.Or(u.Document(now), err)
	case strings.HasPrefix(found, ":"):
		u.Printf("  it works%s\n", found)
	case found != "":
		u.Printf("  %s\n", strings.TrimPrefix(found, "; "))
	}
	return err
}

// updatedServer returns old with the changes. It keeps the etag, so that the update fails if the server was changed meanwhile.
func (c *UpdateCmd) updatedServer(old, file *mcppoolv1.McpServer, local bool) (*mcppoolv1.McpServer, error) {
	server := proto.CloneOf(old)
	if file != nil {
		server = proto.CloneOf(file)
		server.Id, server.Etag, server.OwnerSub = old.GetId(), old.GetEtag(), old.GetOwnerSub()
		server.AutoActivate = file.GetAutoActivate() || old.GetAutoActivate() // a file without the key means no change
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
	for _, what := range c.Unset { // before the flags, which may set a new value
		if err := unset(server, what); err != nil {
			return nil, err
		}
	}
	ui.Set(&server.Trusted, c.Trusted)
	ui.Set(&server.Disabled, c.Disabled)
	return server, c.apply(server, c.Command, local)
}

// resets are the values of --unset that apply to every server.
var resets = map[string]func(*mcppoolv1.McpServer){
	"rules":    func(s *mcppoolv1.McpServer) { s.Permissions = nil },
	"sampling": func(s *mcppoolv1.McpServer) { s.Sampling = nil },
	"roots":    func(s *mcppoolv1.McpServer) { s.Roots = nil },
}

// unset clears the field that --unset names.
func unset(s *mcppoolv1.McpServer, what string) error {
	kind, name, _ := strings.Cut(what, ".")
	found := true
	switch {
	case name != "" && kind == "env":
		found = remove(s.GetStdio().GetEnv(), name)
	case name != "" && kind == "header":
		found = remove(s.GetHttp().GetHeaders(), name)
	case name != "" && kind == "effect":
		found = remove(s.GetToolPolicies(), name)
	case resets[what] != nil:
		resets[what](s)
	case what == "cwd" && s.GetStdio() != nil:
		s.GetStdio().Cwd = ""
	case what == "scopes" && s.GetHttp().GetOauth() != nil:
		s.GetHttp().GetOauth().Scopes = nil
	case what == "oauth" && s.GetHttp() != nil:
		s.GetHttp().Oauth = nil
	case slices.Contains([]string{"cwd", "scopes", "oauth"}, what):
		return ui.Usagef("--unset %s: %s is a server without this setting", what, s.GetId()).Then("pawl mcp show %s says what it has", s.GetId())
	default:
		return ui.Usagef("--unset %q: there is no such setting", what).
			Then("use env.NAME, header.NAME, effect.TOOL, cwd, rules, roots, sampling, scopes or oauth")
	}
	if !found {
		return ui.Errorf("--unset %s: %s has no such entry", what, s.GetId()).Then("pawl mcp show %s says what it has", s.GetId())
	}
	return nil
}

// remove deletes a key and reports whether the map had it.
func remove[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	delete(m, key)
	return ok
}

// printConsequences prints the effects of a change on approvals, logins and the server's use.
func (c *UpdateCmd) printConsequences(u *ui.UI, old, now *mcppoolv1.McpServer, fields []string) {
	maskedURL := strings.Contains(now.GetHttp().GetUrl(), "***") // the mask may hide that the address changed
	if moved(old, now) || maskedURL && c.URL != "" && !strings.Contains(c.URL, "***") {
		u.Printf("  it counts as another server now: approvals of its tools and logins to it are forgotten; the tools that it has at its\n" +
			"  first use are accepted as they are\n")
	} else if slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "http.oauth") }) {
		u.Printf("  an existing login stays; the next one uses the new settings (pawl mcp login %s)\n", now.GetId())
	}
	if old.GetPinning() != now.GetPinning() {
		u.Printf("  %s\n", pinningText(now.GetPinning()))
	}
	if c.Owner == "" && !now.GetDisabled() && !now.GetActive() {
		u.Printf("  your tasks do not use it: pawl mcp activate %s\n", now.GetId())
	}
}

// moved reports whether the server's command, folder or address changed. The pool forgets approvals and logins then.
func moved(old, now *mcppoolv1.McpServer) bool {
	o, n := old.GetStdio(), now.GetStdio()
	return (o == nil) != (n == nil) || o.GetCommand() != n.GetCommand() || !slices.Equal(o.GetArgs(), n.GetArgs()) || o.GetCwd() != n.GetCwd() ||
		old.GetHttp().GetUrl() != now.GetHttp().GetUrl()
}

func pinningText(p mcppoolv1.Pinning) string {
	switch p {
	case mcppoolv1.Pinning_PINNING_TRUST_ALL:
		return "its tools need no approval now; given approvals are kept, in case approvals are needed again"
	case mcppoolv1.Pinning_PINNING_ALLOW_NEW:
		return "its changed tools need an approval now, its new ones do not"
	}
	return "its new and changed tools need an approval now, also those that came while none was needed"
}
