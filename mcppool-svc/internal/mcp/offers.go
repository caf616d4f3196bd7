package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// maxListed and maxListedBytes bound each list beside that of tools.
	maxListed      = 10_000
	maxListedBytes = 8 << 20
	// listAge is how long such a list is believed without a word from the server: notifications can get lost over HTTP, and
	// servers may say nothing at all.
	listAge = time.Minute
)

// offers are what a connection knows of what its server offers beside tools.
type offers struct {
	mu      sync.Mutex
	lists   map[List]*kept // guarded by mu
	version [3]uint64      // guarded by mu; by List
	changed func()         // guarded by mu; nil where nobody wants to know

	watches map[*watch]struct{} // guarded by mu
	refs    map[string]int      // guarded by turn; subscriptions that the server knows, by address
	turn    chan struct{}       // held while the server is asked to begin or end one, so that it hears things in their order

	stream stream
}

// kept is a list as it was.
type kept struct {
	version uint64
	time    time.Time
	entries []json.RawMessage
}

func (o *offers) init() {
	o.lists, o.watches, o.refs = make(map[List]*kept), make(map[*watch]struct{}), make(map[string]int)
	o.turn = make(chan struct{}, 1)
	o.stream.wake = make(chan struct{}, 1)
}

// OnChange implements Notifier.
func (c *client) OnChange(changed func()) {
	c.offers.mu.Lock()
	defer c.offers.mu.Unlock()
	c.offers.changed = changed
}

// tell says that a list changed.
func (o *offers) tell() {
	o.mu.Lock()
	changed := o.changed
	o.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// notified runs in mcp-go's read loop.
func (o *offers) notified(n mcp.JSONRPCNotification) {
	switch n.Method {
	case mcp.MethodNotificationResourcesListChanged:
		o.expire(Resources, ResourceTemplates)
	case mcp.MethodNotificationPromptsListChanged:
		o.expire(Prompts)
	case mcp.MethodNotificationResourceUpdated:
		if uri, ok := n.Params.AdditionalFields["uri"].(string); ok {
			o.updated(cut(uri))
		}
	case mcp.MethodNotificationSubscriptionsAcknowledged:
		o.stream.acknowledged(n.Params)
	}
}

func (o *offers) expire(lists ...List) {
	o.outdate(lists...)
	o.tell()
}

func (o *offers) outdate(lists ...List) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range lists {
		o.version[l]++
		delete(o.lists, l)
	}
}

// List implements Offers.
func (c *client) List(ctx context.Context, list List) ([]json.RawMessage, error) {
	o := &c.offers
	o.mu.Lock()
	version := o.version[list]
	if k := o.lists[list]; k != nil && k.version == version && time.Since(k.time) < listAge {
		defer o.mu.Unlock()
		return k.entries, nil
	}
	o.mu.Unlock()
	entries, err := c.collect(ctx, c.listing(list))
	if err != nil {
		return nil, err
	}
	entries = slices.Clip(entries)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lists[list] = &kept{version: version, time: time.Now(), entries: entries}
	return entries, nil
}

func (c *client) listing(list List) listing {
	l := listing{method: list.String(), items: maxListed, bytes: maxListedBytes}
	switch list {
	case Resources:
		l.key, l.what = "resources", "resources"
		l.page = func(ctx context.Context, cursor mcp.Cursor) error {
			var request mcp.ListResourcesRequest
			request.Params.Cursor = cursor
			_, err := c.mcp.ListResourcesByPage(stubbed(ctx, `{"resources":[]}`), request)
			return err
		}
	case ResourceTemplates:
		l.key, l.what = "resourceTemplates", "templates of resources"
		l.page = func(ctx context.Context, cursor mcp.Cursor) error {
			var request mcp.ListResourceTemplatesRequest
			request.Params.Cursor = cursor
			_, err := c.mcp.ListResourceTemplatesByPage(stubbed(ctx, `{"resourceTemplates":[]}`), request)
			return err
		}
	default:
		l.key, l.what = "prompts", "prompts"
		l.page = func(ctx context.Context, cursor mcp.Cursor) error {
			var request mcp.ListPromptsRequest
			request.Params.Cursor = cursor
			_, err := c.mcp.ListPromptsByPage(stubbed(ctx, `{"prompts":[]}`), request)
			return err
		}
	}
	return l
}

// stubbed hands mcp-go an empty result, since the real one is read raw.
func stubbed(ctx context.Context, result string) context.Context {
	exchangeOf(ctx).stub = json.RawMessage(result)
	return ctx
}

// ReadResource implements Offers.
func (c *client) ReadResource(ctx context.Context, uri string) (json.RawMessage, error) {
	return c.ask(ctx, func(ctx context.Context) error {
		// Not stubbed: mcp-go answers what the server may ask back for (roots) by what it reads in the result.
		_, err := c.mcp.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: uri}})
		return err
	})
}

// GetPrompt implements Offers.
func (c *client) GetPrompt(ctx context.Context, name string, arguments map[string]string) (json.RawMessage, error) {
	return c.ask(ctx, func(ctx context.Context) error {
		_, err := c.mcp.GetPrompt(ctx, mcp.GetPromptRequest{Params: mcp.GetPromptParams{Name: name, Arguments: arguments}})
		return err
	})
}

// Complete implements Offers.
func (c *client) Complete(ctx context.Context, completion Completion) (json.RawMessage, error) {
	return c.ask(ctx, func(ctx context.Context) error {
		var request mcp.CompleteRequest
		request.Params.Ref = mcp.PromptReference{Type: "ref/prompt", Name: completion.Prompt}
		if completion.URITemplate != "" {
			request.Params.Ref = mcp.ResourceReference{Type: "ref/resource", URI: completion.URITemplate}
		}
		request.Params.Argument = mcp.CompleteArgument{Name: completion.Argument, Value: completion.Value}
		request.Params.Context = mcp.CompleteContext{Arguments: completion.Context}
		_, err := c.mcp.Complete(stubbed(ctx, `{"completion":{"values":[]}}`), request)
		return err
	})
}

// ask makes one request that changes nothing, and returns what came back, raw.
func (c *client) ask(ctx context.Context, request func(context.Context) error) (json.RawMessage, error) {
	x := &exchange{ownCancel: true}
	raw, err := c.outcome(x, request(withExchange(ctx, x)))
	if err != nil && ctx.Err() != nil {
		if id, handed := x.abandon(); handed && !c.hangsUp {
			c.background(func() { c.sendCancelled(id, context.Cause(ctx).Error()) })
		}
		return nil, &Error{Kind: Interrupted, Sent: true, Err: context.Cause(ctx), Message: context.Cause(ctx).Error()}
	}
	return raw, err
}

// Probe implements Prober: a ping, or what took its place in the revisions that have none.
func (c *client) Probe(ctx context.Context) error {
	_, err := c.ask(ctx, func(ctx context.Context) error {
		if c.isModern() {
			_, err := c.mcp.Discover(ctx, mcp.DiscoverRequest{})
			return err
		}
		//nolint:staticcheck // deprecated for 2026-07-28, which goes the other way
		return c.mcp.Ping(ctx)
	})
	var answered *statusError
	switch {
	case err == nil, As(err).Kind == Answered:
		return nil // it answers, if only to say that it does not know the word
	case errors.As(err, &answered) && answered.status == http.StatusTooManyRequests:
		return nil // or that it is asked too much
	}
	return err
}

func capabilitiesOf(c mcp.ServerCapabilities) Capabilities {
	return Capabilities{
		Tools: c.Tools != nil, Resources: c.Resources != nil, Subscriptions: c.Resources != nil && c.Resources.Subscribe,
		Prompts: c.Prompts != nil, Completions: c.Completions != nil, Logging: c.Logging != nil, Tasks: c.Tasks != nil,
	}
}
