package discover_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// If the server ends during a session and is started again elsewhere, a failed call is repeated there.
func TestCallIsRepeatedAtTheNextServer(t *testing.T) {
	first, second := clitest.NewExecutor(), clitest.NewExecutor()
	first.Add("one")
	second.Add("two")
	server := clitest.Serve(t, first)
	cfg := config(t)
	note(t, cfg.DataDir, server.Addr)
	cfg.Start = neverStart(t)
	var notes []string
	session, err := opened(t, cfg, func(s string) {
		notes = append(notes, s)
		note(t, cfg.DataDir, clitest.Serve(t, second).Addr)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	client := executorv1.NewExecutorServiceClient(session)
	for _, want := range []string{"one", "two", "two"} {
		list, err := client.ListTasks(t.Context(), &executorv1.ListTasksRequest{})
		if err != nil || list.GetTasks()[0].GetGoal() != want {
			t.Fatalf("got %v, %v; want %s", list, err, want)
		}
		server.Stop()
	}
	if session.Opened().Kind != discover.Running || len(notes) != 1 || !strings.Contains(notes[0], "went away") {
		t.Errorf("kind %v, notes %q", session.Opened().Kind, notes)
	}
}

// neverStart fails the test if a client becomes a server.
func neverStart(t *testing.T) func(context.Context, string) (*discover.Server, error) {
	return func(context.Context, string) (*discover.Server, error) {
		t.Error("the client took the data folder over")
		return inside(), nil
	}
}

// A server that does not come back ends the session with advice; the client does not take its place.
func TestClientDoesNotBecomeAServer(t *testing.T) {
	server := clitest.Serve(t, clitest.NewExecutor())
	cfg := config(t)
	note(t, cfg.DataDir, server.Addr)
	cfg.Start, cfg.ReconnectPatience = neverStart(t), 100*time.Millisecond
	session, err := opened(t, cfg, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	server.Stop()
	_, err = executorv1.NewExecutorServiceClient(session).ListTasks(t.Context(), &executorv1.ListTasksRequest{})
	var e *ui.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "did not come back within 100ms") || !strings.Contains(e.Next, "start one with pawl up") {
		t.Errorf("%#v", err)
	}
}

// A server that ended with its command is not waited for: nothing starts it again. The client takes its place.
func TestClientTakesTheServerOfACommandOver(t *testing.T) {
	server := clitest.Serve(t, clitest.NewExecutor())
	cfg := config(t)
	if err := discover.WriteServerFile(cfg.DataDir, discover.ServerInfo{PID: os.Getpid(), GRPC: server.Addr, OfCommand: true}); err != nil {
		t.Fatal(err)
	}
	executor, locked := clitest.NewExecutor(), 2
	executor.Add("one")
	cfg.Start = func(context.Context, string) (*discover.Server, error) {
		if locked--; locked >= 0 { // the command is ending
			return nil, errLocked
		}
		return inside(executor), nil
	}
	session, err := opened(t, cfg, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	server.Stop()
	list, err := executorv1.NewExecutorServiceClient(session).ListTasks(t.Context(), &executorv1.ListTasksRequest{})
	if err != nil || len(list.GetTasks()) != 1 || !session.Embedded() {
		t.Errorf("%v, %v", list, err)
	}
}

func TestASuiteInsideIsNotReplaced(t *testing.T) {
	cfg := config(t)
	session, err := opened(t, cfg, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Reconnect(t.Context(), session.Opened()); err == nil {
		t.Error("a second suite was started in this process")
	}
}

func TestSecondReconnectGetsTheSameServer(t *testing.T) {
	cfg := config(t)
	server := clitest.Serve(t)
	note(t, cfg.DataDir, server.Addr)
	session, err := opened(t, cfg, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	lost := session.Opened()
	server.Stop()
	note(t, cfg.DataDir, clitest.Serve(t).Addr)
	first, err1 := session.Reconnect(t.Context(), lost)
	second, err2 := session.Reconnect(t.Context(), lost)
	if err := errors.Join(err1, err2); err != nil || first != second {
		t.Errorf("%v, %v, %v", first, second, err)
	}
}

func TestGone(t *testing.T) {
	unavailable := func(r commonv1.ErrorReason) error { return errs.New(codes.Unavailable, r, "x").GRPCStatus().Err() }
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":                 {nil, false},
		"not a status":            {errors.New("x"), false},
		"the transport":           {status.Error(codes.Unavailable, "EOF"), true},
		"the service stops":       {unavailable(commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN), true},
		"an MCP server is broken": {unavailable(commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE), false},
		"not found":               {status.Error(codes.NotFound, "x"), false},
	} {
		if got := discover.Gone(tc.err); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A server that was named is waited for: it may only be restarting.
func TestNamedServerComesBack(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().String()
	lis.Close()
	executor := clitest.NewExecutor()
	executor.Add("one")
	cfg := config(t)
	cfg.Server = addr
	server := clitest.ServeAt(t, addr, executor)
	back := make(chan struct{})
	session, err := opened(t, cfg, func(string) {
		clitest.ServeAt(t, addr, executor)
		close(back)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	server.Stop()
	list, err := executorv1.NewExecutorServiceClient(session).ListTasks(t.Context(), &executorv1.ListTasksRequest{})
	if err != nil || len(list.GetTasks()) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	<-back
}
