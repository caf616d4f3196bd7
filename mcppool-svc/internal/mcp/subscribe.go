package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

func (c *client) Subscribe(ctx context.Context, uri string) (*Subscription, error) {
	o := &c.offers
	if o.turn.Acquire(ctx, 1) != nil {
		return nil, GivenUp(ctx, false)
	}
	defer o.turn.Release(1)
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
			e := sentf(Answered, "the server does not tell of changes of %.200q", uri)
			e.Code, err = mcp.METHOD_NOT_FOUND, e
		}
		tell(err)
	}
	c.background(func() {
		_ = keepOpen(life, func(ctx context.Context) error {
			err := c.listen(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}, agreed)
			tell(err)
			return err
		})
	})
	var err error
	select {
	case err = <-first:
	case <-c.life.Done():
		err = errClosed
	case <-ctx.Done():
		err = GivenUp(ctx, false)
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
		if o.turn.Acquire(c.life, 1) != nil {
			return // the connection ended, and with it all subscriptions
		}
		defer o.turn.Release(1)
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

const (
	// relistenMin and relistenMax are how long a broken stream of changes stays so.
	relistenMin = time.Second
	relistenMax = time.Minute
	// steadyAfter is how long a stream must have been open to be opened again without a longer wait than the last time.
	steadyAfter = 10 * time.Second
)

// keepOpen opens a stream of changes, and again when it breaks, until ctx ends or the server has none (errNoStream). open returns when the stream
// ends.
func keepOpen(ctx context.Context, open func(context.Context) error) error {
	for delay := time.Duration(0); ; {
		start := time.Now()
		err := open(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, errNoStream):
			return err
		case As(err).Kind == Answered:
			delay = relistenMax // the server does not want to
		case time.Since(start) > steadyAfter:
			delay = relistenMin
		default:
			delay = min(max(2*delay, relistenMin), relistenMax)
		}
		if !pause(ctx, nil, delay) {
			return ctx.Err()
		}
	}
}

// openChanges opens the connection's own stream of changes unless it is open or there is none.
func (c *client) openChanges() {
	o := &c.offers
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil || o.end != nil {
		return
	}
	ctx, end := context.WithCancel(c.life)
	open := o.open
	o.end = end
	c.background(func() {
		defer end()
		if err := keepOpen(ctx, open); errors.Is(err, errNoStream) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.open = nil
		}
	})
}

// pause waits until it is woken, until ctx ends (it then returns false), or for d if d is not 0.
func pause(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		after = time.After(d)
	}
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-after:
	}
	return true
}

// listen makes the request by which servers of 2026-07-28 report changes (subscriptions/listen), and returns when it ends. agreed gets the filter
// that the server agreed to.
func (c *client) listen(ctx context.Context, filter mcp.SubscriptionFilter, agreed func(mcp.SubscriptionFilter)) error {
	x, err := c.newRequest(string(mcp.MethodSubscriptionsListen), "", map[string]any{"notifications": filter})
	if err != nil {
		return err
	}
	c.offers.agreed.Store(x.id, agreed)
	defer c.offers.agreed.Delete(x.id)
	if _, err = c.roundTrip(ctx, x, nil); err == nil {
		err = sentf(Protocol, "the server ended the stream of its notifications")
	}
	return err
}

// acknowledged handles the server's answer to a request for changes: to the one that it names, else to all.
func (o *offers) acknowledged(params mcp.NotificationParams) {
	var filter mcp.SubscriptionFilter
	if text, err := json.Marshal(params.AdditionalFields["notifications"]); err == nil {
		_ = json.Unmarshal(text, &filter) // what cannot be read grants nothing
	}
	about := params.Meta[mcp.MetaKeySubscriptionID]
	o.agreed.Range(func(id, agreed any) bool {
		// Some servers send the id as text.
		if _, text, _ := strings.Cut(mcp.NewRequestId(about).String(), ":"); about == nil || text == strconv.FormatInt(id.(int64), 10) {
			agreed.(func(mcp.SubscriptionFilter))(filter)
		}
		return true
	})
}

// Rest implements Client: the stream on which a server sends changes over HTTP is closed, since it takes more memory than all else of a
// connection, and a TCP connection on both sides. With the older transport it is the only stream, and over stdio it costs nothing, so there it
// stays.
func (c *client) Rest() bool {
	if t, ok := c.wire.(*web); !ok || t.older {
		return false
	}
	o := &c.offers
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end != nil {
		o.end()
		o.end = nil
	}
	return true
}

func (c *client) Wake() {
	c.openChanges()
	c.tools.Add(1) // changes may have been missed
	c.offers.outdate(Resources, ResourceTemplates, Prompts)
}
