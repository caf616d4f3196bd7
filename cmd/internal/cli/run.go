package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/google/uuid"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// RunCmd is `pawl run`.
type RunCmd struct {
	Goal string `arg:"" optional:"" help:"What you want, in plain words. May be left out where a playbook says it."`

	Auto         bool     `help:"Ask by risk only: what merely reads runs by itself. Without: the agent's policy, else each step is asked for."`
	MCP          []string `name:"mcp" sep:"none" placeholder:"ID" help:"Use exactly these MCP servers (repeatable). The id workspace means the folder's own."`
	Playbook     string   `type:"existingfile" placeholder:"FILE" help:"Follow the steps of this YAML file; - is standard input."`
	Agent        string   `placeholder:"ID" help:"Run as this agent."`
	Conversation string   `placeholder:"ID" help:"Continue a conversation; a task of it that waits is cancelled."`
	Language     string   `enum:"zh,en," default:"" placeholder:"zh|en" help:"Language of the answer: zh or en (default: Chinese where your locale is, else as the goal is written)."`
	Model        string   `placeholder:"NAME" help:"Plan with this model (pawl models lists them)."`
	Workspace    string   `type:"existingdir" placeholder:"DIR" help:"Folder that tools may read (default: the current one, unless a key is used)."`
	NoWorkspace  bool     `help:"Give the task no folder."`
	RequestID    string   `name:"request-id" placeholder:"ID" help:"Makes the command repeatable: the same id shows the same task again."`
	Detach       bool     `short:"d" help:"Print the task's id and do not wait for it."`

	BudgetFlags
}

// Help is shown by --help.
func (RunCmd) Help() string {
	return `Steps are shown on standard error and the answer on standard output, so that the answer can be redirected. Where a
person is asked (approval of a step, missing parameters) and there is a terminal, the question is put there; otherwise
the command says which commands go on and ends with code 2.

Without a running server (pawl up) the task runs inside this command, with its data in the data folder. Where too many
tasks were started in a short time, the command waits as long as it is told and tries again.

Exit codes: 0 done, 1 failed, 2 cancelled or waiting, 64 wrong usage.

Examples:

    pawl run --auto "Which files mention TODO?"
    pawl run --auto --workspace ~/src/app "How many Go files are there?" > answer.txt
    pawl run --mcp github --mcp workspace "Compare README.md with the issues"
    pawl run --playbook release.yaml --json | jq .type
    pawl run --auto --max-tool-calls 20 --max-time 5m "Tidy up the notes"`
}

// Run creates the task and stays with it.
func (c *RunCmd) Run(ctx context.Context, a *App, g *Globals) error {
	req, err := c.request(a)
	if err != nil {
		return err
	}
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		folder, err := c.scope(ctx, a, g, session, req)
		if err != nil {
			return err
		}
		client := executorv1.NewExecutorServiceClient(session)
		task, err := admitted(ctx, a, func(ctx context.Context) (*executorv1.Task, error) { return client.CreateTask(ctx, req) })
		if err != nil {
			return err
		}
		if c.Detach {
			return a.detached(g, task)
		}
		t := a.attend(g, session, task.GetId(), 0, a.Console.Err, folder.alias)
		t.owned = true
		return t.run(ctx)
	})
}

// request is what the command line says.
func (c *RunCmd) request(a *App) (*executorv1.CreateTaskRequest, error) {
	req := &executorv1.CreateTaskRequest{
		Goal: strings.TrimSpace(c.Goal), AgentId: c.Agent, McpIds: c.MCP, ConversationId: c.Conversation,
		Model: c.Model, RequestId: c.RequestID, Language: language(c.Language, a.Console.Getenv),
		Budget: c.over(nil), WaitTimeout: c.waitTimeout(),
	}
	if c.Auto {
		req.AutoExecute = &c.Auto
	}
	if c.Playbook != "" {
		var err error
		if req.Playbook, err = readPlaybook(a, c.Playbook); err != nil {
			return nil, err
		}
	}
	if req.Goal == "" && req.Playbook == "" {
		return nil, exit.Usagef("there is no goal").Then(`pawl run "what you want", or pawl run --playbook FILE`)
	}
	if c.NoWorkspace && c.Workspace != "" {
		return nil, exit.Usagef("--workspace and --no-workspace exclude each other").Then("leave one of them out")
	}
	if req.RequestId == "" {
		req.RequestId = uuid.NewString() // so that creating it again after a lost connection is harmless
	}
	return req, nil
}

// scope fills in the servers that the task may use.
func (c *RunCmd) scope(ctx context.Context, a *App, g *Globals, session *discover.Session, req *executorv1.CreateTaskRequest) (folder, error) {
	if !session.Server().Local() && c.Workspace != "" {
		return folder{}, exit.Usagef("--workspace is for a server on this machine, and --server names one that may be elsewhere").
			Then("leave one of them out; pawl mcp list --server … shows the servers there are")
	}
	if !session.Server().Local() || c.NoWorkspace {
		return folder{}, nil
	}
	if shared(g, session) && c.Workspace == "" {
		a.note("with an API key the current folder is not offered to the task; --workspace DIR offers it, to all users of the server")
		return folder{}, nil
	}
	f, err := a.openFolder(ctx, session, c.Workspace)
	if err != nil {
		if c.Workspace != "" {
			return folder{}, err
		}
		a.warn("this folder is not offered to the task: %s (--no-workspace leaves it out without this warning)", exit.From(err).Message)
		return folder{}, nil
	}
	return f, f.scope(ctx, session, req, c.Workspace != "")
}

// detached prints the id for whoever goes on with it.
func (a *App) detached(g *Globals, task *executorv1.Task) error {
	if g.JSON {
		return render.JSONDocument(a.Console.Out, task)
	}
	a.printf("%s\n", task.GetId())
	a.note("pawl watch " + render.ShortID(task.GetId()) + g.again() + " follows it")
	return nil
}

// language is the one that was named, else Chinese where the locale is; else the planner goes by the goal.
func language(name string, getenv func(string) string) commonv1.Language {
	if name == "en" {
		return commonv1.Language_LANGUAGE_EN
	}
	if strings.HasPrefix(cmp.Or(name, getenv("LC_ALL"), getenv("LC_MESSAGES"), getenv("LANG")), "zh") {
		return commonv1.Language_LANGUAGE_ZH
	}
	return commonv1.Language_LANGUAGE_UNSPECIFIED
}
