package call

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/propagation"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// Keys of `_meta` with which a server can recognize a repeated call.
const (
	metaIdempotencyKey = "pawl.dev/idempotency-key"
	metaCallID         = "pawl.dev/call-id"
)

const (
	// taskAfter is the timeout above which a call is begun as an MCP task if the tool can run with or without one. Proxies cut off longer
	// requests, but a task costs two more requests and the time between polls.
	taskAfter = time.Minute
	// taskRetention is how long after the call's timeout the server is asked to keep the result of an MCP task.
	taskRetention = time.Hour
)

// Request is one call.
type Request struct {
	User           string
	Server         *registry.Server
	Refused        error // why the user cannot use the server; Server is nil then
	MCPID          string
	Tool           string
	Input          strictjson.Document   // an object
	Hashes         []inflight.Hash       // of server, tool and input; several if the input has several JSON forms
	CallID         string                // empty: Call generates one, and the call ends with its caller
	Unnamed        bool                  // Call generated the call id
	IdempotencyKey string                // may be empty
	Session        string                // may be empty
	Epoch          uint64                // of the session's owner
	Timeout        time.Duration         // 0: the server's
	StartBy        time.Time             // zero: any time
	DefinitionHash string                // expected; may be empty
	ConfigRevision uint64                // expected; 0: any
	Ack            []string              // earlier calls to forget
	AskAbove       commonv1.RiskLevel    // tools with a higher risk floor need an approval; 0: none does
	Exact          bool                  // return the result as the server sent it
	BypassCache    bool                  // call the tool even if a cached result exists
	ModelBudget    *commonv1.ModelBudget // for model requests of the server; nil: no limit
	Continues      bool                  // the request continues an earlier call

	Resume  *mcp.Continuation     // of a call that ended with a question; nil: none
	Answers map[string]mcp.Answer // to the questions, by id
	Task    string                // MCP task that already runs the call; empty: none
}

// timeout returns how long the tool may take.
func (r *Request) timeout() time.Duration {
	limit := r.Server.CallLimit()
	if r.Timeout > 0 {
		limit = min(limit, r.Timeout)
	}
	return limit
}

// reads reports whether the request calls a tool that only reads. A request that follows an MCP task calls no tool.
func (r *Request) reads(policy registry.Policy) bool {
	return r.Task == "" && policy.Effect == commonv1.Effect_EFFECT_READ
}

// use describes the connection that the attempt needs. While the attempt waits for one, the call's followers get the reason as a log message.
func (a *attempt) use() conn.Use {
	patience := a.limit
	if !a.StartBy.IsZero() {
		patience = min(patience, a.StartBy.Sub(a.deps.Now()))
	}
	return conn.Use{
		Server: a.Server, User: a.User, Session: a.Session, Call: true, Patience: max(patience, time.Millisecond),
		Waiting: func(why error) { a.log("info", "the call waits: "+errs.From(why).Public().Message) },
	}
}

// log sends the pool's own log message to the followers of the call.
func (a *attempt) log(level, text string) {
	data, err := json.Marshal(text)
	if err != nil {
		return
	}
	a.call.Notify(mcp.Notification{Log: &mcp.Log{Level: level, Logger: "pawl", Data: string(data)}})
}

// toolCall returns the call in the form that the connection takes.
func (a *attempt) toolCall(ctx context.Context, tool *catalog.Tool) mcp.Call {
	c := mcp.Call{
		Name: a.Tool, Arguments: a.Input, Meta: a.meta(ctx),
		Notify: a.notify, Ask: a.ask, Sample: a.sample, Unclear: func() { a.unclear.Store(true) }, Hold: a.call.Hold, Pause: a.timer.pauseUntil, Gate: a.checkStartBy, Again: a.continueAgain,
		Resume: a.Resume, Answers: a.Answers, Follow: a.Task,
	}
	if tool != nil && (tool.Tasks == catalog.TaskRequired || tool.Tasks == catalog.TaskOptional && a.limit > taskAfter) {
		c.Task, c.TaskTTL = true, a.limit+taskRetention
	}
	return c
}

// notify implements mcp.Call.Notify.
func (a *attempt) notify(n mcp.Notification) {
	if n.Task != nil {
		a.tasked.Store(true)
	}
	a.call.Notify(n)
}

// meta returns the members of `_meta`: the call id, the idempotency key and the trace context.
func (r *Request) meta(ctx context.Context) map[string]string {
	m := propagation.MapCarrier{metaCallID: r.CallID}
	if r.IdempotencyKey != "" {
		m[metaIdempotencyKey] = r.IdempotencyKey
	}
	propagation.TraceContext{}.Inject(ctx, m)
	return m
}
