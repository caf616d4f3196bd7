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
	// connectLimit bounds how many servers of a task are listed at once. Slow servers do not count.
	connectLimit = 8
	// slowAfter is how long a task with several servers waits for a server.
	slowAfter = 5 * time.Second
	// suspectPatience is how long it waits for a server that did not answer in time the last time.
	suspectPatience = 200 * time.Millisecond
	// maxSlow bounds how many slow servers are remembered.
	maxSlow = 10_000
)

// toolList holds the tools of one server once done is closed.
type toolList struct {
	id string
	// slow is closed once listAll no longer waits for this server; done is closed first if the server answers in time.
	slow, done chan struct{}
	tools      []*commonv1.Tool
	poolID     string
	// lateRelease reports that the server allows a delayed release of the session.
	lateRelease bool
	err         error
	// cutOff reports that the context ended first, so that nothing is known about the server.
	cutOff bool
}

func (l *toolList) isDone() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// listAll lists the tools of all servers at once. It waits for slow servers only if no other server has tools; the next use of the toolset
// adds their tools.
func (s *Session) listAll(ctx context.Context, ids []string) *toolset {
	lists, slots := make([]*toolList, 0, len(ids)), make(chan struct{}, connectLimit)
	for _, id := range ids {
		l := &toolList{id: id, slow: make(chan struct{}), done: make(chan struct{})}
		lists = append(lists, l)
		if len(ids) == 1 {
			s.loadList(ctx, l)
			return assemble(lists)
		}
		go s.listWithSlot(ctx, l, slots)
	}
	for _, l := range lists {
		<-l.slow
	}
	awaitTools(ctx, lists)
	return assemble(lists)
}

// listWithSlot lists the tools of one server. It frees the slot once the server has answered or proves to be slow.
func (s *Session) listWithSlot(ctx context.Context, l *toolList, slots chan struct{}) {
	slots <- struct{}{}
	slow := sync.OnceFunc(func() {
		<-slots
		close(l.slow)
	})
	key, began, patience := s.head.GetUserSub()+"\x00"+l.id, time.Now(), slowAfter
	if _, suspect := s.r.slow.GetIfPresent(key); suspect {
		patience = suspectPatience
	}
	timer := time.AfterFunc(patience, func() {
		s.r.slow.Set(key, struct{}{})
		slow()
	})
	s.loadList(ctx, l)
	timer.Stop()
	if time.Since(began) < slowAfter {
		s.r.slow.Invalidate(key)
	}
	slow()
}

func (s *Session) loadList(ctx context.Context, l *toolList) {
	l.err = s.listTools(ctx, l)
	l.cutOff = ctx.Err() != nil
	close(l.done)
}

// awaitTools waits until a server has listed tools, or all servers have answered.
func awaitTools(ctx context.Context, lists []*toolList) {
	for ctx.Err() == nil {
		var open []*toolList
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

// awaitAny waits until one of the lists is done.
func awaitAny(ctx context.Context, lists []*toolList) {
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

// assemble makes a toolset of the lists that are done. It skips servers that cannot be used, or not yet; the event log names them.
func assemble(lists []*toolList) *toolset {
	set := &toolset{byID: map[string]*commonv1.Tool{}, loaded: &storagev1.ToolsLoaded{}, poolIDs: map[string]string{}, lists: lists}
	for _, l := range lists {
		switch {
		case !l.isDone():
			set.late = append(set.late, l)
			set.loaded.Skipped = append(set.loaded.Skipped, &storagev1.Skipped{
				McpId: l.id, Reason: commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
				Message: fmt.Sprintf("it has not listed its tools within %s, now or the last time; the task continues without them, and adds them when they arrive", slowAfter),
			})
			continue
		case l.err != nil:
			e := errs.From(l.err).Public()
			set.loaded.Skipped = append(set.loaded.Skipped, &storagev1.Skipped{McpId: l.id, Reason: e.Reason, Message: validUTF8(e.Message)})
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

// outdated reports whether a late list became done after the toolset was made.
func (t *toolset) outdated() bool { return slices.ContainsFunc(t.late, (*toolList).isDone) }

// cutOff reports whether a late list has failed because its context ended.
func (t *toolset) cutOff() bool {
	return slices.ContainsFunc(t.late, func(l *toolList) bool { return l.isDone() && l.cutOff })
}

// lateFor returns the late list that may hold a tool, or nil.
func (t *toolset) lateFor(toolID string) *toolList {
	mcpID, _ := flow.ToolName(toolID)
	if i := slices.IndexFunc(t.late, func(l *toolList) bool { return l.id == mcpID }); i >= 0 {
		return t.late[i]
	}
	return nil
}

// toolsetWith returns the toolset after waiting for a tool's server, even if the server is slow. The tool may still be missing.
func (s *Session) toolsetWith(ctx context.Context, toolID string) (*toolset, error) {
	t, err := s.toolset(ctx)
	if err != nil {
		return nil, err
	}
	if l := t.lateFor(toolID); l != nil {
		awaitAny(ctx, []*toolList{l})
		return s.toolset(ctx)
	}
	return t, nil
}
