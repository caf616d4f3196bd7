package discover_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/fake"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/inproc"
)

// inside is a suite that really answers.
type inside struct {
	suite
	conn *inproc.Conn
}

func (s *inside) Conn() grpc.ClientConnInterface { return s.conn }

func newInside(services ...fake.Registrar) *inside {
	s := &inside{conn: inproc.New(nil, nil)}
	for _, service := range services {
		service.Register(s.conn)
	}
	return s
}

// The server ends in the middle of a session and is started again elsewhere: a call is repeated there.
func TestCallIsRepeatedAtTheNextServer(t *testing.T) {
	first, second := fake.NewExecutor(), fake.NewExecutor()
	first.Add("one")
	second.Add("two")
	server := fake.Serve(t, first)
	cfg := config(t)
	note(t, cfg.DataDir, server.Addr)
	cfg.Start = neverStart(t)
	var notes []string
	session, err := discover.New(cfg).NewSession(t.Context(), func(s string) {
		notes = append(notes, s)
		note(t, cfg.DataDir, fake.Serve(t, second).Addr)
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
	if session.Server().Kind != discover.Running || len(notes) != 1 || !strings.Contains(notes[0], "went away") {
		t.Errorf("kind %v, notes %q", session.Server().Kind, notes)
	}
}

// neverStart fails the test if a client becomes a server.
func neverStart(t *testing.T) func(context.Context) (discover.Suite, error) {
	return func(context.Context) (discover.Suite, error) {
		t.Error("the client took the data folder over")
		return newInside(), nil
	}
}

// A server that does not come back ends the session with advice; the client does not take its place.
func TestClientDoesNotBecomeAServer(t *testing.T) {
	server := fake.Serve(t, fake.NewExecutor())
	cfg := config(t)
	note(t, cfg.DataDir, server.Addr)
	cfg.Start, cfg.ReconnectPatience = neverStart(t), 100*time.Millisecond
	session, err := discover.New(cfg).NewSession(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	server.Stop()
	_, err = executorv1.NewExecutorServiceClient(session).ListTasks(t.Context(), &executorv1.ListTasksRequest{})
	var e *exit.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "did not come back within 100ms") || !strings.Contains(e.Next, "start one with pawl up") {
		t.Errorf("%#v", err)
	}
}

func TestASuiteInsideIsNotReplaced(t *testing.T) {
	cfg := config(t)
	session, err := discover.New(cfg).NewSession(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Reconnect(t.Context(), session.Server()); err == nil {
		t.Error("a second suite was started in this process")
	}
}

func TestWhoComesSecondGetsWhatTheFirstFound(t *testing.T) {
	cfg := config(t)
	server := fake.Serve(t)
	note(t, cfg.DataDir, server.Addr)
	session, err := discover.New(cfg).NewSession(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	lost := session.Server()
	server.Stop()
	note(t, cfg.DataDir, fake.Serve(t).Addr)
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
	executor := fake.NewExecutor()
	executor.Add("one")
	cfg := config(t)
	cfg.Server = addr
	server := fake.ServeAt(t, addr, executor)
	back := make(chan struct{})
	session, err := discover.New(cfg).NewSession(t.Context(), func(string) {
		fake.ServeAt(t, addr, executor)
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
