//go:build !linux

package sandbox

import (
	"context"
	"io"
	"runtime"
	"time"
)

// run runs the program in a session of its own. Processes that leave the session are not ended.
func run(ctx context.Context, c Command, out io.Writer) (Exit, error) {
	cmd := newCmd(ctx, c.Path, c, out)
	cmd.Args, cmd.Env, cmd.Dir, cmd.SysProcAttr = c.Args, c.Env, c.Dir, sessionAttr()
	cmd.Cancel = func() error {
		terminate(cmd.Process)
		return nil
	}
	if err := cmd.Start(); err != nil {
		return Exit{}, err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // WaitDelay kills the program, this its whole session
		select {
		case <-time.After(grace):
			kill(cmd.Process)
		case <-ended:
		}
	})
	defer stop()
	defer close(ended)
	err := wait(cmd)
	kill(cmd.Process)
	return Exit{Code: cmd.ProcessState.ExitCode(), Signal: signalOf(cmd.ProcessState)}, err
}

// Describe returns `none` and why.
func Describe(bool) string { return "none: there is no sandbox for " + runtime.GOOS }
