package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/services/strictjson"
)

// Client is a live connection to an MCP server. Its methods are safe for concurrent use. The errors of ListTools and CallTool
// are *Error, or the one that Call.Gate returned.
type Client interface {
	// Info returns the server's description of itself from the handshake.
	Info() Info
	// ListTools returns the raw definitions of the tools, in the server's order, without those that MCP requires clients to leave out.
	ListTools(ctx context.Context) ([]json.RawMessage, error)
	// ToolsVersion changes each time the server reports that its tools changed, and with each Wake.
	ToolsVersion() uint64
	// CallTool calls a tool and returns the raw result. It answers the server's questions meanwhile, and follows an MCP task. If ctx is
	// cancelled, CallTool tells the server and waits a moment for a result that can still arrive; after a deadline it does not wait for one.
	CallTool(ctx context.Context, call Call) (json.RawMessage, error)
	// Done is closed when the connection can no longer be used.
	Done() <-chan struct{}
	// Err returns the reason after Done is closed; nil if the connection was closed on purpose.
	Err() error
	// Close ends the connection and the server's process, and returns when both have ended. It may be called again.
	Close() error

	// Probe sends a request and returns nil if the server answers it, even with a JSON-RPC error or HTTP 429.
	Probe(ctx context.Context) error
	// OnChange sets the function that is called when a list of the server changes, including the tools. changed must not block.
	OnChange(changed func())
	// Rest releases the resources that Wake acquires again, and returns false if the connection has none. It does not block.
	Rest() bool
	// Wake acquires the resources again, and drops the cached lists. Call it before the client is used again. It does not block.
	Wake()
	// Settled returns false once a call was given up that the server may still work on: a question of the server may be for that call.
	Settled() bool
	// Stderr returns the server's stderr; empty if it has none.
	Stderr() Stderr
}

// Info is a server's description of itself.
type Info struct {
	Name         string
	Version      string
	Protocol     string   // the MCP revision in use, such as 2025-11-25; empty if it is not an MCP server
	Capabilities []string // other than tools: resources, resource_subscriptions, prompts, completions, logging, tasks
}

// String returns Info for people.
func (i Info) String() string {
	if i.Name == "" && i.Protocol == "" {
		return ""
	}
	text := strings.TrimSpace(cmp.Or(i.Name, "unnamed") + " " + i.Version)
	if i.Protocol != "" {
		text += " (MCP " + i.Protocol + ")"
	}
	return text
}

// Call is one tool call.
type Call struct {
	Name      string
	Arguments strictjson.Document // an object; the zero Document is an empty one
	Meta      map[string]string   // goes into _meta beside the progress token
	// Gate is called right before the first request is sent, unless Follow is set; if it returns an error, nothing is sent. It may be nil.
	Gate func() error
	// Notify receives progress, logs and tasks. It must not block, because the goroutine that reads the connection may call it. It may be nil.
	Notify func(Notification)
	// Ask gets the answer to a question of the server. It returns when there is an answer or ctx ends; any other error refuses the
	// question and is sent to the server. If Ask is nil, all questions are refused.
	Ask func(context.Context, Question) (Answer, error)
	// Hold receives what a large result holds of the budget, before CallTool returns. It may be nil.
	Hold func(*jsonrpc.Held)
	// Pause is called while a large message of the server waits to be read, and the function that it returns afterwards: that time does not count for
	// the call's time limit. It may be nil.
	Pause func() (resume func())
	// Unclear is called when a question was refused that may have been for this call. It may be nil.
	Unclear func()
	// Again is called when a request of the call other than the first fails without a JSON-RPC response. failures is how often that request
	// has failed. To repeat the request, Again waits and returns true. If Again is nil, no request is repeated.
	Again func(ctx context.Context, failures int, err *Error) bool
	// Sample asks a model on behalf of the server; its error is sent to the server. If Sample is nil, all requests for a model are refused.
	Sample func(context.Context, Sample) (Sampled, error)
	// Resume, if not nil, continues a call that ended with questions; Answers holds the answers by the ids of the questions.
	Resume  *Continuation
	Answers map[string]Answer
	// Task asks the server to run the call as a task, in revisions in which the client decides that, and to keep the task for TaskTTL.
	Task    bool
	TaskTTL time.Duration
	// Follow is the id of a task that already runs the call: CallTool waits for that task and starts no other.
	Follow string
}

// Notification is sent while a call runs. One of its fields is set.
type Notification struct {
	Progress *Progress
	Log      *Log
	Task     *Task
	Question *Question
}

// Progress is the progress of a call; Total is 0 if the server does not send it.
type Progress struct {
	Done, Total float64
	Message     string
}

// Log is a log message; Data is JSON.
type Log struct {
	Level, Logger, Data string
}

// Task is a call that the server runs in the background; its result can be fetched later by the task's id.
type Task struct {
	ID       string
	TTL      time.Duration // 0 if the server sets none
	Status   string        // working, input_required, completed, failed or cancelled
	Message  string
	Portable bool // any connection to the server can ask for the task
}

// ErrStopping is the cause that ends calls when the pool stops. A portable task outlives the pool.
var ErrStopping = errors.New("the MCP pool is stopping")

// Offers is implemented by Clients whose servers can offer more than tools. Errors are *Error.
type Offers interface {
	// List returns the raw entries of a list in the server's order; nothing if the server has no such list. Entries are cached
	// until the server reports a change of the list, for a minute at most.
	List(ctx context.Context, list List) ([]json.RawMessage, error)
	// Get returns the raw result of a query: ReadResource, GetPrompt or Completion.Query.
	Get(ctx context.Context, q Query) (json.RawMessage, error)
	// Subscribe subscribes to changes of a resource. The server sees one subscription per URI.
	Subscribe(ctx context.Context, uri string) (*Subscription, error)
}

// Completion is a partly typed argument of a prompt or of a resource template. Either Prompt or URITemplate is set.
type Completion struct {
	Prompt      string
	URITemplate string
	Argument    string            // its name
	Value       string            // typed so far
	Context     map[string]string // arguments that are already filled in
}

// Stderr is the end of a child process's stderr, without the secrets that the process was given.
type Stderr struct {
	Text string
	Cut  bool // there was more before it
}
