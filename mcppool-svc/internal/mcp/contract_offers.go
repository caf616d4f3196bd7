package mcp

import (
	"context"
	"encoding/json"
)

// Offers is implemented by Clients whose servers can offer more than tools. Errors are *Error.
type Offers interface {
	// List returns the raw entries of a list in the server's order; nothing if the server has no such list. Entries are cached
	// until the server tells that the list changed, for a minute at most.
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

// Prober is implemented by Clients that can check whether their server still answers.
type Prober interface {
	// Probe sends a request and waits for any answer. An error means that there was none.
	Probe(ctx context.Context) error
}

// Notifier is implemented by Clients that report changes of what their server offers.
type Notifier interface {
	// OnChange sets the function that is called when a list changes, that of the tools included. It must not block.
	OnChange(changed func())
}

// Rester is implemented by Clients that can release resources while they are not used.
type Rester interface {
	// Rest releases what can be acquired again; it returns false if there is nothing to release. It must not block.
	Rest() bool
	// Wake acquires it again, before the client is used; what was known of the server's lists is outdated. It must not block.
	Wake()
}

// Settler is implemented by Clients that know whether their server may still be running an abandoned call.
type Settler interface {
	// Settled returns false for good once a call was given up that the server never answered: the server may still ask for it.
	Settled() bool
}

// Stderr is the end of what a child process wrote to its stderr, without the secrets that it was given.
type Stderr struct {
	Text string
	Cut  bool // there was more before it
}

// StderrOf returns what a client's server wrote; nothing if it has no stderr.
func StderrOf(c Client) Stderr {
	if t, ok := c.(interface{ Stderr() Stderr }); ok {
		return t.Stderr()
	}
	return Stderr{}
}
