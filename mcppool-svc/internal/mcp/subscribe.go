package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// maxSubscriptions bounds the addresses that one connection is subscribed to.
	maxSubscriptions = 1_000
	// unsubscribeLimit bounds the request that ends a subscription.
	unsubscribeLimit = 5 * time.Second
)

// Subscription reports changes of a resource until Close.
type Subscription struct {
	c       *client
	uri     string
	about   *subscribed
	changed chan struct{} // buffered

	last string // guarded by the offers' mu
	n    uint64 // guarded by the offers' mu
}

// subscribed is an address that the server reports changes of.
type subscribed struct {
	all map[*Subscription]bool // guarded by the offers' mu
	end func(context.Context)  // guarded by the offers' turn; tells the server to stop; nil until it has agreed
}

// Changed gets a value when there are changes to take.
func (s *Subscription) Changed() <-chan struct{} { return s.changed }

// Take returns the number of changes since the last Take, and the address that changed last: the resource, or one within it.
func (s *Subscription) Take() (uri string, changes uint64) {
	s.c.offers.mu.Lock()
	defer s.c.offers.mu.Unlock()
	uri, changes = s.last, s.n
	s.n = 0
	select {
	case <-s.changed: // what it is about is taken
	default:
	}
	return uri, changes
}

// updated counts a change for the subscriptions of an address, or of one above it.
func (o *offers) updated(uri string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for whole, about := range o.subscribed {
		if !holds(whole, uri) {
			continue
		}
		for s := range about.all {
			s.last = uri
			s.n++
			select {
			case s.changed <- struct{}{}:
			default:
			}
		}
	}
}

// holds reports whether part is the address whole, or one within it.
func holds(whole, part string) bool {
	rest, ok := strings.CutPrefix(part, whole)
	return ok && (rest == "" || strings.HasSuffix(whole, "/") || strings.ContainsAny(rest[:1], "/?#"))
}

// Subscribe implements Offers.
func (c *client) Subscribe(ctx context.Context, uri string) (*Subscription, error) {
	o := &c.offers
	if err := o.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-o.turn }()
	o.mu.Lock()
	about, n := o.subscribed[uri], len(o.subscribed)
	if about == nil {
		about = &subscribed{all: make(map[*Subscription]bool)}
		o.subscribed[uri] = about // before the server knows, so that nothing is missed
	}
	s := &Subscription{c: c, uri: uri, about: about, changed: make(chan struct{}, 1)}
	about.all[s] = true
	o.mu.Unlock()
	if about.end != nil {
		return s, nil
	}
	var err error
	if n >= maxSubscriptions {
		err = &Error{Kind: TooLarge, Message: fmt.Sprintf("the connection is subscribed to %d resources already; end one first", maxSubscriptions)}
	} else {
		about.end, err = c.askToTell(ctx, uri)
	}
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.subscribed, uri)
		return nil, err
	}
	return s, nil
}

// askToTell begins the one subscription of an address that the server knows of, and returns what ends it.
func (c *client) askToTell(ctx context.Context, uri string) (end func(context.Context), err error) {
	if c.isModern() {
		return c.listenTo(ctx, uri)
	}
	_, err = c.ask(ctx, string(mcp.MethodResourcesSubscribe), "", map[string]any{"uri": uri})
	return func(ctx context.Context) { // best effort: later notifications are dropped
		_, _ = c.ask(ctx, string(mcp.MethodResourcesUnsubscribe), "", map[string]any{"uri": uri})
	}, err
}

// listenTo keeps a stream of the changes of a resource open (2026-07-28), and returns once the server has agreed.
func (c *client) listenTo(ctx context.Context, uri string) (func(context.Context), error) {
	life, end := context.WithCancel(c.life)
	first := make(chan error, 1)
	var told atomic.Bool
	tell := func(err error) {
		if !told.Swap(true) {
			first <- err
		} else if err == nil {
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

// Close ends the subscription. The server is told if it was the last one of its address.
func (s *Subscription) Close() {
	c, o, about := s.c, &s.c.offers, s.about
	o.mu.Lock()
	delete(about.all, s)
	o.mu.Unlock()
	c.background(func() {
		if o.take(c.life) != nil {
			return // the connection ended, and with it all subscriptions
		}
		defer func() { <-o.turn }()
		o.mu.Lock()
		last := len(about.all) == 0 && o.subscribed[s.uri] == about
		if last {
			delete(o.subscribed, s.uri)
		}
		o.mu.Unlock()
		if last {
			ctx, cancel := context.WithTimeout(c.life, unsubscribeLimit)
			defer cancel()
			about.end(ctx)
		}
	})
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
