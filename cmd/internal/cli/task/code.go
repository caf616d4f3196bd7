package task

import (
	"context"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// codingFlow is the flow that works on a plan of subtasks.
const codingFlow = "coding"

// codeCommands are the programs that a task of `pawl code` may run, once each call is approved: those with which the common kinds of projects are
// built and tested.
var codeCommands = []string{"cargo", "git", "go", "gofmt", "make", "node", "npm", "npx", "pytest", "python3"}

// CodeCmd is `pawl code`.
type CodeCmd struct {
	Goal string `arg:"" help:"What to do, in plain words."`

	PlanOnly     bool     `help:"Print the plan and end. Nothing is run or changed; the task stays in pawl tasks as cancelled, with its plan."`
	YesSafe      *bool    `negatable:"" help:"Run steps that only read without approval; changes of files and commands are asked about. Default: yes, or the policy of --agent. --no-yes-safe asks about every step."`
	AllowCommand []string `sep:"none" placeholder:"NAME" help:"A further program that the task may run (repeatable; always: cargo, git, go, gofmt, make, node, npm, npx, pytest, python3)."`
	Network      bool     `help:"Let the programs that the task runs use all networks. They then also reach servers on this computer: a Pawl without keys takes their requests as yours."`
	Workspace    string   `type:"existingdir" placeholder:"DIR" help:"Folder to work in (default: the current one)."`

	PlanFlags
	StartFlags
}

// Run creates the task and follows it.
func (c *CodeCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	req, err := c.request(u)
	if err != nil {
		return err
	}
	folder, err := c.scope(ctx, s, req)
	if err != nil {
		return err
	}
	return c.start(ctx, u, s, req, folder, c.PlanOnly)
}

// request builds the request from the command line.
func (c *CodeCmd) request(u *ui.UI) (*executorv1.CreateTaskRequest, error) {
	if c.PlanOnly && c.Detach {
		return nil, ui.Usagef("--plan-only waits for the plan, so it cannot be used with --detach").Then("leave one of them out")
	}
	if slices.ContainsFunc(c.AllowCommand, func(name string) bool { return strings.TrimSpace(name) == "" }) {
		return nil, ui.Usagef("--allow-command is empty").Then("name a program, such as --allow-command deno")
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	req, err := c.StartFlags.request(u, c.Goal)
	if err != nil {
		return nil, err
	}
	req.Flow, req.PlanOptions = codingFlow, c.planOptions(&executorv1.PlanOptions{})
	if c.PlanOnly {
		req.PlanOptions.Confirm = executorv1.ConfirmPlan_CONFIRM_PLAN_ALWAYS // so that no work starts
	}
	if req.AutoExecute = c.YesSafe; c.YesSafe == nil && c.Agent == "" {
		byRisk := true
		req.AutoExecute = &byRisk
	}
	if req.GetGoal() == "" {
		return nil, ui.Usagef("there is no goal").Then(`pawl code "what you want"`)
	}
	return req, nil
}

// scope sets the servers that the task may use, and returns the folder that it works in.
func (c *CodeCmd) scope(ctx context.Context, s *discover.Session, req *executorv1.CreateTaskRequest) (discover.Folder, error) {
	server, err := s.Server(ctx)
	switch {
	case err != nil:
		return discover.Folder{}, err
	case !server.Local() && len(c.MCP) > 0 && c.Workspace == "":
		return discover.Folder{}, nil
	case !server.Local():
		return discover.Folder{}, ui.Usagef("pawl code works in a folder of this machine, and --server names a server that may be elsewhere").
			Then("leave --server out, or name the workspace server of a folder there with --mcp (pawl mcp list --server … shows the servers there are)")
	case s.Shared() && c.Workspace == "":
		return discover.Folder{}, ui.Usagef("with an API key or a login the folder must be named, because the server's other users could change it too").Then("pawl code --workspace DIR …")
	}
	folder, err := s.CodeWorkspace(ctx, c.Workspace, slices.Concat(codeCommands, c.AllowCommand), c.Network)
	if err != nil {
		return discover.Folder{}, err
	}
	if len(req.GetMcpIds()) > 0 && !slices.Contains(req.GetMcpIds(), discover.WorkspaceID) {
		req.McpIds = slices.Concat([]string{discover.WorkspaceID}, req.GetMcpIds())
	}
	return folder, folder.Scope(ctx, s, req, true)
}
