//go:build !linux

package sandbox

import (
	"context"
	"io"
	"runtime"
	"time"

	"pawl.dev/mcppool-svc/internal/process"
)

// run runs the program in a process group of its own. Processes that leave the group are not ended.
func run(ctx context.Context, c Command, out io.Writer) (Exit, error) {
	cmd := newCmd(ctx, c.Path, c, out)
	cmd.Args, cmd.Env, cmd.Dir, cmd.SysProcAttr = c.Args, c.Env, c.Dir, process.GroupAttr()
	cmd.Cancel = func() error {
		process.TerminateGroup(cmd.Process)
		return nil
	}
	if err := cmd.Start(); err != nil {
		return Exit{}, err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // WaitDelay kills the program, this its whole group
		select {
		case <-time.After(grace):
			process.KillGroup(cmd.Process)
		case <-ended:
		}
	})
	defer stop()
	defer close(ended)
	err := wait(cmd)
	process.KillGroup(cmd.Process)
	exit := Exit{Code: cmd.ProcessState.ExitCode()}
	if exit.Code < 0 {
		exit.Signal = cmd.ProcessState.String()
	}
	return exit, err
}

// Describe returns `none` and why.
func Describe(bool) string { return "none: there is no sandbox for " + runtime.GOOS }
