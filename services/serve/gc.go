package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// headroom is how much our servers allocate between two collections of garbage: less costs CPU, more costs memory. Beside
	// GOGC=400, 20 MB took a third off the memory of the suite under load, and nothing (at 32 tasks) to 5 % (at 128) more CPU.
	headroom = 20 << 20
	// tightGC and looseGC bound GOGC: a large heap may double, a small one grow to four times its size.
	tightGC, looseGC = 100, 300
)

// RelaxGC makes the process collect garbage when it has allocated about headroom, unless GOGC says otherwise. The live heaps
// of our servers are a few megabytes, and GOGC=100 would collect them several times as often; a fixed GOGC that is large enough
// for them would let a large heap grow without need.
func RelaxGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	g := &pacer{percent: looseGC, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	debug.SetGCPercent(g.percent)
	g.await()
}

// pacer sets GOGC after each collection, by what that left.
type pacer struct {
	percent int
	live    []metrics.Sample
}

// await has the pacer called after the next collection.
func (g *pacer) await() {
	runtime.AddCleanup(&struct{ _ *pacer }{}, (*pacer).collected, g)
}

func (g *pacer) collected() {
	metrics.Read(g.live)
	// Setting it stops the process for a moment.
	if p := percentFor(g.live[0].Value.Uint64()); p < g.percent*9/10 || p > g.percent*11/10 {
		g.percent = p
		debug.SetGCPercent(p)
	}
	g.await()
}

// percentFor is GOGC for so many live bytes.
func percentFor(live uint64) int {
	return int(min(looseGC, max(tightGC, headroom*100/max(live, 1))))
}
