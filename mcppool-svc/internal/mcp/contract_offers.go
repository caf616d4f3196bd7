package mcp

import (
	"context"
	"encoding/json"
	"slices"
)

// Capabilities are what a server says that it offers.
type Capabilities struct {
	Tools, Resources, Subscriptions, Prompts, Completions, Logging, Tasks bool
}

// Names are those of the capabilities beside tools, as the contract has them.
func (c Capabilities) Names() []string {
	names := make([]string, 0, 6)
	for _, of := range []struct {
		has  bool
		name string
	}{
		{c.Resources, "resources"},
		{c.Subscriptions, "resource_subscriptions"},
		{c.Prompts, "prompts"},
		{c.Completions, "completions"},
		{c.Logging, "logging"},
		{c.Tasks, "tasks"},
	} {
		if of.has {
			names = append(names, of.name)
		}
	}
	return slices.Clip(names)
}

// List names something that a server lists beside its tools.
type List int

// The lists.
const (
	Resources List = iota
	ResourceTemplates
	Prompts
)

// String is the name of the list's method.
func (l List) String() string {
	return [...]string{"resources/list", "resources/templates/list", "prompts/list"}[l]
}

// Offers is what connections can do beside tools. A Client that can implements it too. Errors are *Error.
type Offers interface {
	// List returns the raw entries of a list, every page of it, in the server's order; nothing where the server has no such
	// list. They are kept until the server says that the list changed, a few minutes at most.
	List(ctx context.Context, list List) ([]json.RawMessage, error)
	// ReadResource returns the raw result of resources/read.
	ReadResource(ctx context.Context, uri string) (json.RawMessage, error)
	// GetPrompt returns the raw result of prompts/get.
	GetPrompt(ctx context.Context, name string, arguments map[string]string) (json.RawMessage, error)
	// Complete returns the raw result of completion/complete.
	Complete(ctx context.Context, c Completion) (json.RawMessage, error)
	// Subscribe asks the server to tell of a resource's changes. All subscriptions of one address are one for the server.
	Subscribe(ctx context.Context, uri string) (Subscription, error)
}

// Completion is an argument that is being typed: of a prompt, or of a resource's address.
type Completion struct {
	Prompt      string // one of the two
	URITemplate string
	Argument    string
	Value       string            // so far
	Context     map[string]string // arguments that are filled in
}

// Subscription tells of a resource's changes until Close.
type Subscription interface {
	// Changed gets a value when there is something to Take.
	Changed() <-chan struct{}
	// Take returns how many changes there were since the last Take, and what changed last: the resource, or something in it.
	Take() (uri string, changes uint64)
	// Close ends it; the server is told where it was the last one of that address.
	Close()
}

// Prober is a Client that can find out whether its server still answers.
type Prober interface {
	// Probe asks the server for a sign of life. An error means that there was none.
	Probe(ctx context.Context) error
}

// Notifier is a Client that tells when what its server offers changed.
type Notifier interface {
	// OnChange sets who is told when a list changes, that of the tools included. It must not block.
	OnChange(changed func())
}

// Rester is a Client that can do with less while nobody uses it, and nobody wants to hear of changes.
type Rester interface {
	// Rest lets go of what can be had again; false where that is nothing. It must not block.
	Rest() bool
	// Wake takes it up again, before the client is used: what was known of the server's lists is out of date. It must not block.
	Wake()
}

// Settler is a Client that knows whether its server may still be at work on a call that was given up.
type Settler interface {
	// Settled is false for good once a call was given up that the server never answered: it may ask for that one yet.
	Settled() bool
}
