package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/replica"
)

const (
	// pushWait is how long a write waits for a replica.
	pushWait = time.Second
	// pullWait bounds one page.
	pullWait = 10 * time.Second
	// maxPages bounds one round of pulling; the next round continues.
	maxPages = 2000
	// maxPause is the longest pause between two contacts of an unreachable peer.
	maxPause = 15 * time.Second
)

// peer is the address of another replica. The Set's mu guards the fields below the empty line.
type peer struct {
	addr   string
	conn   Conn
	client mcppoolv1.McpPoolPeerServiceClient
	busy   chan struct{} // holds one token while it is pulled from

	replica     string // empty: not known yet
	self        bool   // the address is this replica's own
	up          bool   // the last contact succeeded
	err         error  // of the last contact, if it failed
	keyMismatch bool   // the last contact failed because the keys differ
	agrees      bool   // its last response had the same key
	fails       int    // in a row
	next        time.Time
	contact     time.Time // the last successful one
	caught      time.Time // when all of its entries had been pulled
	offset      time.Duration
	run         string
	after       uint64
}

// pull stores the entries that a peer learned since the last pull. It may wait for a peer that is starting.
func (s *Set) pull(ctx context.Context, p *peer, wait bool) error {
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	taken := 0
	for range maxPages {
		n, more, err := s.page(ctx, p, wait)
		taken += n
		if err != nil {
			s.failed(p, err)
			return err
		}
		if !more {
			break
		}
	}
	s.caughtUp(p, taken)
	return nil
}

// page pulls one page.
func (s *Set) page(ctx context.Context, p *peer, wait bool) (taken int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	s.mu.Lock()
	req := &mcppoolv1.PullEntriesRequest{Hello: s.hello(), Run: p.run, After: p.after}
	s.mu.Unlock()
	sent := s.cfg.Now()
	resp, err := p.client.PullEntries(ctx, req, grpc.WaitForReady(wait))
	if err != nil {
		return 0, false, err
	}
	if err := s.met(p, resp.GetHello(), sent); err != nil {
		return 0, false, err
	}
	if resp.GetHello().GetReplica() == s.store.ID() {
		return 0, false, nil
	}
	taken, err = s.take(resp.GetHello(), resp.GetBatch())
	if err != nil {
		return taken, false, err // skipped entries are requested again
	}
	s.mu.Lock()
	p.run, p.after = resp.GetRun(), resp.GetNext()
	s.mu.Unlock()
	return taken, resp.GetMore(), nil
}

// met records the replica at an address.
func (s *Set) met(p *peer, hello *mcppoolv1.PeerHello, sent time.Time) error {
	if err := s.suits(hello); err != nil {
		return err
	}
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	p.replica = hello.GetReplica()
	p.self = p.replica == s.store.ID()
	p.offset = hello.GetTime().AsTime().Sub(sent.Add(now.Sub(sent) / 2))
	return nil
}

// caughtUp records that a peer is reachable and has nothing new.
func (s *Set) caughtUp(p *peer, taken int) {
	now := s.cfg.Now()
	s.mu.Lock()
	was := p.up
	p.up, p.err, p.keyMismatch, p.fails, p.contact, p.caught = !p.self, nil, false, 0, now, now
	p.agrees = p.up
	p.next = now.Add(s.cfg.Interval)
	self, offset, name := p.self, p.offset, p.replica
	s.mu.Unlock()
	if !self {
		s.store.InStep()
	}
	if !self && (!was || taken > 0) {
		s.cfg.Log.Info("in step with another replica of the MCP pool", "peer", p.addr, "replica", name, "taken", taken)
	}
	if !self && !was && offset.Abs() > maxOffset {
		s.cfg.Log.Warn("the clocks of two replicas of the MCP pool differ", "peer", p.addr, "ahead_there", offset.Round(time.Millisecond).String())
	}
}

// maxOffset is how far clocks may differ without a warning.
const maxOffset = 10 * time.Second

// failedBefore records a failed first contact, which is not logged as an error yet.
func (s *Set) failedBefore(p *peer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.err = err
}

// failed records a failed contact. Writes do not wait for this peer until a contact succeeds.
func (s *Set) failed(p *peer, err error) {
	if s.base.Err() != nil {
		return
	}
	now := s.cfg.Now()
	s.mu.Lock()
	other := isKeyMismatch(err)
	first := p.err == nil || other && !p.keyMismatch
	p.up, p.err, p.keyMismatch, p.agrees = false, err, other, p.agrees && !other
	p.fails++
	p.next = now.Add(min(s.cfg.Interval<<min(p.fails-1, 5), maxPause))
	offset := p.offset
	s.mu.Unlock()
	switch {
	case !first:
	case other:
		s.cfg.Log.Error("another replica of the MCP pool has another --token-key: neither hears what is written at the other, and one that no other agrees with "+
			"takes no registrations, approvals and logins; give all of them the same key and restart them", "peer", p.addr, "error", err)
	case errors.Is(err, replica.ErrAhead):
		s.cfg.Log.Error("a replica of the MCP pool wrote something that lies in the future; it is taken when its time has come, or set the clocks right",
			"peer", p.addr, "ahead_there", offset.Round(time.Second).String(), "error", err)
	default:
		s.cfg.Log.Warn("a replica of the MCP pool is out of reach; what it misses it gets when it is back", "peer", p.addr, "error", err)
	}
}

// push sends entries to a peer, within pushWait.
func (s *Set) push(ctx context.Context, p *peer, requests []*mcppoolv1.PushEntriesRequest) error {
	ctx, cancel := context.WithTimeout(ctx, pushWait)
	defer cancel()
	for _, req := range requests {
		resp, err := p.client.PushEntries(ctx, req)
		if err == nil {
			err = s.suits(resp.GetHello())
		}
		if err != nil {
			return fmt.Errorf("telling it what was written here: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.contact = s.cfg.Now()
	return nil
}
