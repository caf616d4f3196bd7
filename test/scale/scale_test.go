package scale

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/rig"
)

// held is a task with one call that has begun and waits.
type held struct {
	path string
	id   string
	end  chan seen
}

// holdOne starts a task of ann's and returns when its tool runs.
func (c *cluster) holdOne(ctx context.Context, t *testing.T, tool string) *held {
	t.Helper()
	h := &held{path: filepath.Join(c.dir, "held-"+filepath.Base(tool)), end: make(chan seen, 1)}
	created, err := c.clients["ann"].Create(ctx, task(h.path, tool))
	if err != nil {
		t.Fatal(err)
	}
	h.id = created.GetId()
	if err := eventually(ctx, tool+" does not run", func() bool { _, err := lines(h.path); return err == nil }); err != nil {
		t.Fatal(err)
	}
	return h
}

// watch follows it to its end.
func (h *held) watch(ctx context.Context, t *testing.T, c rig.Client) {
	go func() {
		s, err := watch(ctx, c, h.id)
		if err != nil {
			t.Errorf("following %s: %v", h.path, err)
		}
		h.end <- s
	}()
}

func (h *held) letGo(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(h.path+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// expect checks how it ended and how often the tool ran.
func (h *held) expect(t *testing.T, times, unknowns int) {
	t.Helper()
	s := <-h.end
	written, err := lines(h.path)
	if err != nil || len(written) != times || s.unknowns != unknowns {
		t.Errorf("%s: it ran %d times, %d unknown outcomes (%v, %v); want %d and %d", filepath.Base(h.path), len(written), s.unknowns, s, err, times, unknowns)
	}
	if unknowns == 0 && s.status != executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS {
		t.Errorf("%s ended with %+v", filepath.Base(h.path), s)
	}
}

// affinity checks that no pool has connected to a server more often than there are users, and returns the number of connections by pool
// and server.
func (c *cluster) affinity(t *testing.T) map[begun]int {
	t.Helper()
	counts := map[begun]int{}
	for _, b := range started(t, c.starts) {
		counts[b]++
	}
	for b, n := range counts {
		if n > len(users) {
			t.Errorf("pool %d connected %d times to %s for %d users", b.Pool, n, b.Server, len(users))
		}
	}
	return counts
}

// A replica is killed under load, and another one added: calls of a user and server stay with one pool, those in flight on the
// killed one are repeated if that is safe and UNKNOWN otherwise, and no write happens twice.
func TestReplicaKilledAndAdded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	servers, more := []string{"s1", "s2", "s3"}, names("n", 40)
	c := newCluster(t, 3, slices.Concat(servers, more, []string{"held"})...)
	l := c.run(ctx, servers...)
	l.rounds(ctx, t, 2)
	if n := len(started(t, c.starts)); n != len(users)*len(servers) {
		t.Errorf("%d connections for %d users and %d servers", n, len(users), len(servers))
	}

	reads, writes := c.holdOne(ctx, t, "held/hold_read"), c.holdOne(ctx, t, "held/hold_write")
	reads.watch(ctx, t, c.clients["ann"])
	writes.watch(ctx, t, c.clients["ann"])
	_, victim := c.poolOf(t, "held")
	before := c.affinity(t)
	victim.Kill()
	reads.letGo(t)
	writes.letGo(t)
	reads.expect(t, 2, 0)
	writes.expect(t, 1, 1)
	l.rounds(ctx, t, 2)
	for b, n := range c.affinity(t) {
		if b.Pool != victim.PID() && before[b] > 0 && n > len(users) {
			t.Errorf("pool %d, which lived on, connected to %s again", b.Pool, b.Server)
		}
	}

	added := c.startPool(t, c.addrs[3])
	c.spread(ctx, t, added, more)
	l.rounds(ctx, t, 2)
	l.finish(t)
	c.affinity(t)
}

// spread runs tasks with the servers in turn until the pool has connected to one of them.
func (c *cluster) spread(ctx context.Context, t *testing.T, pool *rig.Process, servers []string) {
	t.Helper()
	for i := 0; ; i++ {
		server := servers[i%len(servers)]
		if s, err := follow(ctx, c.clients["ann"], task(filepath.Join(c.dir, "spread"), server+"/read")); err != nil || len(s.errors) > 0 {
			t.Fatalf("%s after a pool was added: %v, %v", server, s.errors, err)
		}
		if slices.ContainsFunc(started(t, c.starts), func(b begun) bool { return b.Pool == pool.PID() }) {
			return
		}
	}
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, prefix+strconv.Itoa(i))
	}
	return all
}

// No client notices a drained replica: running calls end there, and new ones go elsewhere at once.
func TestReplicaDrained(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	servers := []string{"s1", "s2", "s3"}
	c := newCluster(t, 2, append(servers, "held")...)
	l := c.run(ctx, servers...)
	l.rounds(ctx, t, 2)
	writes := c.holdOne(ctx, t, "held/hold_write")
	writes.watch(ctx, t, c.clients["ann"])
	addr, drained := c.poolOf(t, "held")
	if err := drained.Terminate(); err != nil {
		t.Fatal(err)
	}
	c.notServing(ctx, t, addr)
	l.rounds(ctx, t, 3)
	select {
	case <-drained.Done():
		t.Error("the pool did not wait for its call")
	default:
	}
	writes.letGo(t)
	writes.expect(t, 1, 0)
	<-drained.Done()
	l.rounds(ctx, t, 1)
	l.finish(t)
	if len(l.errors) > 0 || l.unknowns > 0 {
		t.Errorf("tasks noticed: %d unknown outcomes, %q", l.unknowns, l.errors)
	}
}

// notServing returns when a pool's health reports NOT_SERVING.
func (c *cluster) notServing(ctx context.Context, t *testing.T, addr string) {
	t.Helper()
	conn := rig.Dial(t, addr, "")
	err := eventually(ctx, "the pool goes on serving", func() bool {
		res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		return err == nil && res.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The executor dies while a call runs on a pool that is no longer responsible: the next executor finds the call where it
// runs, and its outcome.
func TestCallIsFoundWhereItRuns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := newCluster(t, 2, "held")
	writes := c.holdOne(ctx, t, "held/hold_write")
	addr, drained := c.poolOf(t, "held")
	if err := drained.Terminate(); err != nil {
		t.Fatal(err)
	}
	c.notServing(ctx, t, addr)
	c.executor.Kill()
	c.startExecutor(t)
	writes.watch(ctx, t, c.clients["ann"])
	writes.letGo(t)
	writes.expect(t, 1, 0)
}
