package mcp

import (
	"context"
	"encoding/json"
	"time"
)

// Client is one live connection to one MCP server. Its methods are safe for concurrent use. All errors of ListTools and
// CallTool are *Error, or what Call.Gate said.
type Client interface {
	// Info says what the server is, as it said itself when the connection was made.
	Info() Info
	// ListTools returns the raw definitions of all tools, every page of them, in the server's order.
	ListTools(ctx context.Context) ([]json.RawMessage, error)
	// ToolsVersion changes each time that the server says that its tools changed.
	ToolsVersion() uint64
	// CallTool calls a tool and returns the raw result, whatever the server asks in between and however it does the call.
	// When ctx ends the server is told, and has the call's grace to answer all the same; a deadline has no grace.
	CallTool(ctx context.Context, call Call) (json.RawMessage, error)
	// Done is closed once the connection is of no use any more.
	Done() <-chan struct{}
	// Err says why, after Done; nil where it was closed on purpose.
	Err() error
	// Close ends the connection and the process behind it, and returns when both are gone. It may be called again.
	Close() error
}

// Info is what a server says of itself.
type Info struct {
	Name     string
	Version  string
	Protocol string // the MCP revision in use, such as 2025-11-25; empty where it is no MCP server
	// Capabilities are what the server says that it offers.
	Capabilities Capabilities
}

// String is Info for people.
func (i Info) String() string {
	if i == (Info{}) {
		return ""
	}
	name := i.Name
	if name == "" {
		name = "unnamed"
	}
	if i.Version != "" {
		name += " " + i.Version
	}
	if i.Protocol == "" {
		return name
	}
	return name + " (MCP " + i.Protocol + ")"
}

// Call is one tool call.
type Call struct {
	Name      string
	Arguments json.RawMessage // a JSON object
	Meta      []Meta          // goes into _meta beside the progress token
	// Gate is asked in the last moment before the request goes out, once connected and whatever else takes time; its error
	// keeps the request back. It may be nil.
	Gate func() error
	// Notify is told of progress, logs and tasks. It is called from the connection's read loop and must not block.
	Notify func(Notification)
	// Ask gets an answer to what the server asks for, and returns when there is one or ctx ends; any other error is why the
	// question is refused, and is told to the server. Where Ask is nil all are.
	Ask func(context.Context, Question) (Answer, error)
	// Unclear is told where a question was refused that may have been this call's. It may be nil.
	Unclear func()

	// Again is asked whether a request that goes on with a call is to be made once more after it failed the try-th time, and waits
	// before it says yes. It may be nil: never.
	Again func(ctx context.Context, try int, err *Error) bool
	// Sample has a model asked, as the server wants it; its error is told to the server. Where Sample is nil none is.
	Sample func(context.Context, Sample) (Sampled, error)

	// Resume goes on with a call that ended by asking, with Answers by the ids of the questions; nil: it is a new one.
	Resume  *Continuation
	Answers map[string]Answer
	// Task says whether to begin the call as a task, and TaskTTL for how long the server is to keep that.
	Task    TaskUse
	TaskTTL time.Duration
	// Follow is a task that does the call already: it is not made again, but waited for.
	Follow string
}

// Meta is one thing that a call says of itself.
type Meta struct{ Key, Value string }

// Notification is something to tell while a call runs: one of these.
type Notification struct {
	Progress *Progress
	Log      *Log
	Task     *Task
	Question *Question
}

// Progress says how far a call is; Total is 0 where the server does not say.
type Progress struct {
	Done, Total float64
	Message     string
}

// Log is a log message; Data is JSON.
type Log struct {
	Level, Logger, Data string
}
