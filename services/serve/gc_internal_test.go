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
	awaitGOGC(t, tightGC)
	runtime.KeepAlive(ballast) // and no longer
	awaitGOGC(t, looseGC)
}

func awaitGOGC(t *testing.T, want uint64) {
	t.Helper()
	gogc := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		runtime.GC()
		if metrics.Read(gogc); gogc[0].Value.Uint64() == want {
			return
		}
	}
	t.Fatalf("GOGC is %d, want %d", gogc[0].Value.Uint64(), want)
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
