package cli

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"pawl.dev/cmd/internal/cli/admin"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// session is the connection of a command: it opens at its first call, to a server that is there or to one inside this process.
func (a *App) session(g *Globals) *discover.Session {
	cfg := discover.Config{
		Server: g.Server, Parts: g.parts(), DataDir: g.Data, Key: g.Key, AskedKey: g.Key != a.UI.Getenv("PAWL_KEY"), Flags: g.flags(), Dial: a.Dial, Locked: a.Host.Locked, Patience: a.Patience,
	}
	cfg.Start = func(ctx context.Context, dir string) (discover.Suite, error) {
		return a.Host.Embed(ctx, a.UI, dir, admin.LogLevel(g.LogLevel))
	}
	if g.Data == "" { // who chose a folder wants the server of that folder
		cfg.Fallback = discover.DefaultGRPC
	}
	return discover.New(cfg).Session(a.UI.Aside)
}

const (
	leaveWithin = 2 * time.Second
	lookEvery   = 200 * time.Millisecond
)

// closeSession closes the session; a command that is to leave at once waits only a moment.
func closeSession(u *ui.UI, s *discover.Session) error {
	if !u.LeaveNow {
		return s.Close()
	}
	closed := make(chan struct{})
	go func() {
		_ = s.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(leaveWithin):
	}
	return nil
}

// linger keeps a server inside this process alive while tasks run in it: other commands may be waiting for them.
func linger(ctx context.Context, u *ui.UI, s *discover.Session) {
	if !s.Embedded() || u.LeaveNow {
		return
	}
	interrupts, release := u.Signals.Take()
	defer release()
	for round := 0; ; round++ {
		n, err := running(ctx, s.Opened().Conn)
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
