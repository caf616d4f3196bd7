// Package cli is the command line of pawl: its grammar, help and completion, and the run of one command line. The commands are in the
// packages task, mcp and admin, a struct each that kong fills, with a method Run.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"pawl.dev/cmd/internal/cli/admin"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/conf"
)

// App is the program: what its commands need from the world.
type App struct {
	UI *ui.UI
	// Host runs servers in this process.
	Host admin.Host
	// Signals brings interrupts and requests to end.
	Signals <-chan os.Signal
	// Exit ends the process at once, when a second signal asks for it.
	Exit func(code int)
	// Patience is how long to wait until the holder of the data folder answers; 0: the finder's default.
	Patience time.Duration
}

// Main runs one command line and returns the exit code.
func (a *App) Main(ctx context.Context, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.UI.Signals = ui.NewSignals(a.Signals, cancel, a.Exit)
	defer a.UI.Signals.Close()
	out := &ui.FirstError{W: a.UI.Out}
	a.UI.Out = out
	err := a.run(ctx, args)
	if err == nil && out.Err != nil {
		err = fmt.Errorf("write the output: %w", out.Err)
	}
	return a.UI.Report(err)
}

func (a *App) run(ctx context.Context, args []string) error {
	var grammar Grammar
	exited := false
	parser, err := a.parser(&grammar, func(int) { exited = true })
	if err != nil {
		return fmt.Errorf("build the command line: %w", err)
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	case args[0] == completeCommand:
		return a.complete(ctx, parser.Model, args[1:])
	}
	command, err := parser.Parse(args)
	switch {
	case exited:
		return nil
	case err != nil:
		return usageError(err)
	}
	if err := contradictory(command); err != nil {
		return err
	}
	a.UI.JSON = grammar.JSON
	a.UI.Color = a.UI.Color && !grammar.NoColor
	session := a.session(&grammar.Globals)
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(a.UI, &a.Host, session, admin.LogLevel(grammar.LogLevel))
	linger(ctx, a.UI, session)
	if a.UI.LeaveNow { // it waits only a moment
		defer time.AfterFunc(leaveWithin, func() { a.Exit(ui.Stopped) }).Stop()
		_ = session.Close()
		return err
	}
	return errors.Join(err, session.Close())
}

func (a *App) parser(grammar *Grammar, onExit func(int)) (*kong.Kong, error) {
	options := append(conf.Options("pawl", "Runs goals over MCP tools, step by step and durably."),
		kong.Writers(a.UI.Out, a.UI.Err),
		kong.Exit(onExit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true, WrapUpperBound: a.helpWidth(), ValueFormatter: helpText}),
		kong.Help(printHelp),
		kong.ExplicitGroups(groups()),
		kong.Vars{"grpc": discover.DefaultGRPC, "http": admin.DefaultHTTP},
		kong.PostBuild(quietEnvironment),
		kong.PostBuild(describe),
	)
	return kong.New(grammar, options...)
}

// usageError names the help of the command that was meant.
func usageError(err error) error {
	var inner *ui.Error
	if errors.As(err, &inner) { // a value that says itself what to do
		return inner
	}
	command := "pawl"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			command = node.FullPath()
		}
	}
	return ui.Usagef("%v", err).Then("%s --help", command)
}

// contradictory refuses a switch that is put on and off at once, of which the parser takes the last.
func contradictory(command *kong.Context) error {
	given := command.Args
	if i := slices.Index(given, "--"); i >= 0 {
		given = given[:i] // what follows are a program's own arguments
	}
	for _, p := range command.Path {
		if p.Flag == nil || p.Flag.Tag.Negatable == "" {
			continue
		}
		on, off := "--"+p.Flag.Name, "--no-"+p.Flag.Name
		if slices.Contains(given, on) && slices.Contains(given, off) {
			return ui.Usagef("%s and %s exclude each other", on, off).Then("leave one of them out")
		}
	}
	return nil
}

// quietEnvironment lets the environment set what belongs to an installation, and not what belongs to one command.
func quietEnvironment(k *kong.Kong) error {
	strip := func(flags []*kong.Flag) {
		for _, f := range flags {
			f.Envs, f.Tag.Envs = nil, nil
		}
	}
	for _, f := range k.Model.Flags {
		if f.Name == "version" {
			strip([]*kong.Flag{f})
		}
		if f.Name == "version" || f.Name == "config" || f.Name == "help" {
			f.Group = k.Model.Flags[1].Group
		}
	}
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if n, ok := node.(*kong.Node); ok && n.Name != "up" && n.Name != "keys" {
			strip(n.Flags)
		}
		return next(nil)
	})
}

// helpWidth is how wide the help is at most.
func (a *App) helpWidth() int {
	const widest = 100
	if n := a.UI.OutColumns(); n > 0 {
		return min(n, widest)
	}
	return widest
}

// helpText names an environment variable only for the flags of all commands.
func helpText(value *kong.Value) string {
	if value.Flag == nil || value.Flag.Group == nil || len(value.Flag.Envs) == 0 {
		return value.Help
	}
	return strings.TrimSuffix(value.Help, ".") + " ($" + value.Flag.Envs[0] + ")."
}

// session is the connection of a command: it opens at its first call, to a server that is there or to one inside this process.
func (a *App) session(g *Globals) *discover.Session {
	cfg := discover.Config{
		Server: g.Server, Parts: g.parts(), DataDir: g.Data, Key: g.Key, AskedKey: g.Key != a.UI.Getenv("PAWL_KEY"), Flags: g.flags(), Note: a.UI.Aside, Patience: a.Patience,
	}
	cfg.Start = func(ctx context.Context, dir string) (*discover.Server, error) {
		return a.Host.Embed(ctx, a.UI, dir, admin.LogLevel(g.LogLevel))
	}
	if g.Data == "" { // who chose a folder wants the server of that folder
		cfg.Fallback = discover.DefaultGRPC
	}
	return discover.New(cfg)
}

const (
	leaveWithin = 2 * time.Second
	lookEvery   = 200 * time.Millisecond
)

// linger keeps a server inside this process alive while tasks run in it: other commands may be waiting for them.
func linger(ctx context.Context, u *ui.UI, s *discover.Session) {
	if !s.Embedded() || u.LeaveNow {
		return
	}
	interrupts, release := u.Signals.Take()
	defer release()
	for round := 0; ; round++ {
		n, err := countRunning(ctx, s)
		if err != nil || n == 0 {
			return
		}
		if round == 1 { // what ends in a moment needs no note
			tasks := "1 task is"
			if n > 1 {
				tasks = fmt.Sprintf("%d tasks are", n)
			}
			u.Note("%s still running in this process; waiting. Ctrl-C leaves; what runs goes on with the next pawl command", tasks)
		}
		select {
		case <-interrupts:
			u.LeaveNow = true
			return
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

// countRunning counts the tasks that go on by themselves now.
func countRunning(ctx context.Context, s *discover.Session) (int, error) {
	list, err := s.Tasks.ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: 1000, Statuses: []executorv1.ExecutorStatus{initial, running}})
	return len(list.GetTasks()), err
}
