package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Where the pool runs, and which processes die.
const (
	together = "together" // in one process with the executor
	apart    = "apart"    // in a process of its own, which lives on
	both     = "both"     // in a process of its own, which dies too
	poolOnly = "pool"     // in a process of its own, which dies alone
)

// patience bounds one case. Even a slow machine needs only a fraction of it.
const patience = 60 * time.Second

// crash is one case: a flow with a tool, and what happens to it.
type crash struct {
	flow  flow
	tool  string
	place string
	// die is the point at which it dies; 0: at none.
	die int
	// arrives is the command that arrives while point hold is held up: cancel, approve, answer or pause; empty for none.
	arrives string
	hold    int
}

func (c crash) String() string {
	s := fmt.Sprintf("%s/%s/%s/%d", c.flow.name, c.tool, c.place, c.die)
	if c.arrives != "" {
		s += fmt.Sprintf("/%s-at-%d", c.arrives, c.hold)
	}
	return s
}

// aftermath is the result of a case.
type aftermath struct {
	points   []string // that the victim reached
	died     bool
	unknowns int // outcomes that a person was asked about
	summary  string
	restart  time.Duration
	problems []string
}

// worker tries cases, one after another, beside a pool.
type worker struct {
	dir  string
	pool *keeper
	n    int
}

func newWorker(dir string) (*worker, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	pool, err := keep(nil, "-listen", addr, "-data", filepath.Join(dir, "pool"), "-mcp-config", programs.config, "pool")
	return &worker{dir: dir, pool: pool}, err
}

func (w *worker) stop() { w.pool.stop() }

// try runs a case to its end and checks it. The reference is the summary of the flow without a kill; "" if it does not matter.
func (w *worker) try(c crash, reference string) (aftermath, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.n++
	dir := filepath.Join(w.dir, strconv.Itoa(w.n))
	tasks, err := w.victim(ctx, c, dir)
	if err != nil {
		return aftermath{}, err
	}
	first := tasks.current()
	r := newRun(c.flow, c.tool, filepath.Join(dir, "lines"), "request", tasks)
	other := arrive(ctx, c, r, first)
	failed := r.follow(ctx)
	var res result
	if failed == nil {
		res, failed = r.result(ctx)
	}
	cancel()
	arrived := <-other
	tasks.stop()
	restarts, again, took := tasks.restarts()
	a := aftermath{points: first.reached(), died: restarts > 0, unknowns: r.unknowns, restart: took}
	if failed != nil {
		return a, fmt.Errorf("%w; points: %s; it said: %s", failed, strings.Join(first.reached(), " "), tasks.current().said())
	}
	a.summary = r.summary(res)
	a.problems = append(r.check(res), c.expect(r, res, a, reference)...)
	if !arrived.IsZero() && c.arrives == "cancel" {
		if restarts > 0 {
			arrived = again
		}
		a.problems = append(a.problems, cancelledAt(res, arrived)...)
	}
	if len(a.problems) > 0 {
		a.problems = append(a.problems, "died at "+c.point(a.points)+story(res.events)+"\nwritten: "+readable(r.path))
	}
	return a, os.RemoveAll(dir)
}

func (c crash) point(points []string) string {
	if c.die == 0 || len(points) < c.die {
		return "no point"
	}
	return points[c.die-1]
}

func readable(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// victim starts the processes that the case kills.
func (w *worker) victim(ctx context.Context, c crash, dir string) (*keeper, error) {
	env := []string{"PAWL_CRASH_DIE=" + strconv.Itoa(c.die), "PAWL_CRASH_HOLD=" + strconv.Itoa(c.hold)}
	if c.place == together {
		return keep(env, "-data", dir, "-mcp-config", programs.config, "all")
	}
	pool, _, err := w.pool.after(ctx, 0)
	if err != nil {
		return nil, err
	}
	if c.place != apart {
		env = append(env, "PAWL_CRASH_OTHER="+strconv.Itoa(pool.cmd.Process.Pid))
	}
	if c.place == poolOnly {
		env = append(env, "PAWL_CRASH_SPARE=1")
	}
	return keep(env, "-data", dir, "-pool", pool.addr, "executor")
}

// expect checks what holds for this case alone.
func (c crash) expect(r *run, res result, a aftermath, reference string) (problems []string) {
	cancelled := c.flow.atInput == "cancel" || c.arrives == "cancel"
	if c.flow.atInput == "cancel" && res.task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
		problems = append(problems, "it was cancelled, and is "+res.task.GetStatus().String())
	}
	if c.place != apart {
		return problems
	}
	if !c.flow.loses {
		problems = append(problems, noUnknown(res, cancelled)...)
	}
	if !cancelled && reference != "" && (c.arrives == "" || !c.flow.rejects) && a.summary != reference {
		problems = append(problems, fmt.Sprintf("the result is\n%sbut without a kill it is\n%s", a.summary, reference))
	}
	return problems
}

// arrive sends a command while a point is held up. It returns the time by which the command was certainly stored; zero if it was not.
func arrive(ctx context.Context, c crash, r *run, p *process) <-chan time.Time {
	stored := make(chan time.Time, 1)
	go func() {
		defer close(stored)
		select {
		case <-p.held:
		case <-p.done:
			return
		case <-ctx.Done():
			return
		}
		defer p.letGo()
		id := r.id.Load()
		if id == nil {
			return // there is no task yet
		}
		alone, wait := r.busy.Load() == 0, "wait-1" // the first one, if no event has named it yet
		if w := r.wait.Load(); w != nil {
			wait = *w
		}
		err := c.ask(ctx, p, *id, wait)
		alone = alone && r.busy.Load() == 0
		if err != nil && (!alone || !sent(p, c.hold)) {
			return
		}
		if c.arrives == "approve" && c.flow.name == "confirm" || c.arrives == "answer" {
			r.trusted.Store(&wait) // all waits of confirm are approvals, and the first one of ask is its tool's question
		}
		stored <- time.Now()
	}()
	return stored
}

// ask sends the command that arrives to this very process.
func (c crash) ask(ctx context.Context, p *process, id, wait string) error {
	tasks := executorv1.NewExecutorServiceClient(p.conn)
	var err error
	switch c.arrives {
	case "cancel":
		_, err = tasks.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: id})
	case "pause":
		_, err = tasks.PauseTask(ctx, &executorv1.PauseTaskRequest{Id: id})
	case "answer":
		_, err = tasks.ResumeTask(ctx, &executorv1.ResumeTaskRequest{Id: id, WaitId: wait, Answer: yes()})
	default:
		_, err = tasks.ResumeTask(ctx, &executorv1.ResumeTaskRequest{
			Id: id, WaitId: wait, Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}},
		})
	}
	return err
}

// sent reports whether commands were begun after a point, and all of them were stored.
func sent(p *process, point int) bool {
	begun, stored := 0, 0
	for i, name := range p.reached() {
		switch {
		case i < point:
		case name == "Send.before":
			begun++
		case name == "Send.after":
			stored++
		}
	}
	return begun > 0 && begun == stored
}
