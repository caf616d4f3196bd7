package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
)

const (
	// mostHeadroom is the most that our servers allocate between two garbage collections: less costs CPU, more costs memory.
	// Compared with GOGC=400, 20 MB took a third off the memory of the suite under load, and nothing (at 32 tasks) to 5 % (at 128) more CPU.
	mostHeadroom = 20 << 20
	// leastHeadroom is the headroom of a server that allocates little.
	leastHeadroom = 10 << 20
	// seldom is the time between collections at which they cost next to nothing: if they would be rarer still, the headroom shrinks to save memory.
	seldom = 500 * time.Millisecond
	// tightGC and looseGC bound GOGC: a large heap may double, a small one grow to four times its size.
	tightGC, looseGC = 100, 300
)

// init sets the sizes of gRPC's buffers, which it allows only here: 2 KiB to 8 MiB, each size twice the one before. By default there is none
// between 32 KiB and 1 MiB, and buffers are cleared when they are handed out: a message of 60 kB took 2.5 times the CPU.
func init() {
	if buffers, err := mem.NewBinaryTieredBufferPool(11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23); err == nil {
		experimental.SetDefaultBufferPool(buffers)
	}
}

// RelaxGC makes the process collect garbage whenever it has allocated some megabytes, more of them the faster it allocates, unless GOGC is set. The
// live heaps of our servers are a few megabytes, and GOGC=100 would collect them several times as often; a fixed GOGC that is large
// enough for them would let a large heap grow without need.
func RelaxGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	g := &pacer{
		percent: looseGC, headroom: leastHeadroom, since: time.Now(),
		heap: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}},
	}
	metrics.Read(g.heap)
	g.allocated = g.heap[1].Value.Uint64()
	debug.SetGCPercent(g.percent)
	g.await()
}

// pacer sets GOGC after each collection, by the live bytes that it left and the speed of allocation before it.
type pacer struct {
	percent   int
	headroom  uint64
	since     time.Time // of the last collection
	allocated uint64    // ever, by then
	heap      []metrics.Sample
}

// await arranges that collected is called after the next collection.
func (g *pacer) await() {
	runtime.AddCleanup(&struct{ _ *pacer }{}, (*pacer).collected, g)
}

func (g *pacer) collected() {
	metrics.Read(g.heap)
	now, allocated := time.Now(), g.heap[1].Value.Uint64()
	// Half of it is the last value, because one burst or lull does not show how allocation will continue.
	g.headroom = (g.headroom + headroomFor(allocated-g.allocated, now.Sub(g.since))) / 2
	g.since, g.allocated = now, allocated
	// Setting it stops the process for a moment.
	if p := percentFor(g.heap[0].Value.Uint64(), g.headroom); p < g.percent*9/10 || p > g.percent*11/10 {
		g.percent = p
		debug.SetGCPercent(p)
	}
	g.await()
}

// headroomFor is how much may be allocated until the next collection, given how much was allocated in the time since the last one.
func headroomFor(allocated uint64, took time.Duration) uint64 {
	wanted := float64(allocated) * float64(seldom) / float64(max(took, 1))
	return uint64(min(mostHeadroom, max(leastHeadroom, wanted)))
}

// percentFor is GOGC for so many live bytes.
func percentFor(live, headroom uint64) int {
	return int(min(looseGC, max(tightGC, headroom*100/max(live, 1))))
}
