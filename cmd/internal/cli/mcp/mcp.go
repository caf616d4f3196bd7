// Package mcp has the commands for MCP servers: registering, trusting, logging in to and testing them, and calling their tools.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/mcppool-svc/workspace"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// Cmd is `pawl mcp`.
type Cmd struct {
	List       ListCmd       `cmd:"" group:"sub" help:"List MCP servers."`
	Show       ShowCmd       `cmd:"" group:"sub" help:"Show one MCP server."`
	Add        AddCmd        `cmd:"" group:"sub" help:"Register an MCP server; an operator's is shared with all users."`
	Update     UpdateCmd     `cmd:"" group:"sub" help:"Change an MCP server."`
	Remove     RemoveCmd     `cmd:"" group:"sub" help:"Remove an MCP server."`
	Activate   ActivateCmd   `cmd:"" group:"sub" help:"Let your tasks use a server."`
	Deactivate DeactivateCmd `cmd:"" group:"sub" help:"Stop your tasks from using a server."`
	Tools      ToolsCmd      `cmd:"" group:"sub" help:"List the tools of your servers, or of one."`
	Approve    ApproveCmd    `cmd:"" group:"sub" help:"Approve a quarantined tool: one that is new or has changed."`
	Test       TestCmd       `cmd:"" group:"sub" help:"Check a server; say what is wrong and what to do."`
	Logs       LogsCmd       `cmd:"" group:"sub" help:"Show what a server's program wrote to stderr."`
	Login      LoginCmd      `cmd:"" group:"sub" help:"Log in to a server that requires it."`
	Logout     LogoutCmd     `cmd:"" group:"sub" help:"Forget the login to a server."`
	Call       CallCmd       `cmd:"" group:"sub" help:"Call a tool."`
	Resources  ResourcesCmd  `cmd:"" group:"sub" help:"List the resources of a server."`
	Read       ReadCmd       `cmd:"" group:"sub" help:"Read a resource."`
	Prompts    PromptsCmd    `cmd:"" group:"sub" help:"List the prompts of a server."`
	Prompt     PromptCmd     `cmd:"" group:"sub" help:"Show a prompt with its arguments filled in."`
	Serve      ServeCmd      `cmd:"" group:"sub" help:"Serve your MCP servers to an MCP client on standard input and output."`
	Workspace  WorkspaceCmd  `cmd:"" group:"sub" help:"Serve a folder as an MCP server on standard input and output."`
}

// ListCmd is `pawl mcp list`.
type ListCmd struct {
	Active bool `help:"Only servers that your tasks may use."`
	All    bool `help:"Also unused workspace servers of other folders."`
	OwnerFlag
}

// Run lists servers.
func (c *ListCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	list, err := discover.All(ctx, s.Pool.ListMcpServers, &mcppoolv1.ListMcpServersRequest{ActiveOnly: c.Active, OwnerSub: c.Owner})
	hidden := 0
	t := u.Table("ID", "ACTIVE", "CONNECTION", "WHAT")
	for _, server := range list.GetMcpServers() {
		if !c.All && discover.OtherFolder(server) && server.GetState() == mcppoolv1.ConnectionState_CONNECTION_STATE_IDLE {
			hidden++
			continue
		}
		t.Row(server.GetId(), activity(server), ui.EnumName(server.GetState()), transportText(server))
		if server.GetLastError() != "" {
			t.Row("", "", "", "✗ "+ui.Brief(server.GetId(), server.GetLastError()))
		}
	}
	if hidden > 0 && !u.JSON {
		u.Note("--all also shows the workspace servers of other folders (%d); pawl mcp remove ID removes one", hidden)
	}
	return u.List(list, err, t, "no MCP servers; pawl mcp add registers one")
}

// activity returns the text of the column ACTIVE.
func activity(s *mcppoolv1.McpServer) string {
	switch {
	case s.GetDisabled():
		return "disabled"
	case s.GetActive():
		return "yes"
	}
	return "no"
}

// transportText returns a server's command line, its address, or the folder that it serves.
func transportText(s *mcppoolv1.McpServer) string {
	switch t := s.GetTransport().(type) {
	case *mcppoolv1.McpServer_Stdio:
		return strings.Join(append([]string{t.Stdio.GetCommand()}, t.Stdio.GetArgs()...), " ")
	case *mcppoolv1.McpServer_Http:
		return t.Http.GetUrl()
	case *mcppoolv1.McpServer_Builtin:
		if t.Builtin.GetRoot() == "" {
			return "built in"
		}
		text, allowed := "files of "+t.Builtin.GetRoot(), t.Builtin.GetWorkspace()
		if allowed.GetWrite() {
			text += ", which tools may change"
		}
		if len(allowed.GetCommands()) > 0 {
			text += "; may run " + strings.Join(allowed.GetCommands(), ", ")
		}
		return text
	}
	return ""
}

// ServerArg names the server of a command.
type ServerArg struct {
	ID string `arg:"" complete:"server" help:"The server."`
}

// OwnerFlag names the user whose servers are meant.
type OwnerFlag struct {
	Owner string `placeholder:"USER" help:"Servers that belong to this user (for operators; default: those that you see)."`
}

// ServerID is a server's id in the pool.
type ServerID string

// ProvideID returns the server's id; kong passes it to a command's Run. The alias workspace stands for the current folder's server.
func (a ServerArg) ProvideID(ctx context.Context, s *discover.Session) (ServerID, error) {
	folder, err := s.EnsureWorkspace(ctx, a.ID)
	return ServerID(folder.Real(a.ID)), err
}

// knownID is like ProvideID, but does not register the current folder's server.
func (a ServerArg) knownID(ctx context.Context, s *discover.Session) string {
	if a.ID != discover.WorkspaceID {
		return a.ID
	}
	return s.KnownWorkspace(ctx).Real(a.ID)
}

// RemoveCmd is `pawl mcp remove`.
type RemoveCmd struct {
	ServerArg
	OwnerFlag
}

// Run removes a server.
func (c *RemoveCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id := c.ID
	if c.Owner == "" {
		id = c.knownID(ctx, s)
	}
	answer, err := s.Pool.DeleteMcpServer(ctx, &mcppoolv1.DeleteMcpServerRequest{Id: id, OwnerSub: c.Owner})
	return u.Result(answer, err, "%s is removed", id)
}

// ActivateCmd is `pawl mcp activate`.
type ActivateCmd struct{ ServerArg }

// Run activates a server.
func (c *ActivateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, id ServerID) error {
	server, err := s.Pool.ActivateMcpServer(ctx, &mcppoolv1.ActivateMcpServerRequest{Id: string(id)})
	return showActivity(u, server, err)
}

// DeactivateCmd is `pawl mcp deactivate`.
type DeactivateCmd struct{ ServerArg }

// Run deactivates a server.
func (c *DeactivateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	server, err := s.Pool.DeactivateMcpServer(ctx, &mcppoolv1.DeactivateMcpServerRequest{Id: c.knownID(ctx, s)})
	return showActivity(u, server, err)
}

func showActivity(u *ui.UI, server *mcppoolv1.McpServer, err error) error {
	return u.Result(server, err, "%s is %s", server.GetId(), map[bool]string{true: "active", false: "not active"}[server.GetActive()])
}

// TestCmd is `pawl mcp test`.
type TestCmd struct{ ServerArg }

// Run tests a server.
func (c *TestCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, id ServerID) error {
	report, err := s.Pool.TestMcpServer(ctx, &mcppoolv1.TestMcpServerRequest{Id: string(id)})
	err = u.Show(report, err, func() string { return checksText(u.OutStyle(), u.OutColumns(), report) })
	if err != nil || report.GetOk() {
		return err
	}
	return ui.Errorf("%s does not work", c.ID)
}

// LogsCmd is `pawl mcp logs`.
type LogsCmd struct{ ServerArg }

// Run prints the end of a server's stderr.
func (c *LogsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, id ServerID) error {
	log, err := s.Pool.GetMcpServerLog(ctx, &mcppoolv1.GetMcpServerLogRequest{Id: string(id)})
	if err != nil {
		return err
	}
	if log.GetStderr() == "" && !u.JSON {
		u.Note("there is no stderr of %s to show; pawl mcp test %[1]s checks the server", c.ID)
	}
	return u.Show(log, nil, func() string { return serverLog(u.OutStyle(), log) })
}

// ShowCmd is `pawl mcp show`.
type ShowCmd struct {
	ServerArg
	OwnerFlag
}

// ProvideID is ServerArg.ProvideID, but takes the id of another user's server as it is.
func (c *ShowCmd) ProvideID(ctx context.Context, s *discover.Session) (ServerID, error) {
	if c.Owner != "" {
		return ServerID(c.ID), nil
	}
	return c.ServerArg.ProvideID(ctx, s)
}

// Run shows a server.
func (c *ShowCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, id ServerID) error {
	server, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: string(id), OwnerSub: c.Owner})
	return u.Show(server, err, func() string { return serverText(u.OutStyle(), server, u.Now()) })
}

// WorkspaceCmd is `pawl mcp workspace`.
type WorkspaceCmd struct {
	Dir               string `arg:"" help:"The folder."`
	workspace.Options `embed:""`
}

// Run serves the folder until standard input ends.
func (c *WorkspaceCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	server, err := workspace.NewServer(c.Dir, c.Options)
	if err != nil {
		return ui.Errorf("%v", err)
	}
	err = server.ServeStdio(ctx, u.In, u.Out)
	if ctx.Err() != nil {
		err = nil // the command was told to stop
	}
	return errors.Join(err, server.Close())
}

// checksText returns the checks of a server, each with its advice, if any, on a line of its own. It wraps lines at columns (0: not at all).
func checksText(st ui.Style, columns int, report *mcppoolv1.TestMcpServerResponse) string {
	var b strings.Builder
	width := 0
	for _, c := range report.GetChecks() {
		width = max(width, ui.Width(c.GetName()))
	}
	marks := map[mcppoolv1.ServerCheck_Status]string{mcppoolv1.ServerCheck_STATUS_OK: st.Green("✓"), mcppoolv1.ServerCheck_STATUS_WARNING: st.Yellow("!")}
	for _, c := range report.GetChecks() {
		if c.GetStatus() == mcppoolv1.ServerCheck_STATUS_SKIPPED {
			fmt.Fprintf(&b, "%s\n", st.Dim("· "+ui.Pad(ui.Line(c.GetName()), width)+"  not tried"))
			continue
		}
		fmt.Fprintf(&b, "%s %s  %s\n", cmp.Or(marks[c.GetStatus()], st.Red("✗")), ui.Pad(ui.Line(c.GetName()), width), ui.Wrap(ui.Failure(c.GetMessage())+checkTime(c), columns, width+4, width+4))
		if c.GetAdvice() != "" {
			fmt.Fprintf(&b, "  %s  %s %s\n", ui.Pad("", width), st.Bold("→"), ui.Wrap(c.GetAdvice(), columns, width+6, width+6))
		}
	}
	return b.String()
}

// checkTime returns how long a check took, or "" if it was quick or its message has several lines.
func checkTime(c *mcppoolv1.ServerCheck) string {
	const noteworthy = 100 * time.Millisecond
	if d := c.GetDuration().AsDuration(); d >= noteworthy && !strings.Contains(c.GetMessage(), "\n") {
		return ", " + ui.Duration(d)
	}
	return ""
}

// serverLog returns what a server wrote to stderr, and its last error.
func serverLog(st ui.Style, log *mcppoolv1.GetMcpServerLogResponse) string {
	var b strings.Builder
	if log.GetTruncated() {
		fmt.Fprintf(&b, "%s\n", st.Dim("… earlier output was dropped"))
	}
	if text := log.GetStderr(); text != "" {
		b.WriteString(strings.TrimRight(ui.Text(text), "\n") + "\n")
	}
	if log.GetLastError() != "" {
		fmt.Fprintf(&b, "%s %s\n", st.Red("✗"), ui.Wrap(ui.Failure(log.GetLastError()), 0, 2, 2))
	}
	return b.String()
}

// serverText returns a server's configuration and its state now.
func serverText(st ui.Style, s *mcppoolv1.McpServer, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", st.Bold(ui.Line(s.GetId())))
	row := func(name, value string) { b.WriteString(st.Field(name, 11, value)) }
	row("name", s.GetDisplayName())
	row("what", s.GetDescription())
	row("reached by", transportText(s))
	row("folder", s.GetStdio().GetCwd())
	row("runs as", s.GetStdio().GetUser())
	row("environment", names(s.GetStdio().GetEnv()))
	row("headers", names(s.GetHttp().GetHeaders()))
	row("owner", owner(s))
	row("active", serverActivity(s))
	row("connection", connection(s, now))
	row("login", loginText(s))
	row("server", s.GetServerInfo())
	row("offers", strings.Join(s.GetCapabilities(), ", "))
	row("trusted", map[bool]string{true: "yes, its declared effects are believed"}[s.GetTrusted()])
	row("pinning", ui.EnumName(s.GetPinning()))
	row("isolation", isolationText(s.GetIsolation()))
	row("limits", limits(s))
	row("sampling", samplingText(s))
	row("roots", strings.Join(s.GetRoots(), ", "))
	b.WriteString(policies(st, s))
	if s.GetLastError() != "" {
		fmt.Fprintf(&b, "  %s %s\n", st.Red("✗"), ui.Wrap(ui.Failure(s.GetLastError()), 0, 4, 4))
	}
	return b.String()
}

// connection returns the connection's state and its age.
func connection(s *mcppoolv1.McpServer, now time.Time) string {
	text := ui.EnumName(s.GetState())
	if age := ui.Age(s.GetStateTime().AsTime(), now); text != "" && age != "" {
		text += " for " + age
	}
	return text
}

func names(values map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(values)), ", ")
}

func owner(s *mcppoolv1.McpServer) string {
	switch {
	case s.GetFromConfig() && s.GetBuiltin() != nil:
		return "everybody; it is built in"
	case s.GetFromConfig():
		return "a configuration file"
	case s.GetOwnerSub() == "":
		return "everybody"
	}
	return s.GetOwnerSub()
}

func serverActivity(s *mcppoolv1.McpServer) string {
	switch {
	case s.GetDisabled():
		return "no, it is disabled"
	case !s.GetActive():
		return "no (pawl mcp activate " + s.GetId() + ")"
	case s.GetOnlyWhenNamed():
		return "yes, for tasks that name it"
	}
	return "yes"
}

func loginText(s *mcppoolv1.McpServer) string {
	return map[mcppoolv1.LoginState]string{
		mcppoolv1.LoginState_LOGIN_STATE_REQUIRED: "needed (pawl mcp login " + s.GetId() + ")", mcppoolv1.LoginState_LOGIN_STATE_ACTIVE: "done",
	}[s.GetLogin()]
}

func isolationText(i mcppoolv1.Isolation) string {
	return map[mcppoolv1.Isolation]string{
		mcppoolv1.Isolation_ISOLATION_TASK: "a connection for each task", mcppoolv1.Isolation_ISOLATION_SHARED: "one connection for all users",
	}[i]
}

// samplingText describes a server's sampling policy.
func samplingText(s *mcppoolv1.McpServer) string {
	p := s.GetSampling()
	if p == nil {
		return ""
	}
	const tokens, requests = 1024, 10 // the pool's defaults
	model := p.GetModel()
	if model == "" {
		model = "the model that it hints at, or the default"
	}
	return fmt.Sprintf("may request %s: %d times per call, %d tokens each", model, cmp.Or(p.GetMaxRequests(), requests), cmp.Or(p.GetMaxTokens(), tokens))
}

func limits(s *mcppoolv1.McpServer) string {
	var all []string
	add := func(what string, d *durationpb.Duration) {
		if d != nil {
			all = append(all, what+" "+ui.Duration(d.AsDuration()))
		}
	}
	add("a call", s.GetCallTimeout())
	add("a start", s.GetStartTimeout())
	if n := s.GetMaxConnections(); n > 0 {
		all = append(all, fmt.Sprintf("%d connections", n))
	}
	add("results of reading tools are kept for", s.GetCacheTtl())
	return strings.Join(all, ", ")
}

// policies returns the tool policies and permission rules of a server, one line each.
func policies(st ui.Style, s *mcppoolv1.McpServer) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.GetToolPolicies())) {
		p := s.GetToolPolicies()[name]
		text := ui.EffectName(p.GetEffect())
		if p.GetIdempotent() {
			text += ", may be repeated"
		}
		if p.GetRiskFloor() != commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED {
			text += ", risk " + ui.EnumName(p.GetRiskFloor()) + " at least"
		}
		fmt.Fprintf(&b, "  %s %s: %s\n", st.Dim(ui.Pad("tool", 11)), ui.Line(name), text)
	}
	for _, r := range s.GetPermissions() {
		fmt.Fprintf(&b, "  %s %s\n", st.Dim(ui.Pad(ui.EnumName(r.GetDecision()), 11)), ui.Line(ruleText(r)))
	}
	return b.String()
}

func ruleText(r *mcppoolv1.PermissionRule) string {
	var effects []string
	for _, e := range r.GetEffects() {
		effects = append(effects, ui.EffectName(e))
	}
	part := func(what string, list []string) string {
		if len(list) == 0 {
			return "any " + what
		}
		return what + " " + strings.Join(list, ", ")
	}
	return part("user", r.GetUsers()) + "; " + part("tool", r.GetTools()) + "; " + part("effect", effects)
}
