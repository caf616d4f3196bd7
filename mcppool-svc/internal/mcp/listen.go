package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// relistenMin and relistenMax are how long a broken stream of changes stays so.
	relistenMin = time.Second
	relistenMax = time.Minute
	// steadyAfter is how long a stream must have been open to be opened again without a longer wait than the last time.
	steadyAfter = 10 * time.Second
)

// standing is a stream of the server's changes, which is opened again when it breaks. It can be closed for a while: it takes more memory than
// all else of a connection, and a TCP connection on both sides.
type standing struct {
	mu      sync.Mutex
	resting chan struct{}      // guarded by mu; closed when the stream may be opened again; nil if it may be
	end     context.CancelFunc // guarded by mu; ends the open stream; may be nil
}

// rest closes the stream until wake.
func (s *standing) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resting == nil {
		s.resting = make(chan struct{})
	}
	if s.end != nil {
		s.end()
	}
}

func (s *standing) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resting != nil {
		close(s.resting)
		s.resting = nil
	}
}

// next waits until a stream may be opened and returns its context; false if ctx ended first.
func (s *standing) next(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	for {
		s.mu.Lock()
		resting := s.resting
		if resting == nil {
			stream, end := context.WithCancel(ctx)
			s.end = end
			s.mu.Unlock()
			return stream, end, true
		}
		s.mu.Unlock()
		if !pause(ctx, resting, 0) {
			return nil, nil, false
		}
	}
}

// keep keeps the stream open until ctx ends, or open returns errNoStream: the server has none. open returns when the stream ends.
func (s *standing) keep(ctx context.Context, open func(context.Context) error) {
	for delay := time.Duration(0); ctx.Err() == nil; {
		stream, end, ok := s.next(ctx)
		if !ok {
			return
		}
		start := time.Now()
		err := open(stream)
		rested := stream.Err() != nil
		end()
		switch {
		case errors.Is(err, errNoStream):
			return
		case rested:
			continue
		case As(err).Kind == Answered:
			delay = relistenMax // the server does not want to
		case time.Since(start) > steadyAfter:
			delay = relistenMin
		default:
			delay = min(max(2*delay, relistenMin), relistenMax)
		}
		if !pause(ctx, nil, delay) {
			return
		}
	}
}

// pause waits until it is woken, ctx ends (false), or for d where that is not 0.
func pause(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-after:
	}
	return true
}

// listen makes the request by which servers of 2026-07-28 report changes (subscriptions/listen), and returns when it ends. agreed gets what the
// server agreed to.
func (c *client) listen(ctx context.Context, filter mcp.SubscriptionFilter, agreed func(mcp.SubscriptionFilter)) error {
	x, err := c.newRequest(string(mcp.MethodSubscriptionsListen), "", map[string]any{"notifications": filter})
	if err != nil {
		return err
	}
	o := &c.offers
	o.mu.Lock()
	o.agreed[x.id] = agreed
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.agreed, x.id)
	}()
	if _, err = c.roundTrip(ctx, x, nil); err == nil {
		err = protocolError("the server ended the stream of its notifications")
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
	var all []func(mcp.SubscriptionFilter)
	o.mu.Lock()
	for id, agreed := range o.agreed {
		// Some servers send the id as text.
		if _, text, _ := strings.Cut(mcp.NewRequestId(about).String(), ":"); about == nil || text == strconv.FormatInt(id, 10) {
			all = append(all, agreed)
		}
	}
	o.mu.Unlock()
	for _, agreed := range all {
		agreed(filter)
	}
}

// Rest implements Rester: the stream on which a server sends changes over HTTP is closed. With the older transport it is the only stream, and
// over stdio it costs nothing, so there it stays.
func (c *client) Rest() bool {
	if t, ok := c.wire.(*web); !ok || t.older {
		return false
	}
	c.changes.rest()
	return true
}

// Wake implements Rester.
func (c *client) Wake() {
	c.changes.wake()
	c.tools.Add(1) // changes may have been missed
	c.offers.outdate(Resources, ResourceTemplates, Prompts)
}
