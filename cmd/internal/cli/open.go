package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/suite"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// defaultGRPC and defaultHTTP are where `pawl up` listens.
const (
	defaultGRPC = "127.0.0.1:7411"
	defaultHTTP = "127.0.0.1:7410"
)

// withSession runs a command with a server, the one that is there or one inside this process, and leaves it as it
// should be left.
func (a *App) withSession(ctx context.Context, g *Globals, command func(context.Context, *discover.Session) error) error {
	finder, err := a.finder(g)
	if err != nil {
		return err
	}
	session, err := finder.NewSession(ctx, a.aside)
	if err != nil {
		return err
	}
	err = command(ctx, session)
	a.linger(ctx, session)
	return errors.Join(err, a.close(session))
}

func (a *App) finder(g *Globals) (*discover.Finder, error) {
	dir, err := g.dataDir()
	if err != nil {
		return nil, err
	}
	cfg := discover.Config{
		Server: g.Server, Parts: g.parts(), DataDir: dir, Key: g.Key, Dial: a.Dial, Locked: a.Locked, Patience: a.Patience,
		Start: func(ctx context.Context) (discover.Suite, error) { return a.embed(ctx, g, dir) },
	}
	if g.Data == "" { // who chose a folder wants the server of that folder
		cfg.Fallback = defaultGRPC
	}
	return discover.New(cfg), nil
}

// embedded is a suite that runs inside this process, at a port of the system's choice so that other commands find it.
type embedded struct {
	Suite
	cancel context.CancelFunc
	ended  chan error
}

func (a *App) embed(ctx context.Context, g *Globals, dir string) (discover.Suite, error) {
	ctx, cancel := context.WithCancel(ctx)
	// No folder is the server `workspace` here: a task that waits now may go on from a command in another folder.
	cfg := suite.Config{DataDir: dir, GRPCAddr: "127.0.0.1:0", Version: a.Version, Models: os.Getenv("PAWL_MODELS")}
	err := kong.ApplyDefaults(&cfg.Executor) // those of `pawl up`
	var s Suite
	if err == nil {
		s, err = a.NewSuite(ctx, cfg, a.logger(cmp.Or(g.LogLevel, "off")))
	}
	if err != nil {
		cancel()
		return nil, err
	}
	e := &embedded{Suite: s, cancel: cancel, ended: make(chan error, 1)}
	go func() { e.ended <- s.Run(ctx) }()
	return e, nil
}

// Stop ends the suite gracefully.
func (e *embedded) Stop() error {
	e.cancel()
	return <-e.ended
}

// close ends the session; a command that is to leave at once waits a moment only.
func (a *App) close(session *discover.Session) error {
	if !a.leave {
		return session.Close()
	}
	closed := make(chan struct{})
	go func() {
		_ = session.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(leaveWithin):
	}
	return nil
}

const (
	leaveWithin = 2 * time.Second
	lookEvery   = 200 * time.Millisecond
)

// linger keeps a suite inside this process alive while tasks run in it: other commands may be waiting for them.
func (a *App) linger(ctx context.Context, session *discover.Session) {
	server := session.Server()
	if server.Kind != discover.Embedded || a.leave {
		return
	}
	interrupts, release := a.signals.take()
	defer release()
	for round := 0; ; round++ {
		n, err := running(ctx, server.Conn)
		if err != nil || n == 0 {
			return
		}
		if round == 1 { // what ends in a moment is not worth a word
			a.note(fmt.Sprintf("%s still running in this process; waiting for it. Ctrl-C leaves; what runs goes on with the next pawl command", tasksAre(n)))
		}
		select {
		case <-interrupts:
			a.leave = true
			return
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

func tasksAre(n int) string {
	if n == 1 {
		return "1 task is"
	}
	return fmt.Sprintf("%d tasks are", n)
}

// running counts the tasks that go on by themselves now.
func running(ctx context.Context, conn grpc.ClientConnInterface) (int, error) {
	list, err := executorv1.NewExecutorServiceClient(conn).ListTasks(ctx, &executorv1.ListTasksRequest{
		PageSize: 1000,
		Statuses: []executorv1.ExecutorStatus{
			executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING,
		},
	})
	return len(list.GetTasks()), err
}

// stopped is how a command ends whose task waits for a person.
func stopped() error { return exit.Silent(exit.Stopped) }
