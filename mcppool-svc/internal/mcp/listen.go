package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// relistenMin and relistenMax are how long a broken stream of notifications stays so.
	relistenMin = time.Second
	relistenMax = time.Minute
)

// stream is the one request by which servers of 2026-07-28 report changes (subscriptions/listen): it names what is wanted,
// and stays open. What is wanted changes by asking again.
type stream struct {
	wake chan struct{} // something else is wanted

	mu      sync.Mutex
	filter  mcp.SubscriptionFilter // guarded by mu; what is wanted
	resting bool                   // guarded by mu; nothing is, for now
	round   uint64                 // guarded by mu; counts changes of filter
	open    uint64                 // guarded by mu; the round that the server was asked for last
	asked   int64                  // guarded by mu; the id of the request for it
	known   *granted               // guarded by mu; the server's answer to the last request; nil before that
	waits   []chan struct{}        // guarded by mu; closed when known changes
}

// granted is what a server agreed to, or why it refused.
type granted struct {
	round  uint64
	filter mcp.SubscriptionFilter
	err    error
}

// startListening opens the stream of changes of a connection without a handshake; in other revisions servers send changes by
// themselves.
func (c *client) startListening() {
	c.offers.stream.filter = mcp.SubscriptionFilter{
		ToolsListChanged:     c.serverCan.Tools != nil && c.serverCan.Tools.ListChanged,
		ResourcesListChanged: c.serverCan.Resources != nil && c.serverCan.Resources.ListChanged,
		PromptsListChanged:   c.serverCan.Prompts != nil && c.serverCan.Prompts.ListChanged,
	}
	c.background(c.listenLoop)
}

// listenLoop keeps the stream open until the connection ends.
func (c *client) listenLoop() {
	s := &c.offers.stream
	for delay := time.Duration(0); c.life.Err() == nil; {
		filter, round := s.wanted()
		if filter.IsEmpty() {
			if !pause(c.life, s.wake, 0) {
				return
			}
			continue
		}
		start := time.Now()
		err := c.listenOnce(filter, round)
		switch {
		case errors.Is(err, errRewoken):
			delay = 0
			continue
		case err != nil && As(err).Kind == Answered:
			delay = relistenMax // the server does not want to
		case time.Since(start) > relistenMax:
			delay = relistenMin
		default:
			delay = min(max(2*delay, relistenMin), relistenMax)
		}
		s.know(&granted{round: round, err: err})
		if !pause(c.life, s.wake, delay) {
			return
		}
		c.offers.missed("") // changes may have been missed
	}
}

var errRewoken = errors.New("something else is wanted of the stream")

// listenOnce opens the stream and returns when it ends, or when something else is wanted.
func (c *client) listenOnce(filter mcp.SubscriptionFilter, round uint64) error {
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	x, err := c.newRequest(string(mcp.MethodSubscriptionsListen), "", map[string]any{"notifications": filter})
	if err != nil {
		return err
	}
	c.offers.stream.asking(x)
	ended := make(chan error, 1)
	go func() {
		_, err := c.roundTrip(ctx, x, nil)
		if err == nil {
			err = protocolError("the server ended the stream of its notifications")
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-c.offers.stream.woken(round):
		cancel()
		return errors.Join(errRewoken, <-ended)
	}
}

// pause waits until it is woken, the connection ends (false), or for d where that is not 0.
func pause(life context.Context, wake <-chan struct{}, d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-life.Done():
		return false
	case <-wake:
	case <-after:
	}
	return true
}

// wanted is what to ask for now.
func (s *stream) wanted() (mcp.SubscriptionFilter, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.wake: // it is about what is read here
	default:
	}
	s.open = s.round
	if s.resting {
		return mcp.SubscriptionFilter{}, s.round
	}
	f := s.filter
	f.ResourceSubscriptions = slices.Clone(f.ResourceSubscriptions)
	return f, s.round
}

// woken is readable once the filter is another one than that of a round.
func (s *stream) woken(round uint64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.round != round {
		now := make(chan struct{})
		close(now)
		return now
	}
	return s.wake
}

// change edits what is wanted and returns the round that has it.
func (s *stream) change(edit func(uris []string) []string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter.ResourceSubscriptions = edit(s.filter.ResourceSubscriptions)
	s.round++
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return s.round
}

func (s *stream) narrow(uri string) {
	s.change(func(uris []string) []string { return slices.DeleteFunc(uris, func(u string) bool { return u == uri }) })
}

// widen adds an address to what is wanted, and waits until the server agreed.
func (c *client) widen(ctx context.Context, uri string) error {
	s := &c.offers.stream
	round := s.change(func(uris []string) []string { return append(uris, uri) })
	g, err := s.await(ctx, c.life, round)
	if err == nil && g.err == nil {
		if slices.Contains(g.filter.ResourceSubscriptions, uri) {
			c.offers.missed(uri) // the stream was another one for a moment
			return nil
		}
		err = &Error{Kind: Answered, Code: mcp.METHOD_NOT_FOUND, Sent: true,
			Message: fmt.Sprintf("the server does not tell of changes of %.200q", uri)}
	}
	s.narrow(uri)
	if err == nil {
		err = g.err
	}
	return err
}

// await waits for the server's answer to a round, or a later one.
func (s *stream) await(ctx, life context.Context, round uint64) (*granted, error) {
	for {
		s.mu.Lock()
		g := s.known
		if g != nil && g.round >= round {
			s.mu.Unlock()
			return g, nil
		}
		changed := make(chan struct{})
		s.waits = append(s.waits, changed)
		s.mu.Unlock()
		select {
		case <-changed:
		case <-life.Done():
			return nil, errClosed
		case <-ctx.Done():
			return nil, &Error{Kind: Interrupted, Message: context.Cause(ctx).Error(), Err: context.Cause(ctx)}
		}
	}
}

// know records the server's answer and wakes those that wait for it.
func (s *stream) know(g *granted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = g
	for _, w := range s.waits {
		close(w)
	}
	s.waits = nil
}

// asking notes the request for what is wanted now.
func (s *stream) asking(x *pendingRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = x.id
}

// acknowledged handles the server's answer to the open request; one to an earlier request may still be on its way.
func (s *stream) acknowledged(params mcp.NotificationParams) {
	g := &granted{}
	if text, err := json.Marshal(params.AdditionalFields["notifications"]); err == nil {
		_ = json.Unmarshal(text, &g.filter) // what cannot be read grants nothing
	}
	s.mu.Lock()
	g.round = s.open
	asked := s.asked
	s.mu.Unlock()
	if about := params.Meta[mcp.MetaKeySubscriptionID]; about != nil && !isID(about, asked) {
		return
	}
	s.know(g)
}

// isID reports whether a server means a request by an id, which some send as text.
func isID(given any, id int64) bool {
	_, text, _ := strings.Cut(mcp.NewRequestId(given).String(), ":")
	return text == strconv.FormatInt(id, 10)
}
