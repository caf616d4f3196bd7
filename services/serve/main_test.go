package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pawl.dev/services/serve"
)

// mainVariable makes the test binary run Main instead of tests, with a service that behaves as the variable names.
const mainVariable = "SERVE_TEST_MAIN"

func TestMain(m *testing.M) {
	does := os.Getenv(mainVariable)
	if does == "" {
		goleak.VerifyTestMain(m)
		return
	}
	serve.Main("pool", func(ctx context.Context) error {
		if does == "fail" {
			return errors.New("no journal; start it with --data")
		}
		fmt.Println("runs")
		<-ctx.Done()
		if does == "hang" {
			fmt.Println("stops")
			<-make(chan struct{})
		}
		return nil
	})
}

// mainProcess starts a process that runs Main.
func mainProcess(t *testing.T, does string) (cmd *exec.Cmd, stdout io.Reader, stderr *strings.Builder) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), mainVariable+"="+does)
	stderr = &strings.Builder{}
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stdout, stderr
}

func TestMainReportsErrors(t *testing.T) {
	cmd, _, stderr := mainProcess(t, "fail")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || stderr.String() != "pool: no journal; start it with --data\n" {
		t.Errorf("%v, stderr %q", err, stderr)
	}
}

func TestMainSignals(t *testing.T) {
	cmd, stdout, stderr := mainProcess(t, "stop")
	signal(t, cmd, stdout, "runs\n")
	if err := cmd.Wait(); err != nil {
		t.Errorf("a stop that was asked for: %v, stderr %q", err, stderr)
	}
	cmd, stdout, _ = mainProcess(t, "hang")
	signal(t, cmd, stdout, "runs\n")
	signal(t, cmd, stdout, "stops\n")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for again := time.NewTicker(50 * time.Millisecond); ; { // the second signal may come before the first one's handler has left
		select {
		case <-ended:
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
				t.Errorf("it ended with %v", cmd.ProcessState)
			}
			again.Stop()
			return
		case <-again.C:
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
}

// signal waits until a process has said something, and then asks it to end.
func signal(t *testing.T, cmd *exec.Cmd, stdout io.Reader, said string) {
	t.Helper()
	got := make([]byte, len(said))
	if _, err := io.ReadFull(stdout, got); err != nil || string(got) != said {
		t.Fatalf("it said %q, %v", got, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}
