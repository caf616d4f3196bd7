package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// maxSubscriptions bounds the addresses that one connection is subscribed to.
	maxSubscriptions = 1_000
	// unsubscribeLimit bounds the request that ends a subscription.
	unsubscribeLimit = 5 * time.Second
)

// watch is one subscription of ours. It implements Subscription.
type watch struct {
	c       *client
	uri     string
	changed chan struct{}

	last string // guarded by the offers' mu
	n    uint64 // guarded by the offers' mu
}

// Changed implements Subscription.
func (w *watch) Changed() <-chan struct{} { return w.changed }

// Take implements Subscription.
func (w *watch) Take() (uri string, changes uint64) {
	w.c.offers.mu.Lock()
	defer w.c.offers.mu.Unlock()
	uri, changes = w.last, w.n
	w.n = 0
	select {
	case <-w.changed: // what it is about is taken
	default:
	}
	return uri, changes
}

// tell counts a change. Called with the offers' mu held.
func (w *watch) tell(uri string) {
	w.last = uri
	w.n++
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// updated counts a change for the subscriptions of an address, or of one above it.
func (o *offers) updated(uri string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.watches {
		if holds(w.uri, uri) {
			w.tell(uri)
		}
	}
}

// holds reports whether part is the address whole, or one within it.
func holds(whole, part string) bool {
	rest, ok := strings.CutPrefix(part, whole)
	return ok && (rest == "" || strings.HasSuffix(whole, "/") || strings.ContainsAny(rest[:1], "/?#"))
}

// Subscribe implements Offers.
func (c *client) Subscribe(ctx context.Context, uri string) (Subscription, error) {
	o := &c.offers
	if err := o.take(ctx); err != nil {
		return nil, err
	}
	defer o.give()
	w := &watch{c: c, uri: uri, changed: make(chan struct{}, 1)}
	o.mu.Lock()
	o.watches[w] = struct{}{} // before the server knows, so that nothing is missed
	o.mu.Unlock()
	if err := c.subscribe(ctx, uri); err != nil {
		o.forget(w)
		return nil, err
	}
	return w, nil
}

// subscribe asks the server where it was not asked before. Called with the turn.
func (c *client) subscribe(ctx context.Context, uri string) error {
	o := &c.offers
	if o.refs[uri] == 0 {
		if len(o.refs) >= maxSubscriptions {
			return &Error{Kind: TooLarge,
				Message: fmt.Sprintf("the connection is subscribed to %d resources already; end one first", maxSubscriptions)}
		}
		if err := c.askToTell(ctx, uri); err != nil {
			return err
		}
	}
	o.refs[uri]++
	return nil
}

// askToTell begins the one subscription of an address that the server knows of.
func (c *client) askToTell(ctx context.Context, uri string) error {
	if c.isModern() {
		return c.widen(ctx, uri)
	}
	_, err := c.ask(ctx, string(mcp.MethodResourcesSubscribe), "", map[string]any{"uri": uri})
	return err
}

// Close implements Subscription.
func (w *watch) Close() {
	c := w.c
	if !c.offers.forget(w) {
		return
	}
	c.background(func() {
		if c.offers.take(c.life) != nil {
			return // the connection ended, and with it all subscriptions
		}
		defer c.offers.give()
		ctx, cancel := context.WithTimeout(c.life, unsubscribeLimit)
		defer cancel()
		c.unsubscribe(ctx, w.uri)
	})
}

// unsubscribe takes back one subscription of an address. Called with the turn.
func (c *client) unsubscribe(ctx context.Context, uri string) {
	o := &c.offers
	if o.refs[uri]--; o.refs[uri] > 0 {
		return
	}
	delete(o.refs, uri)
	if c.isModern() {
		o.stream.narrow(uri)
		return
	}
	// Best effort: later notifications are dropped.
	_, _ = c.ask(ctx, string(mcp.MethodResourcesUnsubscribe), "", map[string]any{"uri": uri})
}

func (o *offers) forget(w *watch) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, was := o.watches[w]
	delete(o.watches, w)
	return was
}

// take waits for the turn.
func (o *offers) take(ctx context.Context) error {
	select {
	case o.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &Error{Kind: Interrupted, Message: context.Cause(ctx).Error(), Err: context.Cause(ctx)}
	}
}

func (o *offers) give() { <-o.turn }

// missed counts a change for all watches but one: something may have changed while the stream was not open.
func (o *offers) missed(but string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.watches {
		if w.uri != but {
			w.tell(w.uri)
		}
	}
}
