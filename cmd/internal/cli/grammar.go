package cli

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
)

// Grammar is the command line.
type Grammar struct {
	Globals

	Run     RunCmd     `cmd:"" group:"tasks" help:"Run a goal and show how it goes."`
	Tasks   TasksCmd   `cmd:"" group:"tasks" help:"List tasks."`
	Show    ShowCmd    `cmd:"" group:"tasks" help:"Show a task: what it waits for, its steps, its answer."`
	Watch   WatchCmd   `cmd:"" group:"tasks" help:"Follow a task's events."`
	Approve ApproveCmd `cmd:"" group:"tasks" help:"Let a waiting step run, as shown or with an edited input."`
	Reject  RejectCmd  `cmd:"" group:"tasks" help:"Refuse a waiting step; its task is cancelled."`
	Params  ParamsCmd  `cmd:"" group:"tasks" help:"Supply what a waiting step lacks."`
	Input   InputCmd   `cmd:"" group:"tasks" help:"Answer what a tool's server asks for in the middle of a call."`
	Outcome OutcomeCmd `cmd:"" group:"tasks" help:"Say what became of a call whose outcome is not known."`
	Pause   PauseCmd   `cmd:"" group:"tasks" help:"Pause a task."`
	Unpause UnpauseCmd `cmd:"" group:"tasks" help:"Let a paused task go on."`
	Cancel  CancelCmd  `cmd:"" group:"tasks" help:"Cancel a task."`
	Fork    ForkCmd    `cmd:"" group:"tasks" help:"Start a new task from a step of an old one."`
	Export  ExportCmd  `cmd:"" group:"tasks" help:"Write all there is about a task as JSON."`
	Delete  DeleteCmd  `cmd:"" group:"tasks" help:"Delete tasks that have ended."`

	MCP    MCPCmd    `cmd:"" name:"mcp" group:"config" help:"MCP servers and their tools."`
	Agents AgentsCmd `cmd:"" group:"config" help:"Agents: who tasks run as."`
	Models ModelsCmd `cmd:"" group:"config" help:"List the models that plan, and those that servers may ask."`

	Up         UpCmd         `cmd:"" group:"server" help:"Run the server: gRPC and REST, all in one process."`
	Keys       KeysCmd       `cmd:"" group:"server" help:"API keys of a server."`
	Store      StoreCmd      `cmd:"" group:"server" help:"The journal of a server that is stopped: sizes, compacting, checking."`
	Version    VersionCmd    `cmd:"" group:"server" help:"Print the version."`
	Completion CompletionCmd `cmd:"" group:"server" help:"Print a shell's completion script."`
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
	Pool     string `group:"global" placeholder:"ADDR" help:"The MCP pool, where it is neither at --server nor at port 7414 of its host."`
	Planner  string `group:"global" placeholder:"ADDR" help:"The planner, where it is neither at --server nor at port 7413 of its host."`
	Key      string `group:"global" placeholder:"KEY" help:"API key for the server."`
	Data     string `group:"global" type:"path" placeholder:"DIR" help:"Data folder (default: ~/.local/state/pawl)."`
	JSON     bool   `group:"global" name:"json" env:"-" help:"Print JSON: one document, or one object a line for streams."`
	NoColor  bool   `group:"global" name:"no-color" env:"-" help:"No colours (as with NO_COLOR)."`
	LogLevel string `group:"global" enum:"debug,info,warn,error,off," default:"" placeholder:"LEVEL" help:"What to log of services in this process: debug, info, warn, error or off (default: warn in pawl up, else off)."`
}

// dataDir is the data folder, absolute.
func (g *Globals) dataDir() (string, error) {
	if g.Data != "" {
		return filepath.Abs(g.Data)
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // unset, or of no use by the XDG rules
		home, err := os.UserHomeDir()
		if err != nil {
			return "", exit.Newf("there is no home folder to keep data in: %v", err).Then("say where with --data DIR or PAWL_DATA")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "pawl"), nil
}

// parts are where the parts of the suite are, if the named server is one of four processes: where they were named, or where they listen on the
// same host by default.
func (g *Globals) parts() map[string]discover.Part {
	if g.Server == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(g.Server)
	all := map[string]discover.Part{}
	for pkg, p := range map[string]struct{ name, named, port string }{
		"pawl.executor.v1": {"executor", "", "7412"}, "pawl.planner.v1": {"planner", g.Planner, "7413"}, "pawl.mcppool.v1": {"MCP pool", g.Pool, "7414"},
	} {
		named, _, _ := strings.Cut(p.named, ",") // PAWL_POOL may be an executor's, which takes several
		switch {
		case named != "":
			all[pkg] = discover.Part{Name: p.name, Addr: named, Given: true}
		case err == nil:
			all[pkg] = discover.Part{Name: p.name, Addr: net.JoinHostPort(host, p.port)}
		}
	}
	return all
}

// again is how another command reaches the same server: the flags that were given on this command line.
func (g *Globals) again() string {
	flags := ""
	if g.Server != "" && g.Server != os.Getenv("PAWL_SERVER") {
		flags += " --server " + g.Server
	}
	if g.Server != "" && g.Pool != "" && g.Pool != os.Getenv("PAWL_POOL") {
		flags += " --pool " + g.Pool
	}
	if g.Server != "" && g.Planner != "" && g.Planner != os.Getenv("PAWL_PLANNER") {
		flags += " --planner " + g.Planner
	}
	if env := os.Getenv("PAWL_DATA"); g.Data != "" && g.Data != cmp.Or(env, " ") {
		if abs, err := filepath.Abs(env); env == "" || err != nil || abs != g.Data {
			flags += fmt.Sprintf(" --data %q", g.Data)
		}
	}
	return flags
}
