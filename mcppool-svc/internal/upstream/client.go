package upstream

import (
	"context"
	"encoding/json"
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
	// CallTool calls a tool and returns the raw result. When ctx ends the server is told, and has the call's grace to
	// answer all the same; a deadline has no grace.
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
	Protocol string // the MCP revision in use, such as 2025-11-25
	// Capabilities are what the server says that it offers.
	Capabilities Capabilities
}

// String is Info for people.
func (i Info) String() string {
	if i.Protocol == "" {
		return ""
	}
	name := i.Name
	if name == "" {
		name = "unnamed"
	}
	if i.Version != "" {
		name += " " + i.Version
	}
	return name + " (MCP " + i.Protocol + ")"
}

// Call is one tool call.
type Call struct {
	Name      string
	Arguments json.RawMessage   // a JSON object
	Meta      map[string]string // goes into _meta beside the progress token
	// Gate is asked in the last moment before the request goes out, once connected and whatever else takes time; its error
	// keeps the request back. It may be nil.
	Gate func() error
	// Notify is told of progress and logs. It is called from the connection's read loop and must not block.
	Notify func(Notification)
}

// Notification is something that a server says while a call runs: one of the two.
type Notification struct {
	Progress *Progress
	Log      *Log
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
