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
	// maxSubscriptions bounds the addresses (URIs of resources) that one connection is subscribed to.
	maxSubscriptions = 1_000
	// unsubscribeLimit bounds the request that ends a subscription.
	unsubscribeLimit = 5 * time.Second
)

// Subscription reports changes of a resource until Close.
type Subscription struct {
	c       *client
	uri     string
	group   *subscribers
	changed chan struct{} // buffered

	last string // guarded by the offers' mu; the address that changed last
	n    uint64 // guarded by the offers' mu; changes since the last Take
}

// subscribers are the Subscriptions of one address. The server knows of one subscription for all of them.
type subscribers struct {
	all map[*Subscription]bool // guarded by the offers' mu
	end func(context.Context)  // guarded by the offers' subscribing; ends the server's subscription; nil until the server has agreed to it
}

// Changed returns a channel that gets a value when there are changes to take.
func (s *Subscription) Changed() <-chan struct{} { return s.changed }

// Take returns the number of changes since the last Take, and the address that changed last: the resource, or one within it.
func (s *Subscription) Take() (uri string, changes uint64) {
	s.c.offers.mu.Lock()
	defer s.c.offers.mu.Unlock()
	uri, changes = s.last, s.n
	s.n = 0
	select {
	case <-s.changed: // the changes are taken
	default:
	}
	return uri, changes
}

// onUpdated counts a change of an address for its subscriptions, and for those of the addresses that contain it.
func (o *offers) onUpdated(uri string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for address, group := range o.subscribed {
		if !contains(address, uri) {
			continue
		}
		for s := range group.all {
			s.last = uri
			s.n++
			select {
			case s.changed <- struct{}{}:
			default:
			}
		}
	}
}

// contains reports whether inner is the same address as outer, or one within it.
func contains(outer, inner string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (rest == "" || strings.HasSuffix(outer, "/") || strings.ContainsAny(rest[:1], "/?#"))
}

func (c *client) Subscribe(ctx context.Context, uri string) (*Subscription, error) {
	o := &c.offers
	if o.subscribing.Acquire(ctx, 1) != nil {
		return nil, GivenUp(ctx, false)
	}
	defer o.subscribing.Release(1)
	o.mu.Lock()
	group, n := o.subscribed[uri], len(o.subscribed)
	if group == nil {
		group = &subscribers{all: make(map[*Subscription]bool)}
		o.subscribed[uri] = group // before the request, so that no change is missed
	}
	s := &Subscription{c: c, uri: uri, group: group, changed: make(chan struct{}, 1)}
	group.all[s] = true
	o.mu.Unlock()
	if group.end != nil {
		return s, nil
	}
	var err error
	if n >= maxSubscriptions {
		err = &Error{Kind: TooLarge, Message: fmt.Sprintf("the connection already has %d subscriptions to resources; end one of them first", maxSubscriptions)}
	} else {
		group.end, err = c.subscribe(ctx, uri)
	}
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.subscribed, uri)
		return nil, err
	}
	return s, nil
}

// subscribe begins the server's subscription to an address, and returns the function that ends it.
func (c *client) subscribe(ctx context.Context, uri string) (end func(context.Context), err error) {
	if c.isModern() {
		return c.subscribeModern(ctx, uri)
	}
	_, err = c.request(ctx, string(mcp.MethodResourcesSubscribe), "", map[string]any{"uri": uri})
	return func(ctx context.Context) { // best effort: later notifications are dropped
		_, _ = c.request(ctx, string(mcp.MethodResourcesUnsubscribe), "", map[string]any{"uri": uri})
	}, err
}

// subscribeModern keeps a stream of the changes of a resource open (2026-07-28). It returns once the server has
// agreed to the first stream or refused it.
func (c *client) subscribeModern(ctx context.Context, uri string) (func(context.Context), error) {
	life, end := context.WithCancel(c.life)
	first := make(chan error, 1)
	var answered atomic.Bool
	onAnswer := func(err error) {
		if !answered.Swap(true) {
			first <- err
		} else if err == nil {
			c.offers.onUpdated(uri) // changes may have been missed while the stream was not open
		}
	}
	agreed := func(filter mcp.SubscriptionFilter) {
		var err error
		if !slices.Contains(filter.ResourceSubscriptions, uri) {
			e := sentf(Answered, "the server does not report changes of %.200q", uri)
			e.Code, err = mcp.METHOD_NOT_FOUND, e
		}
		onAnswer(err)
	}
	c.background(func() {
		_ = keepOpen(life, func(ctx context.Context) error {
			err := c.listen(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}, agreed)
			onAnswer(err)
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

// Close ends the subscription. If it was the last one of its address, Close also ends the server's subscription, in the background.
func (s *Subscription) Close() {
	c, o, group := s.c, &s.c.offers, s.group
	o.mu.Lock()
	delete(group.all, s)
	o.mu.Unlock()
	c.background(func() {
		if o.subscribing.Acquire(c.life, 1) != nil {
			return // the connection ended, and with it all subscriptions
		}
		defer o.subscribing.Release(1)
		o.mu.Lock()
		last := len(group.all) == 0 && o.subscribed[s.uri] == group
		if last {
			delete(o.subscribed, s.uri)
		}
		o.mu.Unlock()
		if last {
			ctx, cancel := context.WithTimeout(c.life, unsubscribeLimit)
			defer cancel()
			group.end(ctx)
		}
	})
}

const (
	// relistenMin and relistenMax bound the wait before a stream of changes that ended is opened again.
	relistenMin = time.Second
	relistenMax = time.Minute
	// steadyAfter is how long a stream must have been open for the wait to start at relistenMin again.
	steadyAfter = 10 * time.Second
)

// keepOpen opens a stream of changes, and opens it again whenever it ends, until ctx ends or the server turns out to have none (errNoStream).
// open returns when the stream ends.
func keepOpen(ctx context.Context, open func(context.Context) error) error {
	for delay := time.Duration(0); ; {
		start := time.Now()
		err := open(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, errNoStream):
			return err
		case As(err).Kind == Answered:
			delay = relistenMax // the server refuses
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

// openChanges opens the connection's stream of changes, unless that is open or the server has none.
func (c *client) openChanges() {
	o := &c.offers
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.openStream == nil || o.endStream != nil {
		return
	}
	ctx, end := context.WithCancel(c.life)
	open := o.openStream
	o.endStream = end
	c.background(func() {
		defer end()
		if err := keepOpen(ctx, open); errors.Is(err, errNoStream) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.openStream = nil
		}
	})
}

// pause waits until d has passed (0: no limit) or wake gets a value. It returns false if ctx ends first.
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

// listen makes the request on whose stream servers of 2026-07-28 report changes (subscriptions/listen), and returns when the stream ends. agreed
// gets the filter that the server agreed to.
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

// onAcknowledged handles the server's acknowledgement of the subscriptions/listen request that it names, or of all if it names none.
func (o *offers) onAcknowledged(params mcp.NotificationParams) {
	var filter mcp.SubscriptionFilter
	if text, err := json.Marshal(params.AdditionalFields["notifications"]); err == nil {
		_ = json.Unmarshal(text, &filter) // a filter that cannot be read is empty
	}
	request := params.Meta[mcp.MetaKeySubscriptionID]
	o.agreed.Range(func(id, agreed any) bool {
		// Some servers send the id as text.
		if _, text, _ := strings.Cut(mcp.NewRequestId(request).String(), ":"); request == nil || text == strconv.FormatInt(id.(int64), 10) {
			agreed.(func(mcp.SubscriptionFilter))(filter)
		}
		return true
	})
}

// Rest implements Client. Over streamable HTTP it closes the stream of changes, which takes more memory than the rest of the connection. Other
// transports have nothing to release.
func (c *client) Rest() bool {
	if t, ok := c.wire.(*web); !ok || t.older {
		return false
	}
	o := &c.offers
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.endStream != nil {
		o.endStream()
		o.endStream = nil
	}
	return true
}

func (c *client) Wake() {
	c.openChanges()
	c.toolsVersion.Add(1) // a change may have been missed
	c.offers.outdate(Resources, ResourceTemplates, Prompts)
}
