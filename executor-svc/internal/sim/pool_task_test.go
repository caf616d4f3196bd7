package sim

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// server is what the MCP server keeps: tasks, which any pool can ask for by their names. It never dies.
type server struct {
	mu    sync.Mutex // guards tasks
	tasks map[string]*mcpTask
}

// mcpTask is a call that the server does by itself, even if the pool dies.
type mcpTask struct {
	id string
	// call has its end, once done is closed.
	call *call
	done chan struct{}
	// lost: the server no longer knows it.
	lost   bool
	ctx    context.Context
	cancel context.CancelFunc
}

func (s *server) task(id string) *mcpTask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks[id]
}

// defers has the server do a call as a task, and follows that.
func (p *pool) defers(c *call, short string) {
	t := &mcpTask{id: "task " + short, call: &call{req: c.req}, done: make(chan struct{})}
	t.call.task = t
	t.ctx, t.cancel = context.WithCancel(p.w.ctx)
	s := &p.w.server
	s.mu.Lock()
	if s.tasks == nil {
		s.tasks = map[string]*mcpTask{}
	}
	s.tasks[t.id] = t
	s.mu.Unlock()
	p.w.goes(func() { p.runs(t) })
	p.mu.Lock()
	p.follows(c, t)
	p.mu.Unlock()
	p.poll(c, t, short)
}

// follows notes the task of a call, and wakes the call's followers. Called with mu held.
func (p *pool) follows(c *call, t *mcpTask) {
	c.task = t
	close(c.more)
	c.more = make(chan struct{})
}

// runs is the server's side of a task: it may be stopped, and forgotten once it is done.
func (p *pool) runs(t *mcpTask) {
	defer t.cancel()
	defer close(t.done)
	r, err := p.w.s.pass(t.ctx, nil, "server runs "+t.id)
	if err != nil {
		t.call.err = unknownOutcome(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "stopped")
		return
	}
	p.finish(t.call, r)
	t.lost = r.oneIn(4, 51)
}

// poll waits for the end of a task.
func (p *pool) poll(c *call, t *mcpTask, short string) {
	select {
	case <-t.done:
	case <-p.dead:
		return
	case <-c.stop:
		t.cancel()
		<-t.done
	}
	if _, err := p.w.s.pass(context.Background(), p.dead, p.id+" polls "+short); err != nil {
		return
	}
	p.w.book.polls(c.req.GetCallId(), t.id)
	if c.res, c.err = t.call.res, t.call.err; t.lost {
		c.res, c.err = nil, unknownOutcome(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "the server does not know the task")
	}
	close(c.done)
}

// adopt follows the task of a call that another pool made. Called with mu held.
func (p *pool) adopt(req *mcppoolv1.AttachCallRequest, short string) *call {
	t := p.w.server.task(req.GetTaskId()) // names come from the server alone
	if t.call.req.GetCallId() != req.GetCallId() {
		p.w.book.fault("%s is asked for by the name of %s", short, t.id)
	}
	c := p.enter(t.call.req)
	p.follows(c, t)
	p.w.goes(func() { p.poll(c, t, short) })
	return c
}
