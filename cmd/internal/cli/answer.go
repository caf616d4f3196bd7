package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// compose makes the answer to a wait.
type compose func(context.Context, *executorv1.Wait) (*executorv1.ResumeTaskRequest, error)

// answer answers a wait of a task, one of these kinds, and follows the task to its next stop.
func (a *App) answer(ctx context.Context, g *Globals, target AnswerTarget, waitID string, make compose, kinds ...executorv1.WaitKind) error {
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		client := executorv1.NewExecutorServiceClient(session)
		id, err := taskID(ctx, client, target.Task)
		if err != nil {
			return err
		}
		task, err := client.GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
		if err != nil {
			return err
		}
		if task, err = a.stopping(ctx, g, client, task); err != nil {
			return err
		}
		wait, err := openWait(task, waitID, g.again(), kinds...)
		if err != nil {
			return err
		}
		req, err := make(ctx, wait)
		if err != nil {
			return err
		}
		req.Id, req.WaitId = id, wait.GetId()
		resumed, err := client.ResumeTask(ctx, req)
		if err != nil {
			return err
		}
		if target.Detach {
			return a.answeredAndLeft(g, resumed)
		}
		t := a.attend(g, session, id, task.GetLastSeq(), a.Console.Err, a.knownFolder(ctx, session).alias)
		return t.run(ctx)
	})
}

// patience is how long an answer waits for a task that is still on its way to its question.
const patience = 30 * time.Second

// stopping returns the task once it waits or has ended: who answers right after starting one means its first question.
func (a *App) stopping(ctx context.Context, g *Globals, client executorv1.ExecutorServiceClient, task *executorv1.Task) (*executorv1.Task, error) {
	if !onItsWay(task) {
		return task, nil
	}
	if !g.JSON {
		a.note("task " + render.ShortID(task.GetId()) + " has no question yet; waiting for one")
	}
	watching, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := client.WatchTask(watching, &executorv1.WatchTaskRequest{Id: task.GetId(), AfterSeq: task.GetLastSeq()})
	for err == nil {
		var ev *executorv1.ExecutorEvent
		if ev, err = stream.Recv(); ev.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// However the watching ended, the task itself tells how it stands.
	return client.GetTask(ctx, &executorv1.GetTaskRequest{Id: task.GetId()})
}

func onItsWay(task *executorv1.Task) bool {
	switch task.GetStatus() {
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING:
		return !task.GetCancelRequested()
	}
	return false
}

// openWait is the wait that is meant: the one that is named, else the only one that can be answered so.
func openWait(task *executorv1.Task, waitID, flags string, kinds ...executorv1.WaitKind) (*executorv1.Wait, error) {
	id := render.ShortID(task.GetId())
	waits := slices.DeleteFunc(slices.Clone(task.GetWaits()), func(w *executorv1.Wait) bool {
		return waitID != "" && w.GetId() != waitID
	})
	fits := slices.DeleteFunc(slices.Clone(waits), func(w *executorv1.Wait) bool { return !slices.Contains(kinds, w.GetKind()) })
	switch {
	case len(task.GetWaits()) == 0:
		return nil, exit.Newf("task %s waits for nothing; it is %s", id, render.StateName(task)).Then("pawl show %s%s", id, flags)
	case len(waits) == 0:
		return nil, exit.Newf("task %s has no open wait %s", id, waitID).Then("pawl show %s%s lists its waits", id, flags)
	case len(fits) == 0:
		return nil, otherKind(id, waits[0], kinds[0], flags)
	case len(fits) > 1:
		ids := make([]string, len(fits))
		for i, w := range fits {
			ids[i] = w.GetId()
		}
		return nil, exit.Newf("task %s has %d open waits: %s", id, len(fits), strings.Join(ids, ", ")).
			Then("name the wait too; pawl show %s%s shows what each is about", id, flags)
	}
	return fits[0], nil
}

// otherKind says which commands answer a wait.
func otherKind(id string, wait *executorv1.Wait, want executorv1.WaitKind, flags string) error {
	commands := make([]string, 0, 4)
	for _, w := range ways(id, wait, flags) {
		commands = append(commands, w.Command)
	}
	return exit.Newf("task %s waits %s, not %s", id, waitsTo(wait.GetKind()), waitsTo(want)).Then("%s", strings.Join(commands, ", or "))
}

func (a *App) answeredAndLeft(g *Globals, task *executorv1.Task) error {
	if g.JSON {
		return render.JSONDocument(a.Console.Out, task)
	}
	id := render.ShortID(task.GetId())
	a.printf("task %s is %s\n", id, a.outStyle().StatusStyle(render.StateName(task)))
	return nil
}
