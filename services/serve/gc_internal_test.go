package serve

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 300, 1 << 20: 300, 10 << 20: 200, 20 << 20: 100, 1 << 30: 100} {
		if got := percentFor(live); got != want {
			t.Errorf("percentFor(%d MiB) = %d, want %d", live>>20, got, want)
		}
	}
}

// GOGC follows the live heap, up and down.
func TestRelaxGC(t *testing.T) {
	t.Setenv("GOGC", "")
	was := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(was) })
	RelaxGC()
	ballast := make([]byte, 64<<20)
	awaitGOGC(t, func(gogc, _ int) bool { return gogc == tightGC })
	runtime.KeepAlive(ballast) // and no longer
	// What is live then depends on what ran before; a difference of a tenth is not worth a stop.
	awaitGOGC(t, func(gogc, ideal int) bool { return gogc > tightGC && ideal >= gogc*9/10 && ideal <= gogc*11/10 })
}

// awaitGOGC collects until GOGC, beside what it were ideally, is as it is to be.
func awaitGOGC(t *testing.T, is func(gogc, ideal int) bool) {
	t.Helper()
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/heap/live:bytes"}}
	gogc, ideal := 0, 0
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		runtime.GC()
		metrics.Read(now)
		if gogc, ideal = int(now[0].Value.Uint64()), percentFor(now[1].Value.Uint64()); is(gogc, ideal) {
			return
		}
	}
	t.Fatalf("GOGC is %d, %d for what is live", gogc, ideal)
}

// What the operator says counts.
func TestRelaxGCLeavesGOGC(t *testing.T) {
	t.Setenv("GOGC", "50")
	was := debug.SetGCPercent(50)
	t.Cleanup(func() { debug.SetGCPercent(was) })
	RelaxGC()
	if got := debug.SetGCPercent(50); got != 50 {
		t.Errorf("GOGC is %d", got)
	}
}
