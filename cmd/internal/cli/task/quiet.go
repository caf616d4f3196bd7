package task

import (
	"time"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// quietFor is how long nothing may happen before a terminal shows what is waited for.
const quietFor = 2 * time.Second

// quiet shows what is waited for while no step runs and no question is open.
func (e *Events) quiet(now time.Time) {
	what := e.awaited()
	if !e.cfg.Live || what == "" {
		return
	}
	if e.since.IsZero() {
		e.since = now
	}
	if d := now.Sub(e.since); d >= quietFor {
		e.live.Draw(e.cfg.Style.Dim("… waiting for " + what + " · " + ui.Duration(d.Truncate(time.Second))))
	}
}

// heard ends a quiet time.
func (e *Events) heard() {
	e.since = time.Time{}
	if len(e.order) == 0 {
		e.live.Clear()
	}
}

// awaited is what a task waits for after the last event; empty where that is people, or nothing.
func (e *Events) awaited() string {
	if e.last == nil {
		return ""
	}
	switch e.last.GetType() {
	case executorv1.EventType_EVENT_TYPE_FLOW_STOP, executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, executorv1.EventType_EVENT_TYPE_FLOW_FAILED,
		executorv1.EventType_EVENT_TYPE_FLOW_CANCEL, executorv1.EventType_EVENT_TYPE_TEXT_ADD:
		return ""
	}
	if e.fromStart && !e.named {
		return "the MCP servers' tools and the first step"
	}
	return "the planner"
}
