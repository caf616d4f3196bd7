// Package sandbox runs a program so that it ends in time, together with all processes that it started, and, where the system can, so that it
// changes no file and reaches no network that it was not given.
//
// On Linux a supervisor runs between this process and the program: this executable once more, with another argv[0], which the package's init
// recognizes. The supervisor adopts orphans (PR_SET_CHILD_SUBREAPER), so that a daemon cannot leave. It starts the executable a third time, which
// confines itself by Landlock and becomes the program; the supervisor is not confined, so that the program cannot signal it. It ends
// the program when its control pipe closes: on request, or because this process was killed. Without permission for other networks, the program
// gets a network namespace that has only a loopback interface, or, where that needs privileges, no TCP. Other systems run the program in a
// process group of its own and signal that.
//
// The package must not know MCP, nor which programs and folders are allowed.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

const (
	// grace is the time between SIGTERM and SIGKILL.
	grace = 2 * time.Second
	// drainTime is how long to wait after SIGKILL: for processes in uninterruptible I/O, and for output of processes that left the group.
	drainTime = time.Second
)

// Command is a program to run, and what it may reach.
type Command struct {
	Path    string   // the executable, an absolute path
	Args    []string // argv, with argv[0]
	Env     []string // the whole environment
	Dir     string
	Stdin   string
	Write   []string // the folders that it may change and read
	Read    []string // the files and folders that it may read and execute beside the system's; missing ones are ignored
	Network bool     // lets it use all networks and this computer's loopback interface, not just a loopback interface of its own, and UNIX sockets

	// Limits, on Linux only; 0 means a generous default. MaxMemory and MaxProcesses are for the program together with all that it starts: it
	// is killed soon after it exceeds them.
	MaxMemory    int64 // bytes in memory
	MaxProcesses int   // and threads
	MaxFileSize  int64 // bytes of each file that it writes
}

// Exit is how a program ended.
type Exit struct {
	Code   int    // -1 if a signal ended it
	Signal string // such as SIGKILL; empty if it exited
	// Stopped tells which limit it exceeded, such as `it used more than 512 MiB of memory`; empty if none.
	Stopped string
}

// Run runs the program until it exits or ctx is done, and writes its output, stdout and stderr in their order, to out. When it returns, all
// processes that the program started have ended; see Describe for where that may fail. A program that fails is no error.
func Run(ctx context.Context, c Command, out io.Writer) (Exit, error) {
	exit, err := run(ctx, c, out)
	if err != nil {
		return Exit{}, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	return exit, nil
}

// newCmd returns a command with the program's streams, which ends within a bounded time after ctx is done.
func newCmd(ctx context.Context, path string, c Command, out io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	if c.Stdin != "" {
		cmd.Stdin = strings.NewReader(c.Stdin)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = grace + drainTime
	return cmd
}

// wait waits for a started command. How it exited is no error.
func wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
