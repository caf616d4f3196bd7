package serve

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
)

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 300, 1 << 20: 300, 10 << 20: 200, 20 << 20: 100, 100 << 20: 20, 1 << 30: 10} {
		if got := percentFor(live, maxHeadroom); got != want {
			t.Errorf("percentFor(%d MiB) = %d, want %d", live>>20, got, want)
		}
	}
}

// A process that allocates fast gets more headroom than a slow one.
func TestHeadroomFor(t *testing.T) {
	for _, c := range []struct {
		allocated uint64
		took      time.Duration
		want      uint64
	}{
		{0, 0, minHeadroom}, {8 << 20, time.Minute, minHeadroom}, {12 << 20, targetInterval, 12 << 20}, {24 << 20, 2 * targetInterval, 12 << 20},
		{8 << 20, targetInterval / 8, maxHeadroom}, {1 << 40, time.Nanosecond, maxHeadroom},
	} {
		if got := headroomFor(c.allocated, c.took); got != c.want {
			t.Errorf("headroomFor(%d, %s) = %d, want %d", c.allocated, c.took, got, c.want)
		}
	}
}

// GOGC follows the live heap, up and down. Bytes that need no scan are not doubled.
func TestRelaxGC(t *testing.T) {
	t.Setenv("GOGC", "")
	was := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(was) })
	RelaxGC()
	ballast := make([]byte, 64<<20)
	awaitGOGC(t, func(gogc int) bool { return gogc < 50 })
	runtime.KeepAlive(ballast) // and no longer
	awaitGOGC(t, func(gogc int) bool { return gogc > 50 })
}

// awaitGOGC collects until GOGC is as it is to be.
func awaitGOGC(t *testing.T, is func(gogc int) bool) {
	t.Helper()
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		runtime.GC()
		metrics.Read(now)
		if is(int(now[0].Value.Uint64())) {
			return
		}
	}
	t.Fatalf("GOGC is %d", now[0].Value.Uint64())
}

// GOGC of the operator has precedence.
func TestRelaxGCLeavesGOGC(t *testing.T) {
	t.Setenv("GOGC", "50")
	was := debug.SetGCPercent(50)
	t.Cleanup(func() { debug.SetGCPercent(was) })
	RelaxGC()
	if got := debug.SetGCPercent(50); got != 50 {
		t.Errorf("GOGC is %d", got)
	}
}

// A message gets a buffer of at most twice its size.
func TestBuffersFitMessages(t *testing.T) {
	for _, size := range []int{2048, 60_000, 1 << 20, 5 << 20} {
		if buf := mem.DefaultBufferPool().Get(size); len(*buf) != size || cap(*buf) > 2*size {
			t.Errorf("%d bytes are in a buffer of %d, whose capacity is %d", size, len(*buf), cap(*buf))
		}
	}
}

// Issue 13: the limit of the container is read from control groups of both versions.
func TestContainerMemory(t *testing.T) {
	const v2, v1 = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	for name, c := range map[string]struct {
		file, content string
		want          int64
	}{
		"version 2": {v2, "1073741824\n", 1 << 30}, "no limit": {v2, "max\n", 0},
		"version 1": {v1, "536870912\n", 512 << 20}, "version 1, no limit": {v1, "9223372036854771712\n", 0}, "no control groups": {"x", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			file := filepath.Join(root, c.file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := containerMemory(root); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// A process that does nothing is made to collect, one that holds what lived at its last collection is not.
func TestKeepsGarbage(t *testing.T) {
	for objects, want := range map[uint64]bool{90 << 20: false, 100 << 20: false, 132 << 20: false, 133 << 20: true} {
		if got := keepsGarbage(objects, 100<<20); got != want {
			t.Errorf("%d MiB: %v", objects>>20, got)
		}
	}
}
