package call

import (
	"context"
	"encoding/json"
	"time"

	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/ledger"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

// use is the connection that a call wants. Where it has to wait for one of its own, whoever follows it is told why.
func (m *making) use() conn.Use {
	patience := m.r.limit()
	if !m.r.StartBy.IsZero() {
		patience = min(patience, m.r.StartBy.Sub(m.deps.Now()))
	}
	return conn.Use{
		Server: m.r.Server, User: m.r.User, Session: m.r.Session, Call: true, Patience: max(patience, time.Millisecond),
		Waiting: m.waits,
	}
}

// waits tells why there is no connection yet.
func (m *making) waits(why error) { say(m.call, "info", "the call waits: "+errs.From(why).Message) }

// say tells whoever follows a call.
func say(call *ledger.Call, level, text string) {
	data, err := json.Marshal(text)
	if err != nil {
		return
	}
	call.Notify(mcp.Notification{Log: &mcp.Log{Level: level, Logger: "pawl", Data: string(data)}})
}

// unheard says whether a call is to be made again because a question was refused that may have been its own: over a connection of
// its own, which it gets from now on, there is no doubt. Only a tool that may run twice is called twice, and only where nobody was
// asked anything yet, a model neither; of any other the caller hears what it came to.
func (m *making) unheard(ctx context.Context, err error) bool {
	r, f := &m.r, &m.f
	if !f.unclear.Swap(false) || !f.repeatable || f.asked.Load() || f.tasked.Load() || f.cost.any() ||
		r.Continues || r.Task != "" || ctx.Err() != nil {
		return false
	}
	if err != nil && errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeKnown || !m.same(r) {
		return false
	}
	f.retries++
	m.deps.Log.InfoContext(ctx, "a tool call whose question was refused is made again", "mcp_id", r.MCPID, "tool", r.Tool, "call_id", r.CallID)
	return true
}
