package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"pawl.dev/services/strictjson"
)

// Client is a live connection to an MCP server. Its methods are safe for concurrent use. The errors of ListTools and CallTool
// are *Error, or the one that Call.Gate returned.
type Client interface {
	// Info returns the server's description of itself from the handshake.
	Info() Info
	// ListTools returns the raw definitions of all tools, in the server's order.
	ListTools(ctx context.Context) ([]json.RawMessage, error)
	// ToolsVersion changes each time the server reports that its tools changed.
	ToolsVersion() uint64
	// CallTool calls a tool and returns the raw result. It answers the server's questions meanwhile, and follows an MCP task. If ctx is
	// cancelled, it notifies the server, and waits a moment for a result; after a deadline it does not wait.
	CallTool(ctx context.Context, call Call) (json.RawMessage, error)
	// Done is closed when the connection can no longer be used.
	Done() <-chan struct{}
	// Err returns why, after Done; nil if the connection was closed on purpose.
	Err() error
	// Close ends the connection and the process behind it, and returns when both have ended. It may be called again.
	Close() error

	// Probe sends a request and waits for any answer. An error means that there was none.
	Probe(ctx context.Context) error
	// OnChange sets the function that is called when a list of the server changes, that of the tools included. It must not block.
	OnChange(changed func())
	// Rest releases resources that Wake acquires again; it returns false if there are none. It must not block.
	Rest() bool
	// Wake acquires them again before the client is used. The cached lists are then outdated. It must not block.
	Wake()
	// Settled returns true until a call is given up that the server has not answered. After that a question may be for that call.
	Settled() bool
	// Stderr returns the server's stderr; empty if it has none.
	Stderr() Stderr
}

// Static is the part of a Client that is trivial if the server is a part of this program and does not change.
type Static struct{}

// Probe implements Client.
func (Static) Probe(context.Context) error { return nil }

// OnChange implements Client.
func (Static) OnChange(func()) {}

// Rest implements Client.
func (Static) Rest() bool { return false }

// Wake implements Client.
func (Static) Wake() {}

// Settled implements Client.
func (Static) Settled() bool { return true }

// Stderr implements Client.
func (Static) Stderr() Stderr { return Stderr{} }

// Info is a server's description of itself.
type Info struct {
	Name         string
	Version      string
	Protocol     string   // the MCP revision in use, such as 2025-11-25; empty if it is not an MCP server
	Capabilities []string // beside tools: resources, resource_subscriptions, prompts, completions, logging, tasks
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
	Meta      []Meta              // goes into _meta beside the progress token
	// Gate is called right before the first request is sent; its error keeps the request back. It may be nil.
	Gate func() error
	// Notify receives progress, logs and tasks. It is called from the goroutine that reads the connection and must not block.
	Notify func(Notification)
	// Ask gets the answer to a question of the server. It returns when there is one or ctx ends; any other error refuses the
	// question and is sent to the server. If Ask is nil, all questions are refused.
	Ask func(context.Context, Question) (Answer, error)
	// Unclear is called when a question was refused that may have been this call's. It may be nil.
	Unclear func()
	// Again reports whether to repeat a later request of the call after its try-th failure, and waits before it returns true. If
	// it is nil, none is repeated.
	Again func(ctx context.Context, try int, err *Error) bool
	// Sample asks a model for the server; its error is sent to the server. If Sample is nil, all requests for a model are refused.
	Sample func(context.Context, Sample) (Sampled, error)
	// Resume continues a call that ended by asking, with Answers by the ids of the questions; nil for a new call.
	Resume  *Continuation
	Answers map[string]Answer
	// Task asks for a task that runs the call, in revisions that leave that to the client, and TaskTTL for how long it is kept.
	Task    bool
	TaskTTL time.Duration
	// Follow is the id of a task that runs the call already: it is waited for, and not started again.
	Follow string
}

// Meta is one entry of a call's _meta.
type Meta struct{ Key, Value string }

// Notification is sent while a call runs. It has one of these.
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

// Task is a call that the server runs on its own; its result can be fetched later by its id.
type Task struct {
	ID       string
	TTL      time.Duration // 0 if the server does not tell
	Status   string        // working, input_required, completed, failed or cancelled
	Message  string
	Portable bool // any connection to the server can ask for it
}

// ErrStopping ends calls because the pool stops. A task that any connection can ask for outlives it.
var ErrStopping = errors.New("the MCP pool is stopping")

// Offers is implemented by Clients whose servers can offer more than tools. Errors are *Error.
type Offers interface {
	// List returns the raw entries of a list in the server's order; nothing if the server has no such list. Entries are cached
	// until the server reports a change of the list, for a minute at most.
	List(ctx context.Context, list List) ([]json.RawMessage, error)
	// ReadResource returns the raw result of resources/read.
	ReadResource(ctx context.Context, uri string) (json.RawMessage, error)
	// GetPrompt returns the raw result of prompts/get.
	GetPrompt(ctx context.Context, name string, arguments map[string]string) (json.RawMessage, error)
	// Complete returns the raw result of completion/complete.
	Complete(ctx context.Context, c Completion) (json.RawMessage, error)
	// Subscribe subscribes to changes of a resource. The server sees one subscription per address.
	Subscribe(ctx context.Context, uri string) (*Subscription, error)
}

// Completion is an argument that is being typed, of a prompt or of a resource's address.
type Completion struct {
	Prompt      string // one of the two
	URITemplate string
	Argument    string
	Value       string            // so far
	Context     map[string]string // arguments that are filled in
}

// Stderr is the end of a child process's stderr, without the secrets that the process was given.
type Stderr struct {
	Text string
	Cut  bool // there was more before it
}
