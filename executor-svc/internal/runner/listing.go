package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	// connectLimit bounds how many servers of one task are connected to at once; those that are slow do not count.
	connectLimit = 8
	// slowAfter is how long a server may keep a task that has others waiting for its tools.
	slowAfter = 5 * time.Second
)

// list is the tools of one server, once done is closed.
type list struct {
	id string
	// slow is closed when the server has had time enough for others not to wait for it; also where it is done before.
	slow, done chan struct{}
	tools      []*commonv1.Tool
	poolID     string
	// lateRelease: the pool may hear late that the session has ended.
	lateRelease bool
	err         error
	// cutOff: who wanted the list went away; nothing is known of the server.
	cutOff bool
}

func (l *list) isDone() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// load asks all servers at once: a slow one delays nobody but itself. What comes later than the others is taken in when the tools
// are needed next, unless there is nothing without it.
func (s *Session) load(ctx context.Context, ids []string) *toolset {
	lists, slots := make([]*list, 0, len(ids)), make(chan struct{}, connectLimit)
	for _, id := range ids {
		l := &list{id: id, slow: make(chan struct{}), done: make(chan struct{})}
		lists = append(lists, l)
		if len(ids) == 1 { // nobody waits beside it
			s.ask(ctx, l)
			return assemble(lists)
		}
		go s.list(ctx, l, slots)
	}
	for _, l := range lists {
		<-l.slow
	}
	awaitTools(ctx, lists)
	return assemble(lists)
}

// list asks one server. Its slot is given back when it turns out to be slow.
func (s *Session) list(ctx context.Context, l *list, slots chan struct{}) {
	slots <- struct{}{}
	slow := sync.OnceFunc(func() {
		<-slots
		close(l.slow)
	})
	timer := time.AfterFunc(slowAfter, slow)
	s.ask(ctx, l)
	timer.Stop()
	slow()
}

func (s *Session) ask(ctx context.Context, l *list) {
	l.err = s.toolsOf(ctx, l)
	l.cutOff = ctx.Err() != nil
	close(l.done)
}

// awaitTools waits until there are tools of any server, or none is to come.
func awaitTools(ctx context.Context, lists []*list) {
	for ctx.Err() == nil {
		var open []*list
		for _, l := range lists {
			switch {
			case !l.isDone():
				open = append(open, l)
			case len(l.tools) > 0:
				return
			}
		}
		if len(open) == 0 {
			return
		}
		awaitAny(ctx, open)
	}
}

// awaitAny waits for the first that comes.
func awaitAny(ctx context.Context, lists []*list) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, l := range lists {
		go func() {
			select {
			case <-l.done:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	<-ctx.Done()
}

// assemble makes a toolset of what is there; servers that cannot be used, or not yet, are skipped, and the event log says so (A2).
func assemble(lists []*list) *toolset {
	set := &toolset{byID: map[string]*commonv1.Tool{}, loaded: &storagev1.ToolsLoaded{}, poolIDs: map[string]string{}, lists: lists}
	for _, l := range lists {
		switch {
		case !l.isDone():
			set.late = append(set.late, l)
			set.loaded.Skipped = append(set.loaded.Skipped, &storagev1.Skipped{
				McpId: l.id, Reason: commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
				Message: fmt.Sprintf("it has not listed its tools within %s; the task goes on without them, and takes them in when they come", slowAfter),
			})
			continue
		case l.err != nil:
			e := errs.From(l.err)
			set.loaded.Skipped = append(set.loaded.Skipped, &storagev1.Skipped{McpId: l.id, Reason: e.Reason, Message: valid(e.Message)})
			continue
		}
		set.loaded.McpIds = append(set.loaded.McpIds, l.id)
		set.poolIDs[l.id] = l.poolID
		for _, tool := range l.tools {
			set.byID[tool.GetId()] = tool
		}
		set.tools = append(set.tools, l.tools...)
	}
	set.tools = slices.Clip(set.tools)
	set.loaded.ToolCount = uint32(len(set.tools))
	return set
}

// outdated says whether something came that was missing when the set was made.
func (t *toolset) outdated() bool { return slices.ContainsFunc(t.late, (*list).isDone) }

// cutOff says whether a list that was missing will not come, because whoever wanted it went away.
func (t *toolset) cutOff() bool {
	return slices.ContainsFunc(t.late, func(l *list) bool { return l.isDone() && l.cutOff })
}

// expects says whether a tool's server was missing when the set was made.
func (t *toolset) expects(toolID string) bool { return t.lateFor(toolID) != nil }

// lateFor returns the list that was missing when the set was made, and may bring a tool.
func (t *toolset) lateFor(toolID string) *list {
	mcpID, _ := flow.ToolName(toolID)
	if i := slices.IndexFunc(t.late, func(l *list) bool { return l.id == mcpID }); i >= 0 {
		return t.late[i]
	}
	return nil
}

// with returns the tools, among them those of a tool's server, however slow it is; it may not be there all the same.
func (s *Session) with(ctx context.Context, toolID string) (*toolset, error) {
	t, err := s.toolset(ctx)
	if err != nil {
		return nil, err
	}
	if l := t.lateFor(toolID); l != nil {
		awaitAny(ctx, []*list{l})
		return s.toolset(ctx)
	}
	return t, nil
}
