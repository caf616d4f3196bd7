package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/mcppool-svc/internal/sandbox"
)

// defaultCommandTimeout is how long a program may run if Options.CommandTimeout is 0.
const defaultCommandTimeout = 2 * time.Minute

// anyOwn is the entry of Options.Commands that allows all programs in the workspace.
const anyOwn = "./*"

// program is a program to run in the sandbox.
type program struct {
	argv     []string
	dir      string // relative to the root
	env      map[string]string
	stdin    string
	timeout  int      // seconds; 0: as long as allowed
	readOnly bool     // without changes in the workspace
	read     []string // folders outside of it
	network  bool
}

// ran is how a program ended.
type ran struct {
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"`
	TimedOut   bool   `json:"timed_out"`
	Stopped    string `json:"stopped,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Sandbox    string `json:"sandbox"`
}

// summary says in words how the program ended.
func (r ran) summary() string {
	took := (time.Duration(r.DurationMS) * time.Millisecond).Round(100 * time.Millisecond)
	switch {
	case r.TimedOut:
		return fmt.Sprintf("stopped after %v, because it took too long", took)
	case r.Stopped != "":
		return fmt.Sprintf("stopped after %v, because %s", took, r.Stopped)
	case r.Signal != "":
		return fmt.Sprintf("ended by %s after %v", r.Signal, took)
	}
	return fmt.Sprintf("exit code %d after %v", r.ExitCode, took)
}

// runProgram runs a program in the sandbox and writes its output to out. A program that fails is no error.
func (s *Server) runProgram(ctx context.Context, p program, out io.Writer) (ran, error) {
	private, err := s.scratch.path()
	if err != nil {
		return ran{}, err
	}
	env, read := environment(private, p.network)
	dir := filepath.Join(s.path, filepath.FromSlash(p.dir))
	executable, err := process.Find(p.argv[0], os.Getenv("PATH"), dir)
	if err != nil {
		return ran{}, fmt.Errorf("%w, or call one that is there", err)
	}
	c := sandbox.Command{
		Path: executable, Args: p.argv, Env: environ(env, p.env), Dir: dir, Stdin: p.stdin,
		Write: []string{private}, Read: slices.Concat(read, p.read), Network: p.network,
		MaxMemory: s.options.MaxMemory, MaxProcesses: s.options.MaxProcesses, MaxFileSize: s.options.MaxFileSize,
	}
	if !strings.ContainsRune(p.argv[0], '/') || slices.Contains(s.options.Commands, p.argv[0]) {
		c.Read = append(c.Read, executable)
	}
	if p.readOnly {
		c.Read = append(c.Read, s.path)
	} else {
		c.Write = append(c.Write, s.path)
	}
	limited, cancel := context.WithTimeout(ctx, min(cmp.Or(time.Duration(p.timeout)*time.Second, s.longest()), s.longest()))
	defer cancel()
	start := time.Now()
	exit, err := sandbox.Run(limited, c, out)
	if ctx.Err() != nil {
		return ran{}, ctx.Err()
	}
	if err != nil {
		if limited.Err() == nil {
			return ran{}, err
		}
		exit.Code = -1
	}
	return ran{
		ExitCode: exit.Code, Signal: exit.Signal, TimedOut: limited.Err() != nil, Stopped: exit.Stopped,
		DurationMS: time.Since(start).Milliseconds(), Sandbox: sandbox.Describe(p.network),
	}, nil
}

// longest is how long a program may run.
func (s *Server) longest() time.Duration {
	return cmp.Or(s.options.CommandTimeout, defaultCommandTimeout)
}

type commandInput struct {
	Argv    []string          `json:"argv"`
	Cwd     string            `json:"cwd"`
	Env     map[string]string `json:"env"`
	Stdin   string            `json:"stdin"`
	Timeout int               `json:"timeout_seconds"`
}

type commandOutput struct {
	ran
	Output    string `json:"output"`
	Truncated int64  `json:"truncated_bytes"`
}

func (o commandOutput) text() string { return o.Output + "\n[" + o.summary() + "]" }

// executeCommand runs an allowed program. A program that fails is a result, not an error of the tool: its output tells the model what to do.
func (s *Server) executeCommand(ctx context.Context, in commandInput, report reporter) (commandOutput, error) {
	dir, err := s.folder(in.Cwd)
	if err != nil {
		return commandOutput{}, err
	}
	if err := s.allowed(dir, in.Argv[0]); err != nil {
		return commandOutput{}, err
	}
	out := capture{report: report}
	ended, err := s.runProgram(ctx, program{
		argv: in.Argv, dir: dir, env: in.Env, stdin: in.Stdin, timeout: in.Timeout, readOnly: !s.options.Write, network: s.options.Network,
	}, &out)
	if err != nil {
		return commandOutput{}, err
	}
	o := commandOutput{ran: ended}
	o.Output, o.Truncated = out.text()
	return o, nil
}

// folder returns the clean path of a folder of a request; the default is the root.
func (s *Server) folder(requested string) (string, error) {
	rel, err := s.locate(cmp.Or(requested, "."))
	if err != nil {
		return "", err
	}
	dir, err := s.openDir(rel)
	if err != nil {
		return "", err
	}
	return rel, dir.Close()
}

// allowed returns an error unless the options allow a program: by its name, or by anyOwn if its folder is in the workspace, with links followed. The
// program itself may be a link to one outside, as in Python's virtual environments. Such a link opens nothing: the program runs only if the sandbox
// lets all programs run it, because scripts in the workspace can run it too.
func (s *Server) allowed(dir, name string) error {
	if slices.Contains(s.options.Commands, name) && name != anyOwn {
		return nil
	}
	if strings.ContainsRune(name, '/') && !filepath.IsAbs(name) && slices.Contains(s.options.Commands, anyOwn) {
		rel, err := s.locate(filepath.ToSlash(filepath.Join(filepath.FromSlash(dir), name)))
		if err != nil {
			return err
		}
		folder, err := filepath.EvalSymlinks(filepath.Join(s.path, filepath.FromSlash(path.Dir(rel))))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // reported when the program is looked up
		}
		if err == nil {
			_, err = s.locate(folder)
		}
		return err
	}
	return fmt.Errorf("%q may not be run: this workspace allows %s", name, strings.Join(s.options.Commands, ", "))
}
