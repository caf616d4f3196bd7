package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"

	"pawl.dev/cmd/internal/console"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/prompt"
	"pawl.dev/cmd/internal/render"
	"pawl.dev/cmd/suite"
	"pawl.dev/services/conf"
)

// Suite is everything in one process, as package suite builds it.
type Suite interface {
	Run(ctx context.Context) error
	Conn() grpc.ClientConnInterface
	GRPCAddr() string
	HTTPAddr() string
}

// App is the program: what its commands need from the world.
type App struct {
	Console *console.Console
	Version string
	// Signals brings interrupts and requests to end.
	Signals <-chan os.Signal
	// Exit ends the process at once, when a second signal asks for it.
	Exit func(code int)
	// NewSuite builds a suite; it listens already and serves once Run is called.
	NewSuite func(ctx context.Context, cfg suite.Config, log *slog.Logger) (Suite, error)
	// Locked says that NewSuite failed because another process holds the data folder.
	Locked func(error) bool
	// Dial connects to a server elsewhere.
	Dial func(addr, key string) (discover.Conn, error)
	// Edit lets the person change a text; nil where they have no editor.
	Edit func(ctx context.Context, text string) (string, error)
	// Browse opens an address in the person's browser; nil where there is none.
	Browse func(address string) error
	Now    func() time.Time
	// Patience is how long to wait for whoever holds the data folder to answer; the finder's default where 0.
	Patience time.Duration

	signals *signals
	out     *console.Output // Console.Out, with the first error of it
	lines   *prompt.Lines
	leave   bool // at once, without waiting for anything
}

// Main runs one command line and returns the exit code.
func (a *App) Main(ctx context.Context, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.signals = newSignals(a.Signals, cancel, a.Exit)
	defer a.signals.close()
	a.lines = prompt.NewLines(a.Console.In)

	var grammar Grammar
	exited := false
	a.out = &console.Output{W: a.Console.Out}
	a.Console.Out = a.out
	parser, err := a.parser(&grammar, func(int) { exited = true })
	if err != nil {
		return a.report(fmt.Errorf("build the command line: %w", err))
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exited {
		return exit.Done
	}
	if err == nil {
		err = contrary(command)
	}
	if err != nil {
		return a.report(usageError(err))
	}
	if grammar.NoColor {
		a.Console.Color = false
	}
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(a, &grammar.Globals, parser.Model)
	if err == nil && a.out.Err != nil {
		err = fmt.Errorf("write the output: %w", a.out.Err)
	}
	return a.report(err)
}

func (a *App) parser(grammar *Grammar, onExit func(int)) (*kong.Kong, error) {
	options := append(conf.Options("pawl", "Runs goals over MCP tools, step by step and durably."),
		kong.Writers(a.Console.Out, a.Console.Err),
		kong.Exit(onExit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true, WrapUpperBound: a.helpWidth(), ValueFormatter: helpText}),
		kong.ExplicitGroups(groups()),
		kong.Vars{"grpc": defaultGRPC, "http": defaultHTTP},
		kong.PostBuild(quietEnvironment),
	)
	return kong.New(grammar, options...)
}

// helpWidth is how wide the help is at most: it does not see itself what terminal it goes to, and takes 80 columns.
func (a *App) helpWidth() int {
	const widest = 100
	if n := a.columns(a.Console.OutTTY); n > 0 {
		return min(n, widest)
	}
	return widest
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

// helpText names the environment's variables only where the command line as a whole has them.
func helpText(value *kong.Value) string {
	if value.Flag == nil || value.Flag.Group == nil || len(value.Flag.Envs) == 0 {
		return value.Help
	}
	return strings.TrimSuffix(value.Help, ".") + " ($" + value.Flag.Envs[0] + ")."
}

// report prints what ended the command and returns the exit code.
func (a *App) report(err error) int {
	e := exit.From(err)
	if e == nil {
		return exit.Done
	}
	if e.Message == "" {
		return e.Code
	}
	st := a.errStyle()
	const name = "pawl:"
	a.eprintf("%s %s\n", st.Red(name), render.Wrap(render.Failure(e.Message), a.columns(a.Console.ErrTTY), len(name)+1, 2))
	if e.Next != "" {
		a.eprintf("  %s %s\n", st.Dim("next:"), render.Wrap(e.Next, a.columns(a.Console.ErrTTY), 8, 8))
	}
	return e.Code
}

// usageError names the help of the command that was meant.
func usageError(err error) error {
	command := "pawl"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		for _, p := range parse.Context.Path {
			if p.Command != nil {
				command += " " + p.Command.Name
			}
		}
	}
	text := plainly(err.Error())
	if word, ok := strings.CutPrefix(text, "unexpected argument "); ok && parse != nil && parse.Context != nil && groupOnly(parse.Context) {
		text = "there is no command " + word
	}
	e := exit.Usagef("%s", text).Then("%s --help", command)
	var inner *exit.Error
	if errors.As(err, &inner) { // a value that says itself what to do
		return inner
	}
	return e
}

// groupOnly says whether what was named takes a command next, and nothing else.
func groupOnly(c *kong.Context) bool {
	node := c.Model.Node
	for _, p := range c.Path {
		if p.Command != nil {
			node = p.Command
		}
	}
	return len(node.Children) > 0
}

// contrary refuses a switch that is put on and off at once, of which the parser takes the last.
func contrary(command *kong.Context) error {
	given := command.Args
	if i := slices.Index(given, "--"); i >= 0 {
		given = given[:i] // what follows is a program's own
	}
	for _, p := range command.Path {
		if p.Flag == nil || p.Flag.Tag.Negatable == "" {
			continue
		}
		on, off := "--"+p.Flag.Name, "--no-"+p.Flag.Name
		if slices.Contains(given, on) && slices.Contains(given, off) {
			return exit.Usagef("%s and %s exclude each other", on, off).Then("leave one of them out")
		}
	}
	return nil
}

// plainly says in other words what the parser says of values: it takes a negative one for a flag, shows what stands for nothing as a
// choice, and knows no missing argument.
func plainly(text string) string {
	if m := regexp.MustCompile(`^(--[\w-]+): expected .* but got "(-[0-9][^"]*)"`).FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s %s: it cannot be negative", m[1], m[2])
	}
	if m := regexp.MustCompile(`^expected "(<[^"]*>)`).FindStringSubmatch(text); m != nil {
		return m[1] + " is missing"
	}
	return strings.Replace(text, ` must be one of "",`, " must be one of ", 1)
}

func (a *App) outStyle() render.Style {
	return render.Style{Color: a.Console.Color && a.Console.OutTTY}
}

func (a *App) errStyle() render.Style {
	return render.Style{Color: a.Console.Color && a.Console.ErrTTY}
}

// printf writes to standard output; its first error ends the command with code 1.
func (a *App) printf(format string, args ...any) { _, _ = fmt.Fprintf(a.Console.Out, format, args...) }

// eprintf writes to standard error; there is nobody to tell where that fails.
func (a *App) eprintf(format string, args ...any) { _, _ = fmt.Fprintf(a.Console.Err, format, args...) }

// note says something beside what was asked for.
func (a *App) note(text string) {
	a.eprintf("%s\n", a.errStyle().Dim(render.Wrap("pawl: "+render.Line(text), a.columns(a.Console.ErrTTY), 0, 2)))
}

// aside is a note from beside the command: where a line may be written over, it takes the place of that line.
func (a *App) aside(text string) {
	if a.Console.Live {
		a.eprintf("\r\x1b[K")
	}
	a.note(text)
}

// warn says something that the person should know.
func (a *App) warn(format string, args ...any) {
	a.eprintf("%s\n", a.errStyle().Yellow(render.Wrap("! "+render.Line(fmt.Sprintf(format, args...)), a.columns(a.Console.ErrTTY), 0, 2)))
}

// table lays out a list for Out.
func (a *App) table() *render.Table {
	t := &render.Table{Style: a.outStyle()}
	t.Columns = a.columns(a.Console.OutTTY)
	return t
}

// columns is how wide lines may be; 0 where they do not go to a terminal.
func (a *App) columns(terminal bool) int {
	if !terminal {
		return 0
	}
	return a.Console.Columns()
}

func (a *App) logger(level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return slog.New(slog.DiscardHandler) // off
	}
	return slog.New(slog.NewTextHandler(a.Console.Err, &slog.HandlerOptions{Level: l}))
}
