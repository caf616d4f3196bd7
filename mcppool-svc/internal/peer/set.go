package peer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/replica"
)

const (
	// startWait is how long a start waits for the entries of all peers, and firstWait for the first response of each.
	startWait = 3 * time.Second
	firstWait = time.Second
	// defaultInterval is the interval of pulling from each peer.
	defaultInterval = 3 * time.Second
	// maxPeers bounds the addresses that a name may resolve to.
	maxPeers = 64
)

// Conn is a connection to a peer.
type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

// Config names the peers.
type Config struct {
	Addrs    []string                              // host:port, or dns:///name:port
	Key      []byte                                // encrypts batches; empty: not encrypted
	Self     string                                // this replica's address; may be empty
	Interval time.Duration                         // interval of pulling; 3 s if 0
	Dial     func(name, addr string) (Conn, error) // name is the configured name:port that led to addr, or addr itself
	Lookup   func(ctx context.Context, host string) ([]string, error)
	Now      func() time.Time
	Log      *slog.Logger
}

// Set is the peers of a replica. It is safe for concurrent use.
type Set struct {
	cfg    Config
	store  *replica.Store
	sealer *sealer
	base   context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // pulls and pushes

	answering chan struct{} // one token per running request
	woken     chan struct{}

	mu     sync.Mutex
	closed bool             // guarded by mu
	peers  map[string]*peer // guarded by mu; by address
}

// New returns a Set that publishes the store's writes. Start makes the first contact. Close it before the store.
func New(cfg Config, store *replica.Store) (*Set, error) {
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	sealer, err := newSealer(cfg.Key)
	if err != nil {
		return nil, err
	}
	s := &Set{
		cfg: cfg, store: store, sealer: sealer,
		answering: make(chan struct{}, maxAtOnce), woken: make(chan struct{}, 1), peers: make(map[string]*peer),
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	store.Publish(s.publish)
	return s, nil
}

// Register registers the service that other replicas call.
func (s *Set) Register(r grpc.ServiceRegistrar) {
	mcppoolv1.RegisterMcpPoolPeerServiceServer(r, &server{set: s})
}

// Start pulls from the reachable peers, for at most 3 s.
func (s *Set) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if err := s.resolve(ctx); err != nil {
		return err
	}
	if away := s.store.Away(); away > replica.KeepTombstones {
		s.cfg.Log.ErrorContext(ctx, "this replica of the MCP pool was away for longer than it is known what was deleted: deleted servers and logins may come back; "+
			"stop it, empty its data folder, and it learns everything from the others", "away", away.Round(time.Hour).String())
	}
	var all sync.WaitGroup
	for _, p := range s.some(func(*peer) bool { return true }) {
		s.spawn(&all, func() { s.introduce(ctx, p) })
	}
	all.Wait()
	up, known := s.count()
	if up == 0 {
		s.cfg.Log.WarnContext(ctx, "started without another replica of the MCP pool; what they know is taken in when one is in reach", "peers", known)
	}
	return nil
}

// introduce makes the first contact. It does not wait for a peer that does not respond soon, such as one that is starting.
func (s *Set) introduce(ctx context.Context, p *peer) {
	first, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	if _, _, err := s.page(first, p, false); err != nil {
		if isKeyMismatch(err) {
			s.failed(p, err)
			return
		}
		s.cfg.Log.InfoContext(ctx, "a replica of the MCP pool was not reached at the start", "peer", p.addr, "error", err)
		s.failedBefore(p, err)
		return
	}
	_ = s.pull(ctx, p, false) // recorded in the peer
}

func (s *Set) count() (up, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		if p.up {
			up++
		}
	}
	return up, len(s.peers)
}

// CatchUp pulls from all peers, until ctx ends.
func (s *Set) CatchUp(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range s.some(func(p *peer) bool { return !p.self }) {
		s.spawn(&all, func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(s.base, cancel)()
			_ = s.pull(ctx, p, false) // recorded in the peer
		})
	}
	all.Wait()
}

// spawn starts a goroutine that Close waits for; none if the Set is closed.
func (s *Set) spawn(group *sync.WaitGroup, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.work.Add(1)
	group.Go(func() {
		defer s.work.Done()
		f()
	})
}

// some returns the peers that match.
func (s *Set) some(match func(*peer) bool) (list []*peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		if match(p) {
			list = append(list, p)
		}
	}
	return list
}

// Run pulls from the peers until ctx is done.
func (s *Set) Run(ctx context.Context) {
	tick := time.NewTicker(max(s.cfg.Interval/4, time.Millisecond))
	defer tick.Stop()
	looked := s.cfg.Now()
	s.soon()
	var pulls sync.WaitGroup
	defer pulls.Wait()
	for {
		select {
		case <-tick.C:
		case <-s.woken:
		case <-ctx.Done():
			return
		}
		if now := s.cfg.Now(); now.Sub(looked) >= s.cfg.Interval {
			looked = now
			if err := s.resolve(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.WarnContext(ctx, "the other replicas of the MCP pool cannot be looked up", "error", err)
			}
		}
		now := s.cfg.Now()
		for _, p := range s.some(func(p *peer) bool { return !p.self && len(p.busy) == 0 && !p.next.After(now) }) {
			s.spawn(&pulls, func() { _ = s.pull(ctx, p, true) }) // recorded in the peer
		}
	}
}

// soon schedules a pull from all peers at once: by now they can connect back.
func (s *Set) soon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		p.next = time.Time{}
	}
	s.wake()
}

func (s *Set) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// heardOf schedules a pull from a peer that sent a request, and so is reachable again.
func (s *Set) heardOf(replica string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		if !p.up && !p.self && (p.replica == replica || p.replica == "") {
			p.next = time.Time{}
		}
	}
	s.wake()
}

// publish pushes local writes to the reachable peers and waits at most a second.
func (s *Set) publish(entries []replica.Entry) {
	peers := s.some(func(p *peer) bool { return p.up && !p.self })
	if len(peers) == 0 {
		return
	}
	var requests []*mcppoolv1.PushEntriesRequest
	for _, b := range batches(entries) {
		batch, err := s.sealer.batch(s.store.ID(), toMessage(b))
		if err != nil {
			s.cfg.Log.Error("other replicas of the MCP pool are not told of what was written", "error", err)
			return
		}
		requests = append(requests, &mcppoolv1.PushEntriesRequest{Hello: s.hello(), Batch: batch})
	}
	var all sync.WaitGroup
	for _, p := range peers {
		s.spawn(&all, func() {
			if err := s.push(s.base, p, requests); err != nil {
				s.failed(p, err)
			}
		})
	}
	all.Wait()
}

// Close ends all connections and waits for running pulls and pushes.
func (s *Set) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for addr, p := range s.peers {
		if e := p.conn.Close(); e != nil && err == nil {
			err = fmt.Errorf("closing the connection to %s: %w", addr, e)
		}
		delete(s.peers, addr)
	}
	return err
}
