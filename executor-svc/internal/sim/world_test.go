package sim

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/api"
	"pawl.dev/executor-svc/internal/engine"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	"pawl.dev/executor-svc/internal/flow/chat"
	codingflow "pawl.dev/executor-svc/internal/flow/coding"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	"pawl.dev/executor-svc/internal/runner"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/topic"
)

// config is what a seed draws before anything happens. A field of type uint64 is a rate: once in so many times; 0 is never.
type config struct {
	users, slots, tasks, moves      int
	writeFails, readFails, netFails uint64
	plannerFails, claimsLost        uint64
	// crashes, poolCrashes, stops and breaks (of connections) bound how often that happens.
	crashes, poolCrashes, stops, breaks int
	// crashEvery, personEvery and pauseEvery are rates, in moves.
	crashEvery, personEvery, pauseEvery int
	// repeats is the rate at which a plan repeats the step before, and branches that at which it has branches.
	repeats, branches int
	// coding is the rate of tasks of the flow `coding`.
	coding int
	// asks is the rate at which a tool asks people, and defers that at which a server does a call as an MCP task.
	asks, defers uint64
	// changes bounds how often an operator changes the server.
	changes int
	// topics is how many topics there are, and posts bounds the messages of people in each.
	topics, posts int
	// hooks: there are webhooks.
	hooks bool
}

// seldom is a rate that is almost never.
const seldom = 1 << 30

func draw(s *sched) config {
	return config{
		users: 1 + s.rng.IntN(3), slots: 1 + s.rng.IntN(3), tasks: 2 + s.rng.IntN(4), moves: 150 + s.rng.IntN(350),
		writeFails: pick[uint64](s, 0, 0, 15, 60), readFails: pick[uint64](s, 0, 0, 40), netFails: pick[uint64](s, 0, 12, 40),
		plannerFails: pick[uint64](s, 0, 8, 30), crashes: s.rng.IntN(4), poolCrashes: s.rng.IntN(3), stops: s.rng.IntN(2), breaks: s.rng.IntN(3),
		repeats: 3, branches: pick(s, 2, 4, 8), coding: pick(s, 2, 4, 8), asks: 5, defers: 5, changes: s.rng.IntN(4),
		crashEvery: pick(s, 20, 60, 150), claimsLost: pick[uint64](s, 0, 0, 3), personEvery: pick(s, 6, 12, 25), pauseEvery: pick(s, 10, 40),
	}
}

// talkEvery is how many seeds there are for one with topics.
const talkEvery = 4

// talking gives the world topics, and few other tasks.
func talking(c *config) { c.topics, c.posts, c.tasks, c.coding = 2, 6, 1, seldom }

// plant is a bug that a test plants around the parts that are simulated.
type plant struct {
	// journal wraps the store of each process.
	journal func(store journal.Journal) journal.Journal
	// above wraps the journal that the engine gets, outside the scheduler's gates.
	above  func(journal.Journal) journal.Journal
	flow   func(flow.Flow) flow.Flow // agent
	coding func(flow.Flow) flow.Flow
	// request changes what is sent to the pool.
	request func(*mcppoolv1.CallToolRequest)
	// config makes the world one in which the bug does not hide.
	config func(*config)
}

// world is all that one seed simulates.
type world struct {
	s     *sched
	cfg   config
	plant plant
	book  *book
	path  string
	log   *slog.Logger

	planner *planner
	proc    *proc
	procs   int
	crashed []*proc
	up      time.Time // when the next process starts, if there is none

	poolMu sync.Mutex
	pool   *pool // nil while there is none
	// revision of the server's configuration.
	revision atomic.Uint64
	pools    []*pool
	poolUp   time.Time
	server   server

	people   int
	watchers []*watcher
	// active counts people who wait for the result of a request.
	active atomic.Int32
	busy   sync.WaitGroup
	left   config // how often each fault may still happen
	ctx    context.Context
	cancel context.CancelFunc
}

// proc is one process of the executor.
type proc struct {
	name     string
	dead     chan struct{}
	stopping bool
	// died: it ended while things could fail.
	died bool
	// stoppedEarly: it was told to stop while things could fail.
	stoppedEarly bool
	cancel       context.CancelFunc
	ran          chan error
	engine       *engine.Engine
	hub          *topic.Hub
	tasks        *api.Tasks
	topics       conversationv1.TopicServiceServer
	store        *bolt.Store
}

func (p *proc) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

func newWorld(seed uint64, dir string, pl plant, verbose bool) *world {
	s := newSched(seed)
	w := &world{s: s, cfg: draw(s), plant: pl, book: newBook(), path: journalOf(dir, seed), log: slog.New(slog.DiscardHandler)}
	if verbose {
		w.log = slog.New(slog.NewTextHandler(traced{s}, nil))
	}
	if pl.flow != nil {
		w.cfg.coding = seldom // tasks in which the bug is not planted would hide it
	}
	if seed%talkEvery == 0 {
		talking(&w.cfg)
	}
	if n := seed % hookEvery; n == talkEvery || n == 1 {
		hooking(&w.cfg)
	}
	if pl.config != nil {
		pl.config(&w.cfg)
	}
	w.book.slots = w.cfg.slots
	w.revision.Store(1)
	w.left = w.cfg
	w.planner = newPlanner(w)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

func journalOf(dir string, seed uint64) string { return filepath.Join(dir, fmt.Sprintf("%d.db", seed)) }

// removeJournal makes room for those of further seeds.
func removeJournal(dir string, seed uint64) {
	for _, name := range journaltest.Files(journalOf(dir, seed)) {
		_ = os.Remove(name)
	}
}

// traced writes the engine's log into the trace.
type traced struct{ s *sched }

func (t traced) Write(line []byte) (int, error) {
	t.s.note("    "+string(line[:len(line)-1]), 0)
	return len(line), nil
}

// goes runs something that ends with the world.
func (w *world) goes(fn func()) { w.busy.Go(fn) }

func (w *world) livingPool() *pool {
	w.poolMu.Lock()
	defer w.poolMu.Unlock()
	return w.pool
}

func (w *world) startPool() {
	w.poolMu.Lock()
	defer w.poolMu.Unlock()
	p := newPool(w, len(w.pools)+1)
	w.pool, w.pools = p, append(w.pools, p)
	w.s.note(p.id+" is up", 0)
}

func (w *world) killPool() {
	w.poolMu.Lock()
	p := w.pool
	w.pool = nil
	w.poolMu.Unlock()
	w.s.note(p.id+" dies", 0)
	p.die()
	w.poolUp = time.Now().Add(w.downtime())
	synctest.Wait()
}

func (w *world) downtime() time.Duration {
	return pick(w.s, 0, time.Millisecond, 100*time.Millisecond, 5*time.Second, 40*time.Second)
}

// startProc starts a process on the journal as it was left.
func (w *world) startProc(t testing.TB) {
	store, err := bolt.Open(w.path)
	if err != nil {
		t.Fatalf("opening the journal: %v", err)
	}
	w.procs++
	p := &proc{name: fmt.Sprintf("E%d", w.procs), dead: make(chan struct{}), ran: make(chan error, 1), store: store}
	w.s.note(p.name+" is up", 0)
	inner := journal.Journal(store)
	if w.plant.journal != nil {
		inner = w.plant.journal(store)
	}
	j := journal.Journal(&gated{Journal: inner, w: w, p: p})
	if w.plant.above != nil {
		j = w.plant.above(j)
	}
	p.hub = topic.NewHub(j, serve.NewBudget("watch", 1<<20))
	j = p.hub.Wrap(j)
	plannerCl, poolCl := &plannerClient{w: w, p: p}, &poolClient{w: w, p: p}
	fl := flow.Flow(agent.New())
	if w.plant.flow != nil {
		fl = w.plant.flow(fl)
	}
	planned := flow.Flow(codingflow.Flow{})
	if w.plant.coding != nil {
		planned = w.plant.coding(planned)
	}
	flows := map[string]flow.Flow{"agent": fl, codingFlow: planned, chat.Kind: chat.Flow{}}
	p.engine = engine.New(engine.Config{MaxRunning: w.cfg.slots}, engine.Deps{
		Journal: j, Runner: runner.New(runner.Config{}, plannerCl, poolCl, w.log), Flows: flows, Log: w.log,
	})
	p.tasks = api.NewTasks(api.Deps{
		Engine: p.engine, Journal: j, Hub: p.hub, Flows: flows, Planner: plannerCl, Pool: poolCl, Log: w.log, Requests: requests, Window: window,
		Limits: &storagev1.Limits{MaxSteps: 16, MaxFailedSteps: 3, MaxAttempts: 4, MaxRecoveries: 5},
	})
	registered := &topicService{}
	p.tasks.Register(registered)
	p.topics = registered.TopicServiceServer
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	dispatched := p.dispatch(ctx, t, w, j)
	go func() {
		err := p.engine.Run(ctx)
		dispatched()
		p.ran <- err
	}()
	w.proc = p
	synctest.Wait()
}

const (
	requests = 5
	window   = 15 * time.Second
)

// crash ends a process at once: what was not durable is lost, and nothing that it still does has any effect.
func (w *world) crash(t testing.TB) {
	p := w.proc
	w.s.note(p.name+" dies", 0)
	w.crashed = append(w.crashed, p)
	close(p.dead)
	p.cancel()
	synctest.Wait()
	// Close applies the log to the file, which a killed process does not do: the files are put back as they are now.
	files, left := journaltest.Files(w.path), journaltest.Files(w.path+".left")
	journaltest.Copy(t, files, left)
	w.bury(t, p)
	for i, name := range left {
		if err := os.Rename(name, files[i]); err != nil {
			t.Fatalf("putting back the journal of the killed process: %v", err)
		}
	}
}

func (w *world) bury(t testing.TB, p *proc) {
	w.book.died(p)
	p.died = !w.s.calm || p.stoppedEarly
	if err := p.store.Close(); err != nil {
		t.Fatalf("closing the journal: %v", err)
	}
	w.proc, w.up = nil, time.Now().Add(w.downtime())
}

// stopped removes the process if it was told to stop and has ended.
func (w *world) stopped(t testing.TB) {
	p := w.proc
	if p == nil || !p.stopping {
		return
	}
	select {
	case err := <-p.ran:
		w.s.note(p.name+" has stopped", 0)
		if err != nil && w.s.calm && !p.stoppedEarly {
			w.book.fault("%s does not stop in an orderly way: %v", p.name, err)
		}
		close(p.dead)
		synctest.Wait()
		w.bury(t, p)
	default:
	}
}

// move lets one thing happen.
func (w *world) move(t testing.TB) {
	synctest.Wait() // no goroutine is on the way to a gate
	w.stopped(t)
	if w.proc == nil && !time.Now().Before(w.up) {
		w.startProc(t)
		return
	}
	if w.livingPool() == nil && !time.Now().Before(w.poolUp) {
		w.startPool()
		return
	}
	if w.mishap(t) {
		return
	}
	ready := w.s.ready()
	switch {
	case w.proc != nil && (w.s.chance(w.cfg.personEvery) || len(ready) == 0 && w.s.chance(2)):
		w.personActs()
	case len(ready) == 0, w.s.chance(w.cfg.pauseEvery):
		w.s.pause(pick(w.s, time.Millisecond, 30*time.Millisecond, 300*time.Millisecond, 3*time.Second, 30*time.Second))
	default:
		g := ready[w.s.rng.IntN(len(ready))]
		if w.s.chance(25) { // it is slow
			g.notBefore = time.Now().Add(pick(w.s, time.Millisecond, 100*time.Millisecond, 2*time.Second, 20*time.Second))
			return
		}
		w.s.release(g)
	}
}

// mishap may cause a fault, and reports whether it did.
func (w *world) mishap(t testing.TB) bool {
	if !w.s.chance(w.cfg.crashEvery) {
		return false
	}
	both := w.s.chance(3)
	switch what := w.s.rng.IntN(6); {
	case what <= 1 && w.proc != nil && w.left.crashes > 0:
		w.left.crashes--
		w.crash(t)
		if both && w.livingPool() != nil {
			w.killPool()
		}
	case what == 2 && w.left.poolCrashes > 0 && w.livingPool() != nil:
		w.left.poolCrashes--
		w.killPool()
	case what == 3 && w.left.stops > 0 && w.proc != nil && !w.proc.stopping:
		w.left.stops--
		w.s.note(w.proc.name+" is told to stop", 0)
		w.proc.stopping, w.proc.stoppedEarly = true, true
		w.proc.cancel()
		synctest.Wait()
	case what == 4 && w.left.breaks > 0 && w.livingPool() != nil:
		w.left.breaks--
		w.livingPool().breakOne(w.s)
		synctest.Wait()
	case what == 5 && w.left.changes > 0:
		w.left.changes--
		w.change()
	default:
		return false
	}
	return true
}

// settle lets everything go on without any fault until nothing is left to do; false if that does not happen.
func (w *world) settle(t testing.TB) bool {
	w.s.calm = true
	end := time.Now().Add(20 * time.Minute)
	for n := 0; time.Now().Before(end) && n < 20_000; {
		synctest.Wait()
		w.stopped(t)
		if w.proc == nil {
			w.startProc(t)
		}
		if w.livingPool() == nil {
			w.startPool()
		}
		if ready := w.s.ready(); len(ready) > 0 {
			w.s.release(ready[0])
			n++
			continue
		}
		if !w.proc.stopping && w.quiet() {
			return true
		}
		w.s.pause(500 * time.Millisecond)
	}
	return false
}
