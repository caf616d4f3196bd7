package scale

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/rig"
)

// patience bounds a test. Even a slow machine needs only a fraction of it.
const patience = 120 * time.Second

// seen sums up the events that a watcher of a task received.
type seen struct {
	status   executorv1.EventType // how it ended
	outputs  int
	errors   []string
	unknowns int
}

// follow runs a task to its end. It answers an unknown outcome with skip.
func follow(ctx context.Context, c rig.Client, req *executorv1.CreateTaskRequest) (s seen, err error) {
	task, err := c.Create(ctx, req)
	if err != nil {
		return s, err
	}
	return watch(ctx, c, task.GetId())
}

func watch(ctx context.Context, c rig.Client, id string) (s seen, err error) {
	var failed error
	err = c.Watch(ctx, id, 0, func(e *executorv1.ExecutorEvent) bool {
		switch e.GetType() {
		case executorv1.EventType_EVENT_TYPE_STEP_OUTPUT:
			s.outputs++
		case executorv1.EventType_EVENT_TYPE_STEP_ERROR:
			s.errors = append(s.errors, e.GetStepError().GetError().GetErrMsg())
		case executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, executorv1.EventType_EVENT_TYPE_FLOW_FAILED, executorv1.EventType_EVENT_TYPE_FLOW_CANCEL:
			s.status = e.GetType()
		case executorv1.EventType_EVENT_TYPE_FLOW_STOP:
			s.unknowns++
			failed = skip(ctx, c, id)
		}
		return failed == nil
	})
	if failed != nil {
		err = failed
	}
	return s, err
}

func skip(ctx context.Context, c rig.Client, id string) error {
	t, err := c.Get(ctx, id)
	if err != nil {
		return err
	}
	for _, w := range t.GetWaits() {
		if w.GetKind() != executorv1.WaitKind_WAIT_KIND_OUTCOME {
			return fmt.Errorf("the task asks for %s", w)
		}
		_, err := c.Resume(ctx, &executorv1.ResumeTaskRequest{Id: id, WaitId: w.GetId(), Answer: &executorv1.ResumeTaskRequest_Outcome{
			Outcome: &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{}}},
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// task is a playbook of these tools, each with a line of its own.
func task(path string, tools ...string) *executorv1.CreateTaskRequest {
	yes := true
	var b strings.Builder
	b.WriteString("steps:\n")
	servers := map[string]bool{}
	req := &executorv1.CreateTaskRequest{AutoExecute: &yes}
	for i, tool := range tools {
		fmt.Fprintf(&b, "  - {tool: %s, input: {path: %q, line: \"%d\"}}\n", tool, path, i)
		if server, _, _ := strings.Cut(tool, "/"); !servers[server] {
			servers[server] = true
			req.McpIds = append(req.McpIds, server)
		}
	}
	req.Playbook = b.String()
	return req
}

// load runs tasks all the time and counts their ends.
type load struct {
	c       *cluster
	servers []string
	dir     string
	stop    chan struct{}
	work    sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	tasks    int
	perPair  map[string]int // tasks that ended, by user and server
	unknowns int
	errors   []string
	problems []string
}

// steps of each task: as many that write as that read.
var steps = []string{"read", "write", "read", "write", "write", "read"}

// run starts tasks for each user and server until finish.
func (c *cluster) run(ctx context.Context, servers ...string) *load {
	l := &load{c: c, servers: servers, dir: c.dir, stop: make(chan struct{}), perPair: map[string]int{}}
	for _, user := range users {
		for _, server := range servers {
			l.work.Go(func() {
				for {
					select {
					case <-l.stop:
						return
					default:
						l.one(ctx, user, server)
					}
				}
			})
		}
	}
	return l
}

// one runs a task and checks it: each step has an outcome, and each writing tool wrote once.
func (l *load) one(ctx context.Context, user, server string) {
	l.mu.Lock()
	l.tasks++
	path := filepath.Join(l.dir, fmt.Sprintf("lines-%d", l.tasks))
	l.mu.Unlock()
	var tools []string
	for _, s := range steps {
		tools = append(tools, server+"/"+s)
	}
	s, err := follow(ctx, l.c.clients[user], task(path, tools...))
	l.mu.Lock()
	defer l.mu.Unlock()
	problem := func(format string, args ...any) {
		l.problems = append(l.problems, fmt.Sprintf("%s, %s: ", user, server)+fmt.Sprintf(format, args...))
	}
	l.perPair[user+"/"+server]++
	l.unknowns += s.unknowns
	l.errors = append(l.errors, s.errors...)
	switch {
	case err != nil:
		problem("%v", err)
	case s.status != executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS && s.unknowns == 0:
		problem("it ended with %s: %v", s.status, s.errors)
	case s.outputs != len(steps) && s.unknowns == 0:
		problem("%d outputs: %v", s.outputs, s.errors)
	}
	written, err := lines(path)
	if err != nil {
		problem("%v", err)
	}
	times := map[string]int{}
	for _, w := range written {
		times[w.Line]++
	}
	for i, tool := range steps {
		if n := times[fmt.Sprint(i)]; tool == "write" && n > 1 || n == 0 && s.unknowns == 0 {
			problem("step %d, which is to %s, was made %d times", i+1, tool, n)
		}
	}
}

// rounds waits until each user has run so many further tasks with each server.
func (l *load) rounds(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	want := map[string]int{}
	l.mu.Lock()
	for _, user := range users {
		for _, server := range l.servers {
			want[user+"/"+server] = l.perPair[user+"/"+server] + n
		}
	}
	l.mu.Unlock()
	err := eventually(ctx, "the load does not get on", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for pair, n := range want {
			if l.perPair[pair] < n {
				return false
			}
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// finish lets the last tasks end, and reports the violations.
func (l *load) finish(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.work.Wait()
	for i, p := range l.problems {
		if i == 10 {
			t.Errorf("and %d more", len(l.problems)-i)
			break
		}
		t.Error(p)
	}
	t.Logf("%d tasks, %d failed attempts, %d unknown outcomes", l.tasks, len(l.errors), l.unknowns)
}
