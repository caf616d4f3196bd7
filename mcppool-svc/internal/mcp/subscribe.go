package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// subscribed is a subscription that the server knows of.
type subscribed struct {
	watches int
	end     func(context.Context)
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

// updated counts a change for the subscriptions of an address, or of one above it.
func (o *offers) updated(uri string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.watches {
		if !holds(w.uri, uri) {
			continue
		}
		w.last = uri
		w.n++
		select {
		case w.changed <- struct{}{}:
		default:
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
	defer func() { <-o.turn }()
	w := &watch{c: c, uri: uri, changed: make(chan struct{}, 1)}
	o.mu.Lock()
	o.watches[w] = struct{}{} // before the server knows, so that nothing is missed
	o.mu.Unlock()
	s := o.subscribed[uri]
	if s == nil { // the server was not asked before
		var err error
		if s, err = c.askToTell(ctx, uri); err != nil {
			o.forget(w)
			return nil, err
		}
	}
	s.watches++
	o.subscribed[uri] = s
	return w, nil
}

// askToTell begins the one subscription of an address that the server knows of. Called with the turn.
func (c *client) askToTell(ctx context.Context, uri string) (*subscribed, error) {
	if len(c.offers.subscribed) >= maxSubscriptions {
		return nil, &Error{Kind: TooLarge,
			Message: fmt.Sprintf("the connection is subscribed to %d resources already; end one first", maxSubscriptions)}
	}
	if c.isModern() {
		end, err := c.listenTo(ctx, uri)
		return &subscribed{end: end}, err
	}
	_, err := c.ask(ctx, string(mcp.MethodResourcesSubscribe), "", map[string]any{"uri": uri})
	return &subscribed{end: func(ctx context.Context) { // best effort: later notifications are dropped
		_, _ = c.ask(ctx, string(mcp.MethodResourcesUnsubscribe), "", map[string]any{"uri": uri})
	}}, err
}

// listenTo keeps a stream of the changes of a resource open (2026-07-28), and returns once the server has agreed.
func (c *client) listenTo(ctx context.Context, uri string) (func(context.Context), error) {
	life, end := context.WithCancel(c.life)
	first := make(chan error, 1)
	var once sync.Once
	tell := func(err error) {
		again := true
		once.Do(func() { first <- err; again = false })
		if again && err == nil {
			c.offers.updated(uri) // changes may have been missed while the stream was not open
		}
	}
	agreed := func(filter mcp.SubscriptionFilter) {
		var err error
		if !slices.Contains(filter.ResourceSubscriptions, uri) {
			err = &Error{Kind: Answered, Code: mcp.METHOD_NOT_FOUND, Sent: true,
				Message: fmt.Sprintf("the server does not tell of changes of %.200q", uri)}
		}
		tell(err)
	}
	c.background(func() {
		var stream standing
		stream.keep(life, func(ctx context.Context) error {
			err := c.listen(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}, agreed)
			tell(err)
			return err
		})
	})
	var err error
	select {
	case err = <-first:
	case <-c.done:
		err = errClosed
	case <-ctx.Done():
		err = givenUp(ctx, false)
	}
	if err != nil {
		end()
	}
	return func(context.Context) { end() }, err
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
		defer func() { <-c.offers.turn }()
		s := c.offers.subscribed[w.uri]
		if s.watches--; s.watches == 0 {
			delete(c.offers.subscribed, w.uri)
			ctx, cancel := context.WithTimeout(c.life, unsubscribeLimit)
			defer cancel()
			s.end(ctx)
		}
	})
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
		return givenUp(ctx, false)
	}
}
