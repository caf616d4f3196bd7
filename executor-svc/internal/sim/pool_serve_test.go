package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
)

// serveCall receives a call, which may come late: its caller may be dead by now. A call that the pool knows is followed, and one in
// graves is refused.
func (p *pool) serveCall(k *conn, req *mcppoolv1.CallToolRequest, short string) {
	if _, err := p.w.s.pass(context.Background(), p.dead, p.id+" gets call "+short); err != nil {
		k.snap()
		return
	}
	p.ack(req.GetAckCallIds())
	p.w.book.received(req)
	c, fresh := p.begin(k, req)
	if c == nil {
		return
	}
	if fresh {
		p.w.goes(func() { p.execute(c, short) })
	}
	p.follow(k, c, short)
}

// begin returns the call of a request, entered into the ledger if it is new; nil if the request was refused.
func (p *pool) begin(k *conn, req *mcppoolv1.CallToolRequest) (c *call, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := req.GetCallId()
	fate, buried := p.graves[id]
	switch known := p.calls[id]; {
	case req.GetEpoch() < p.epochs[req.GetSessionId()]:
		outcome := errs.OutcomeNotExecuted
		if known != nil {
			outcome = errs.OutcomeUnknown
		} else if buried {
			outcome = fate
		}
		k.refuse(failedPrecondition, staleOwner, outcome, "a newer owner has been here")
		return nil, false
	case known != nil:
		return known, false
	case buried:
		k.refuse(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, fate, "it was asked for, or acknowledged, before")
		return nil, false
	case !time.Now().Before(req.GetStartBy().AsTime()):
		k.refuse(failedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOO_LATE, errs.OutcomeNotExecuted, "too late")
		p.graves[id] = errs.OutcomeNotExecuted
		return nil, false
	}
	p.epochs[req.GetSessionId()] = req.GetEpoch()
	if req.GetExpectedConfigRevision() != p.w.revision.Load() {
		k.refuse(failedPrecondition, definitionChanged, errs.OutcomeNotExecuted, "the server's configuration is another one")
		p.graves[id] = errs.OutcomeNotExecuted
		return nil, false
	}
	return p.enter(req), true
}

// enter takes a call into the ledger. Called with mu held.
func (p *pool) enter(req *mcppoolv1.CallToolRequest) *call {
	c := &call{req: req, stop: make(chan struct{}), done: make(chan struct{}), more: make(chan struct{})}
	c.halt = sync.OnceFunc(func() { close(c.stop) })
	p.calls[req.GetCallId()] = c
	return c
}

// serveAttach follows a call that was made before, or proves what it can.
func (p *pool) serveAttach(k *conn, req *mcppoolv1.AttachCallRequest, short string) {
	if _, err := p.w.s.pass(context.Background(), p.dead, p.id+" is asked for "+short); err != nil {
		k.snap()
		return
	}
	p.mu.Lock()
	c := p.calls[req.GetCallId()]
	fate, buried := p.graves[req.GetCallId()]
	switch {
	case req.GetEpoch() < p.epochs[req.GetSessionId()]:
		p.mu.Unlock()
		k.refuse(failedPrecondition, staleOwner, errs.OutcomeUnknown, "a newer owner has been here")
		return
	case c == nil && req.GetTaskId() != "":
		c = p.adopt(req, short)
	case c == nil:
		p.epochs[req.GetSessionId()] = req.GetEpoch()
		if !buried {
			fate = errs.OutcomeNotExecuted
			p.graves[req.GetCallId()] = fate
		}
		if req.GetPoolId() != p.id {
			fate = errs.OutcomeUnknown
		}
		p.mu.Unlock()
		k.refuse(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, fate, "this pool does not know it")
		return
	}
	p.epochs[req.GetSessionId()] = req.GetEpoch()
	p.mu.Unlock()
	if mcp, name := c.req.GetMcpId(), c.req.GetName(); req.GetRequestHash() != flow.RequestHash(mcp, name, c.req.GetInputJson()) {
		p.w.book.fault("%s is asked for with another hash", short)
	}
	p.follow(k, c, short)
}

// follow sends a call's questions, MCP task and end, unless the connection breaks before.
func (p *pool) follow(k *conn, c *call, short string) {
	if k.gone() {
		return
	}
	var toldTask *mcpTask
	for told := 0; ; {
		open, task, more := p.open(c, &told)
		for _, q := range open {
			k.put(message{asked: q.in})
		}
		if task != toldTask {
			toldTask = task
			k.put(message{task: &mcppoolv1.CallTask{TaskId: task.id}})
		}
		select {
		case <-c.done:
		case <-more:
			continue
		case <-k.broken:
			return
		case <-k.ctx.Done():
			return
		case <-p.dead:
			k.snap()
			return
		}
		break
	}
	r, err := p.w.s.pass(context.Background(), p.dead, p.id+" tells of "+short)
	if err != nil || r.oneIn(p.w.cfg.netFails, 5) {
		k.snap()
		return
	}
	k.put(message{res: c.res, err: c.err})
}

func (p *pool) ack(ids []string) {
	if len(ids) == 0 {
		return
	}
	p.w.book.acknowledged(ids)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if c := p.calls[id]; c != nil && c.ended() {
			delete(p.calls, id)
			p.graves[id] = errs.OutcomeUnknown
		}
	}
}

// execute is the tool. It may take long, fail in all ways there are, and have its effect after all its callers are gone.
func (p *pool) execute(c *call, short string) {
	r, err := p.w.s.pass(context.Background(), p.dead, "tool begins "+short)
	if err != nil {
		return // it never came to the tool
	}
	if r.oneIn(p.w.cfg.defers, 50) {
		p.defers(c, short)
		return
	}
	if r.oneIn(4, 6) && !p.works(c, r, short) {
		return
	}
	if r.oneIn(p.w.cfg.asks, 40) && c.req.GetRequestState() == "" && !p.asks(c, r, short) {
		return
	}
	r2, err := p.w.s.pass(context.Background(), p.dead, "tool runs "+short)
	if err != nil {
		if r.oneIn(2, 7) { // the pool died, the server did not
			p.does(c)
		}
		return
	}
	p.finish(c, r2)
	if _, err := p.w.s.pass(context.Background(), p.dead, "tool ends "+short); err == nil {
		close(c.done)
	}
}

// does is the side effect. A call that had it before it asked has it once.
func (p *pool) does(c *call) {
	if !c.did {
		c.did = true
		p.w.book.executed(c.req)
	}
}

// works takes a while, and says so. False: the call has ended already.
func (p *pool) works(c *call, r roll, short string) bool {
	lasts := time.Duration(1+r.draw(40, 8)) * 500 * time.Millisecond
	if r.oneIn(5, 9) {
		lasts = 3 * time.Minute // longer than any caller waits for a server
	}
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	work := time.NewTimer(lasts)
	defer work.Stop()
	p.progress(c)
	select {
	case <-work.C:
		return true
	case <-p.dead:
		return true // execute decides whether the server has the effect
	case <-timeout.C:
		c.err = unknownOutcome(codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT, "the server did not answer in time")
	case <-c.stop:
		c.err = unknownOutcome(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "stopped")
	}
	if r.oneIn(2, 10) {
		p.does(c)
	}
	if _, err := p.w.s.pass(context.Background(), p.dead, "tool gives up "+short); err == nil {
		close(c.done)
	}
	return false
}

func (p *pool) progress(c *call) {
	p.mu.Lock()
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	for _, k := range conns {
		if k.callID == c.req.GetCallId() {
			k.put(message{progress: &mcppoolv1.CallProgress{Progress: 1, Total: 2, Message: "half"}})
		}
	}
}

func unknownOutcome(code codes.Code, reason commonv1.ErrorReason, what string) error {
	return errs.New(code, reason, "%s", what).With(errs.OutcomeKey, errs.OutcomeUnknown)
}

// finish has the effect, or not, and says what is known of it.
func (p *pool) finish(c *call, r roll) {
	text := fmt.Sprintf("did %s", c.req.GetCallId())
	answer := func(failed bool) {
		c.res = &mcppoolv1.CallResult{IsError: failed, Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: text}}}}
	}
	fails := r != 0
	switch n := r.draw(100, 11); {
	case fails && n < 10: // the server's own error
		if r.oneIn(2, 12) {
			p.does(c)
		}
		answer(true)
	case fails && n < 16 && len(c.asked) == 0 && c.task == nil: // refused, proven
		c.err = errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, "not allowed").
			With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	case fails && n < 26 && c.task == nil: // the server's connection closed (A14)
		if r.oneIn(2, 13) {
			p.does(c)
		}
		c.err = unknownOutcome(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "the server's connection closed")
	default:
		p.does(c)
		answer(false)
	}
}

// die ends the process: its connections break, and its calls are lost.
func (p *pool) die() {
	close(p.dead)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.conns {
		k.snap()
	}
}

// breakOne breaks one connection that is in use.
func (p *pool) breakOne(s *sched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var live []*conn
	for _, k := range p.conns {
		select {
		case <-k.broken:
		default:
			live = append(live, k)
		}
	}
	if p.conns = live; len(live) == 0 {
		return
	}
	k := live[s.rng.IntN(len(live))]
	s.note(k.label+" breaks", 1)
	k.snap()
}
