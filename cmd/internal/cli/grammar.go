package cli

import (
	_ "embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"pawl.dev/cmd/internal/cli/admin"
	"pawl.dev/cmd/internal/cli/mcp"
	"pawl.dev/cmd/internal/cli/task"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
)

// Grammar is the command line.
type Grammar struct {
	Globals

	Run     task.RunCmd     `cmd:"" group:"tasks" help:"Run a goal and show how it goes."`
	Tasks   task.TasksCmd   `cmd:"" group:"tasks" help:"List tasks."`
	Show    task.ShowCmd    `cmd:"" group:"tasks" help:"Show a task: what it waits for, its steps, its answer."`
	Watch   task.WatchCmd   `cmd:"" group:"tasks" help:"Follow a task's events."`
	Approve task.ApproveCmd `cmd:"" group:"tasks" help:"Let a waiting step run, as shown or with an edited input."`
	Reject  task.RejectCmd  `cmd:"" group:"tasks" help:"Refuse a waiting step; its task is cancelled."`
	Params  task.ParamsCmd  `cmd:"" group:"tasks" help:"Supply what a waiting step lacks."`
	Input   task.InputCmd   `cmd:"" group:"tasks" help:"Answer what a tool's server asks for in the middle of a call."`
	Outcome task.OutcomeCmd `cmd:"" group:"tasks" help:"Settle a call whose outcome is not known."`
	Pause   task.PauseCmd   `cmd:"" group:"tasks" help:"Pause a task."`
	Unpause task.UnpauseCmd `cmd:"" group:"tasks" help:"Let a paused task go on."`
	Cancel  task.CancelCmd  `cmd:"" group:"tasks" help:"Cancel a task."`
	Fork    task.ForkCmd    `cmd:"" group:"tasks" help:"Start a new task from a step of an old one."`
	Export  task.ExportCmd  `cmd:"" group:"tasks" help:"Write all there is about a task as JSON."`
	Delete  task.DeleteCmd  `cmd:"" group:"tasks" help:"Delete tasks that have ended."`

	MCP      mcp.Cmd          `cmd:"" name:"mcp" group:"config" help:"MCP servers and their tools."`
	Agents   task.AgentsCmd   `cmd:"" group:"config" help:"Agents: who tasks run as."`
	Models   admin.ModelsCmd  `cmd:"" group:"config" help:"List the models that plan, and those that servers may ask."`
	Playbook task.PlaybookCmd `cmd:"" group:"config" help:"Playbooks: steps that a person wrote."`
	Eval     admin.EvalCmd    `cmd:"" group:"config" help:"Measure how well a model plans, with a file of cases."`

	Up         admin.UpCmd      `cmd:"" group:"server" help:"Run the server: gRPC and REST, all in one process."`
	Keys       admin.KeysCmd    `cmd:"" group:"server" help:"API keys of a server."`
	Store      admin.StoreCmd   `cmd:"" group:"server" help:"The journal of a server that is stopped: sizes, compacting, checking."`
	Version    admin.VersionCmd `cmd:"" group:"server" help:"Print the version."`
	Completion CompletionCmd    `cmd:"" group:"server" help:"Print a shell's completion script."`
}

func groups() []kong.Group {
	return []kong.Group{
		{Key: "tasks", Title: "Tasks:"},
		{Key: "config", Title: "What tasks work with:"},
		{Key: "server", Title: "Server and program:"},
		{Key: "limits", Title: "How tasks run:"},
		{Key: "pool", Title: "MCP servers and calls of their tools:"},
		{Key: "sub", Title: "Commands:"},
		{Key: "global", Title: "Flags of all commands:"},
	}
}

// Globals are the flags of every command.
type Globals struct {
	Server   string `group:"global" placeholder:"ADDR" help:"Use the server at this gRPC address, and not this machine's own; of four processes the executor's."`
	Pool     string `group:"global" placeholder:"ADDR" help:"The MCP pool, if it is neither at --server nor at port 7414 of its host; of several replicas a list with commas, or dns:///name:port."`
	Planner  string `group:"global" placeholder:"ADDR" help:"The planner, if it is neither at --server nor at port 7413 of its host."`
	Key      string `group:"global" placeholder:"KEY" help:"API key for the server."`
	Data     string `group:"global" type:"path" placeholder:"DIR" help:"Data folder (default: ~/.local/state/pawl)."`
	JSON     bool   `group:"global" name:"json" env:"-" help:"Print JSON: one document, or one object a line for streams."`
	NoColor  bool   `group:"global" name:"no-color" env:"-" help:"No colours (as with NO_COLOR)."`
	LogLevel string `group:"global" enum:"debug,info,warn,error,off,default" default:"default" placeholder:"LEVEL" help:"What to log of services in this process: debug, info, warn, error or off (default: warn in pawl up, else off)."`
}

// parts returns the addresses of the suite's parts, in case the named server is one of four processes: as they were named, or where
// they listen on the same host by default.
func (g *Globals) parts() map[string]discover.Part {
	if g.Server == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(g.Server)
	all := map[string]discover.Part{}
	for pkg, p := range map[string]struct{ name, addr, port string }{
		"pawl.executor.v1": {"executor", "", "7412"}, "pawl.planner.v1": {"planner", g.Planner, "7413"}, "pawl.mcppool.v1": {"MCP pool", g.Pool, "7414"},
	} {
		switch {
		case p.addr != "":
			all[pkg] = discover.Part{Name: p.name, Addr: p.addr, Given: true}
		case err == nil:
			all[pkg] = discover.Part{Name: p.name, Addr: net.JoinHostPort(host, p.port)}
		}
	}
	return all
}

// flags reach the same server from another command line: those that were given on this one.
func (g *Globals) flags() string {
	flags := ""
	add := func(flag, value, env string) {
		if value != "" && value != os.Getenv(env) {
			flags += " --" + flag + " " + value
		}
	}
	if g.Server != "" {
		add("server", g.Server, "PAWL_SERVER")
		add("pool", g.Pool, "PAWL_POOL")
		add("planner", g.Planner, "PAWL_PLANNER")
	}
	if env := os.Getenv("PAWL_DATA"); g.Data != "" && g.Data != env {
		if abs, err := filepath.Abs(env); env == "" || err != nil || abs != g.Data {
			flags += fmt.Sprintf(" --data %q", g.Data)
		}
	}
	return flags
}

// helpFile holds the long help of each command behind a line `-- command --`.
//
//go:embed help.txt
var helpFile string

// describe gives each command its long help.
func describe(k *kong.Kong) error {
	texts := map[string]string{}
	for section := range strings.SplitSeq("\n"+helpFile, "\n-- ") {
		name, text, _ := strings.Cut(section, " --\n")
		texts["pawl "+name] = strings.TrimSpace(text)
	}
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if n, ok := node.(*kong.Node); ok && n.Type == kong.CommandNode {
			n.Detail = texts[n.FullPath()]
		}
		return next(nil)
	})
}

// printHelp shows a command's own flags; those of all commands are only named, and shown by pawl --help.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	var names []string
	for _, f := range ctx.Model.Flags {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
			f.Hidden = true
			defer func() { f.Hidden = false }()
		}
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\nGlobal flags (explained by pawl --help):\n  %s\n", ui.Wrap(strings.Join(names, " "), options.WrapUpperBound, 2, 2))
	return err
}
