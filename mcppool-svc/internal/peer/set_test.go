package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// network is replicas by address, without a network between them.
type network struct {
	mu    sync.Mutex
	sets  map[string]*Set             // guarded by mu
	fault func(from, to string) error // guarded by mu; nil: none
	calls map[string]int              // guarded by mu; by method and receiver
	large int                         // guarded by mu; the largest message
}

func newNetwork() *network { return &network{sets: map[string]*Set{}, calls: map[string]int{}} }

func (n *network) cut(f func(from, to string) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = f
}

func (n *network) asked(what string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[what]
}

func (n *network) largest() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.large
}

// pass lets virtual time pass, and what is under way end.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

type line struct {
	n        *network
	from, to string
}

// Invoke implements grpc.ClientConnInterface.
func (l line) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	l.n.mu.Lock()
	to, fault := l.n.sets[l.to], l.n.fault
	name := method[strings.LastIndex(method, "/")+1:]
	l.n.calls[name+" "+l.to]++
	l.n.large = max(l.n.large, proto.Size(args.(proto.Message)))
	l.n.mu.Unlock()
	if fault != nil {
		if err := fault(l.from, l.to); err != nil {
			if errors.Is(err, errHangs) {
				<-ctx.Done()
				return status.FromContextError(ctx.Err()).Err()
			}
			return err
		}
	}
	if to == nil {
		return status.Error(codes.Unavailable, "not listening")
	}
	ctx = identity.NewContext(ctx, identity.Principal{Sub: "svc", Roles: []identity.Role{identity.RoleService}})
	answerer := &server{set: to}
	var err error
	switch req := args.(type) {
	case *mcppoolv1.PullEntriesRequest:
		var resp *mcppoolv1.PullEntriesResponse
		if resp, err = answerer.PullEntries(ctx, req); err == nil {
			proto.Merge(reply.(proto.Message), resp)
		}
	case *mcppoolv1.PushEntriesRequest:
		var resp *mcppoolv1.PushEntriesResponse
		if resp, err = answerer.PushEntries(ctx, req); err == nil {
			proto.Merge(reply.(proto.Message), resp)
		}
	}
	return err
}

// errHangs makes a call hang.
var errHangs = errors.New("hangs")

// NewStream implements grpc.ClientConnInterface.
func (line) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}

// Close implements Conn.
func (line) Close() error { return nil }

// node is a replica of a test.
type node struct {
	*Set
	store *replica.Store
	log   *bytes.Buffer
	stop  func()
}

// start makes a replica at an address. edit may be nil.
func (n *network) start(t *testing.T, addr string, peers []string, edit func(*Config, *replica.Config)) *node {
	t.Helper()
	values := []string{"v"}
	inner, err := store.Open("", replica.Buckets(values)...)
	if err != nil {
		t.Fatal(err)
	}
	out := &node{log: &bytes.Buffer{}}
	cfg := Config{
		Addrs: peers, Now: time.Now, Log: slog.New(slog.NewTextHandler(out.log, nil)),
		Dial:   func(_, to string) (Conn, error) { return line{n, addr, to}, nil },
		Lookup: func(context.Context, string) ([]string, error) { return nil, errors.New("no names here") },
	}
	storeCfg := replica.Config{Buckets: values, Now: time.Now}
	if edit != nil {
		edit(&cfg, &storeCfg)
	}
	if out.store, err = replica.Open(inner, storeCfg); err != nil {
		t.Fatal(err)
	}
	if out.Set, err = New(cfg, out.store); err != nil {
		t.Fatal(err)
	}
	if err := out.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	n.sets[addr] = out.Set
	n.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() {
		out.Run(ctx)
		close(ran)
	}()
	out.stop = sync.OnceFunc(func() {
		n.mu.Lock()
		delete(n.sets, addr)
		n.mu.Unlock()
		cancel()
		<-ran
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	})
	return out
}

func (n *node) put(t *testing.T, key, value string) {
	t.Helper()
	if err := n.store.Apply(store.Change{Bucket: "v", Key: key, Value: []byte(value)}); err != nil {
		t.Fatal(err)
	}
}

func (n *node) get(t *testing.T, key string) string {
	t.Helper()
	value, err := n.store.Get("v", key)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

var three = []string{"a:1", "b:1", "c:1"}

// TestWritesArrive: what is written is at the peers in reach when the write returns; who was cut off gets it within an interval of being
// back, and so does who comes later, before it serves.
func TestWritesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.start(t, "a:1", three, nil), n.start(t, "b:1", three, nil)
		defer a.stop()
		defer b.stop()
		pass(2 * defaultInterval)
		a.put(t, "k", "1")
		if got := b.get(t, "k"); got != "1" {
			t.Errorf("b has %q when the write returns", got)
		}
		n.cut(func(string, string) error { return status.Error(codes.Unavailable, "cut") })
		began := time.Now()
		a.put(t, "k", "2")
		b.put(t, "other", "1")
		if took := time.Since(began); took > 0 || b.get(t, "k") != "1" {
			t.Errorf("%v, %q", took, b.get(t, "k"))
		}
		n.cut(nil)
		pass(maxPause + defaultInterval)
		if b.get(t, "k") != "2" || a.get(t, "other") != "1" {
			t.Errorf("after the cut: %q, %q", b.get(t, "k"), a.get(t, "other"))
		}
		c := n.start(t, "c:1", three, nil)
		defer c.stop()
		if c.get(t, "k") != "2" || c.get(t, "other") != "1" {
			t.Error("who starts does not know what the others do")
		}
		synctest.Wait()
		a.put(t, "k", "3") // it was heard of, and so asked back: it need not be waited for
		if c.get(t, "k") != "3" {
			t.Errorf("c has %q", c.get(t, "k"))
		}
	})
}

// TestHangingPeer: a write waits a second for a peer that does not answer, the next one does not.
func TestHangingPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.start(t, "a:1", three, nil), n.start(t, "b:1", three, nil)
		defer a.stop()
		defer b.stop()
		pass(2 * defaultInterval)
		n.cut(func(_, to string) error {
			if to == "b:1" {
				return errHangs
			}
			return nil
		})
		for i, want := range []time.Duration{pushWait, 0, 0} {
			began := time.Now()
			a.put(t, "k", fmt.Sprint(i))
			if took := time.Since(began); took != want {
				t.Errorf("write %d took %v, want %v", i, took, want)
			}
		}
		if s := a.Status(); s[0].Addr != "b:1" || s[0].Up {
			t.Errorf("status %+v", s)
		}
		if !strings.Contains(a.log.String(), "out of reach") {
			t.Errorf("the difference is not reported: %s", a.log)
		}
		n.cut(nil)
		pass(pullWait + maxPause + defaultInterval)
		if s := a.Status(); !s[0].Up || s[0].Lag > 2*defaultInterval || s[0].Contact < 0 || b.get(t, "k") != "2" {
			t.Errorf("status %+v, b has %q", s, b.get(t, "k"))
		}
	})
}

// TestOwnAddress: a replica that is in its own list calls itself once at most, and a start does not wait for it.
func TestOwnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a := n.start(t, "a:1", three, nil)
		defer a.stop()
		b := n.start(t, "127.0.0.1:1", []string{"127.0.0.1:1", "a:1"}, func(c *Config, _ *replica.Config) { c.Self = "127.0.0.1:1" })
		defer b.stop()
		pass(20 * defaultInterval)
		if got := n.asked("PullEntries a:1"); got < 10 {
			t.Errorf("b asked a %d times", got)
		}
		if got := n.asked("PullEntries 127.0.0.1:1"); got != 0 {
			t.Errorf("it asked itself %d times", got)
		}
		if s := a.Status(); len(s) != 2 {
			t.Errorf("a has the peers %+v", s)
		}
	})
}

// TestNamesAreLookedUpAgain: who a name leads to later is a peer then, and who it leads to no more is none; where it cannot be looked
// up, all stay.
func TestNamesAreLookedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var mu sync.Mutex
		hosts, failing := []string{"10.0.0.1"}, false
		a := n.start(t, "a:1", []string{"dns:///pools:1"}, func(c *Config, _ *replica.Config) {
			c.Lookup = func(context.Context, string) ([]string, error) {
				mu.Lock()
				defer mu.Unlock()
				if failing {
					return nil, errors.New("the name server is out")
				}
				return hosts, nil
			}
		})
		defer a.stop()
		expect := func(want ...string) {
			t.Helper()
			pass(3 * defaultInterval)
			got := map[string]bool{}
			for _, s := range a.Status() {
				got[s.Addr] = true
			}
			if list := slices.Sorted(maps.Keys(got)); !slices.Equal(list, want) {
				t.Errorf("the peers are %v, want %v", list, want)
			}
		}
		expect("10.0.0.1:1")
		mu.Lock()
		hosts = []string{"10.0.0.2", "fd00::1"}
		mu.Unlock()
		expect("10.0.0.2:1", "[fd00::1]:1")
		mu.Lock()
		failing = true
		mu.Unlock()
		expect("10.0.0.2:1", "[fd00::1]:1")
		mu.Lock()
		failing, hosts = false, nil
		for i := range 2 * maxPeers {
			hosts = append(hosts, fmt.Sprintf("10.0.1.%d", i))
		}
		mu.Unlock()
		pass(3 * defaultInterval)
		if got := len(a.Status()); got != maxPeers {
			t.Errorf("%d peers", got)
		}
	})
}

// TestKeys: with a key, nothing goes over the line that can be read; replicas with another key, or none, exchange nothing and say so.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		with := func(key string) func(*Config, *replica.Config) {
			return func(c *Config, _ *replica.Config) { c.Key = []byte(key) }
		}
		peers := []string{"a:1", "b:1", "c:1", "d:1"}
		a, b := n.start(t, "a:1", peers, with("same")), n.start(t, "b:1", peers, with("same"))
		c, d := n.start(t, "c:1", peers, with("other")), n.start(t, "d:1", peers, nil)
		for _, s := range []*node{a, b, c, d} {
			defer s.stop()
		}
		pass(2 * defaultInterval)
		a.put(t, "k", "secret")
		pass(2 * maxPause)
		if b.get(t, "k") != "secret" || c.get(t, "k") != "" || d.get(t, "k") != "" {
			t.Errorf("b has %q, c %q, d %q", b.get(t, "k"), c.get(t, "k"), d.get(t, "k"))
		}
		// a and b agree, and go on; c and d agree with no peer.
		for i, s := range []*node{a, b, c, d} {
			if err := s.Writable(); errors.Is(err, ErrKeys) != (i >= 2) || i >= 2 && !strings.Contains(err.Error(), "a:1, b:1, ") {
				t.Errorf("%d: %v", i, err)
			}
			foreign := 0
			for _, status := range s.Status() {
				if status.KeyMismatch {
					foreign++
				}
			}
			if want := []int{2, 2, 3, 3}[i]; foreign != want {
				t.Errorf("%d calls %d foreign, want %d", i, foreign, want)
			}
			if got := strings.Count(s.log.String(), "has another --token-key"); got != foreign {
				t.Errorf("%d says %d times that keys differ: %s", i, got, s.log)
			}
		}
		a.stop()
		b.stop()
		d.stop()
		pass(2 * maxPause)
		if err := c.Writable(); err != nil { // no reachable peer disagrees; those that come back are told
			t.Error(err)
		}
		if log := c.log.String(); !strings.Contains(log, "different keys (--token-key)") {
			t.Errorf("c says %s", log)
		}
		if log := d.log.String(); !strings.Contains(log, "has a --token-key, and the other none") && !strings.Contains(log, "has no --token-key") {
			t.Errorf("d says %s", log)
		}
		page, err := (&server{set: a.Set}).PullEntries(identity.NewContext(t.Context(), identity.Principal{Roles: []identity.Role{identity.RoleService}}),
			&mcppoolv1.PullEntriesRequest{Hello: b.hello()})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(page)
		if err != nil || bytes.Contains(raw, []byte("secret")) || bytes.Contains(raw, []byte("same")) {
			t.Errorf("on the line: %q, %v", raw, err)
		}
		// What is sealed is bound to who sent it.
		if _, err := b.take(&mcppoolv1.PeerHello{Replica: "another"}, page.GetBatch()); !errors.Is(err, errSealed) {
			t.Errorf("from another one: %v", err)
		}
		page.Batch.Sealed[len(page.Batch.Sealed)-1]++
		if _, err := b.take(page.GetHello(), page.GetBatch()); !errors.Is(err, errSealed) {
			t.Errorf("changed on the way: %v", err)
		}
	})
}

// TestReplicaThatAgreesIsAway: it is no reason to refuse writes that the replica which agrees is out of reach, as while it is restarted; that
// it has come to another key is.
func TestReplicaThatAgreesIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		with := func(key string) func(*Config, *replica.Config) {
			return func(c *Config, _ *replica.Config) { c.Key = []byte(key) }
		}
		peers := []string{"a:1", "b:1", "c:1"}
		a, b, c := n.start(t, "a:1", peers, with("same")), n.start(t, "b:1", peers, with("same")), n.start(t, "c:1", peers, with("other"))
		defer a.stop()
		defer c.stop()
		pass(2 * maxPause)
		if err := a.Writable(); err != nil {
			t.Fatal(err)
		}
		b.stop()
		pass(2 * maxPause)
		if err := a.Writable(); err != nil {
			t.Errorf("while the replica that agrees is away: %v", err)
		}
		if err := c.Writable(); !errors.Is(err, ErrKeys) {
			t.Errorf("with which no peer ever agreed: %v", err)
		}
		b = n.start(t, "b:1", peers, with("other"))
		defer b.stop()
		pass(2 * maxPause)
		if err := a.Writable(); !errors.Is(err, ErrKeys) {
			t.Errorf("once it has another key: %v", err)
		}
		if err := errors.Join(b.Writable(), c.Writable()); err != nil {
			t.Errorf("the two that agree now: %v", err)
		}
	})
}

// TestWrongClock: what a replica wrote whose clock is ahead is not taken before its time, and both say so; what others wrote is.
func TestWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		ahead := func(c *Config, s *replica.Config) {
			c.Now = func() time.Time { return time.Now().Add(time.Hour) }
			s.Now = c.Now
		}
		a, b := n.start(t, "a:1", three, nil), n.start(t, "b:1", three, ahead)
		defer a.stop()
		defer b.stop()
		pass(2 * defaultInterval)
		a.put(t, "from a", "1")
		b.put(t, "from b", "1")
		pass(2 * maxPause)
		if b.get(t, "from a") != "1" || a.get(t, "from b") != "" {
			t.Errorf("b has %q, a has %q", b.get(t, "from a"), a.get(t, "from b"))
		}
		for who, log := range map[string]string{"a": a.log.String(), "b": b.log.String()} {
			if !strings.Contains(log, "in the future") || !strings.Contains(log, "clocks of two replicas") {
				t.Errorf("%s says %s", who, log)
			}
		}
		if o := a.Status()[0].Offset; o.Round(time.Second) != time.Hour {
			t.Errorf("offset %v", o)
		}
		pass(time.Hour + time.Minute)
		if a.get(t, "from b") != "1" {
			t.Error("it is not taken when its time has come")
		}
	})
}

// TestMessagesAreBounded: what is written is pushed in batches of a MiB, and what is too large for them is pulled.
func TestMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.start(t, "a:1", three, nil), n.start(t, "b:1", three, nil)
		defer a.stop()
		defer b.stop()
		pass(2 * defaultInterval)
		var changes []store.Change
		for i := range 2500 {
			changes = append(changes, store.Change{Bucket: "v", Key: fmt.Sprint(i), Value: make([]byte, 1000)})
		}
		changes = append(changes, store.Change{Bucket: "v", Key: "huge", Value: make([]byte, maxPushed+1)})
		if err := a.store.Apply(changes...); err != nil {
			t.Fatal(err)
		}
		if got := n.asked("PushEntries b:1"); got != 3 || n.largest() > maxBatchBytes+100_000 {
			t.Errorf("%d batches, the largest message has %d bytes", got, n.largest())
		}
		if len(b.get(t, "2499")) != 1000 || b.get(t, "huge") != "" {
			t.Error("what was pushed is not there")
		}
		pass(2 * defaultInterval)
		if len(b.get(t, "huge")) != maxPushed+1 {
			t.Error("what is too large to push was not pulled")
		}
	})
}

// TestFloods: only so many requests of others are answered at once, and none whose entries cannot be.
func TestFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a := n.start(t, "a:1", three, nil)
		defer a.stop()
		ctx := identity.NewContext(t.Context(), identity.Principal{Roles: []identity.Role{identity.RoleService}})
		s, hello := &server{set: a.Set}, &mcppoolv1.PeerHello{Replica: "x"}
		for range maxAtOnce {
			if _, err := s.enter(ctx, hello); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.PullEntries(ctx, &mcppoolv1.PullEntriesRequest{Hello: hello})
		if errs.From(err).Code != codes.ResourceExhausted {
			t.Errorf("one too many: %v", err)
		}
		for range maxAtOnce {
			<-a.answering
		}
		for name, e := range map[string]*mcppoolv1.PeerEntry{
			"no life":    {Bucket: "v", Key: []byte("k"), Value: []byte("x")},
			"long key":   {Bucket: "v", Key: make([]byte, 17<<10), Value: []byte("x"), Life: 1},
			"no bucket":  {Key: []byte("k"), Value: []byte("x"), Life: 1},
			"long names": {Bucket: "v", Key: []byte("k"), Value: []byte("x"), Life: 1, Writer: strings.Repeat("w", 65)},
		} {
			batch := &mcppoolv1.PeerBatch{Open: &mcppoolv1.PeerEntries{Entries: []*mcppoolv1.PeerEntry{e}}}
			if _, err := s.PushEntries(ctx, &mcppoolv1.PushEntriesRequest{Hello: hello, Batch: batch}); errs.From(err).Code != codes.InvalidArgument {
				t.Errorf("%s: %v", name, err)
			}
		}
		many := &mcppoolv1.PeerEntries{Entries: make([]*mcppoolv1.PeerEntry, maxBatchEntries+1)}
		if _, err := fromMessage(many); err == nil {
			t.Error("a batch can be of any length")
		}
	})
}
