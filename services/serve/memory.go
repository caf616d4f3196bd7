package serve

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
)

const (
	// maxHeadroom is the most that a small heap may grow between two garbage collections: less costs CPU, more costs memory
	// (docs/decisions/0022-cost-of-a-step.md).
	maxHeadroom = 20 << 20
	// minHeadroom is the headroom of a server that allocates little.
	minHeadroom = 10 << 20
	// targetInterval is the time between collections at which their cost is negligible. If they come less often, the headroom shrinks to save memory.
	targetInterval = 500 * time.Millisecond
	// idleAfter is the time without a collection after which a process counts as idle, and idleGarbage what it may keep then.
	idleAfter   = 5 * time.Second
	idleGarbage = 32 << 20
	// minPercent and maxPercent bound GOGC: a small heap may grow to four times its size.
	minPercent, maxPercent = 10, 300
)

// init sets the sizes of gRPC's buffers, as gRPC allows only in init: 2 KiB to 8 MiB, each size twice the one before. gRPC's default has no
// size between 32 KiB and 1 MiB, and clears each buffer before its use.
func init() {
	if buffers, err := mem.NewBinaryTieredBufferPool(11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23); err == nil {
		experimental.SetDefaultBufferPool(buffers)
	}
}

// RelaxGC sets GOGC after each garbage collection, so that a small heap may grow by minHeadroom to maxHeadroom until the next one: the faster
// the process allocates, the more. A large heap may grow by as much as a collection has to scan, which is all of it but texts and bytes: so the outputs
// of tools take their size, not twice their size. Once the process is idle, it collects the garbage of its last load. If the variable GOGC is set, RelaxGC does
// nothing.
func RelaxGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	g := &pacer{
		percent: maxPercent, headroom: minHeadroom, since: time.Now(),
		heap: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/scan/heap:bytes"}},
	}
	metrics.Read(g.heap)
	g.allocated = g.heap[1].Value.Uint64()
	debug.SetGCPercent(g.percent)
	g.awaitCollection()
	collectIfIdle(0)
}

// collectIfIdle collects and returns memory to the system if there is much garbage, and there was no collection since there had been that many. It
// calls itself again later. Without it, an idle process keeps the garbage of its last load until the runtime's next collection, two minutes later.
func collectIfIdle(collections uint64) {
	now := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(now)
	newest := now[0].Value.Uint64()
	if newest == collections && keepsGarbage(now[1].Value.Uint64(), now[2].Value.Uint64()) {
		debug.FreeOSMemory()
	}
	time.AfterFunc(idleAfter, func() { collectIfIdle(newest) })
}

// keepsGarbage reports whether the bytes of all objects are many more than those of the objects that lived at the last collection.
func keepsGarbage(objects, live uint64) bool { return objects > live+idleGarbage }

// pacer sets GOGC after each collection, according to the live and the scanned bytes, and to the rate of allocation before it.
type pacer struct {
	percent   int
	headroom  uint64
	since     time.Time        // of the last collection
	allocated uint64           // bytes allocated from the start of the process to the last collection
	heap      []metrics.Sample // live bytes, bytes allocated since the start of the process, and bytes that a collection scans
}

// awaitCollection makes the runtime call adjust after the next collection.
func (g *pacer) awaitCollection() {
	runtime.AddCleanup(&struct{ _ *pacer }{}, (*pacer).adjust, g)
}

func (g *pacer) adjust() {
	metrics.Read(g.heap)
	now, allocated := time.Now(), g.heap[1].Value.Uint64()
	// The mean with the last value, because one burst or lull does not show how allocation will continue.
	g.headroom = (g.headroom + headroomFor(allocated-g.allocated, now.Sub(g.since))) / 2
	g.since, g.allocated = now, allocated
	// SetGCPercent stops the process for a moment, so small changes are skipped.
	if p := percentFor(g.heap[0].Value.Uint64(), max(g.headroom, g.heap[2].Value.Uint64())); p < g.percent*9/10 || p > g.percent*11/10 {
		g.percent = p
		debug.SetGCPercent(p)
	}
	g.awaitCollection()
}

// headroomFor returns how many bytes may be allocated until the next collection, given the bytes allocated since the last one in a time.
func headroomFor(allocated uint64, took time.Duration) uint64 {
	wanted := float64(allocated) * float64(targetInterval) / float64(max(took, 1))
	return uint64(min(maxHeadroom, max(minHeadroom, wanted)))
}

// percentFor returns the GOGC that gives a heap of so many live bytes the headroom, within bounds.
func percentFor(live, headroom uint64) int {
	return int(min(maxPercent, max(minPercent, headroom*100/max(live, 1))))
}

// memoryShare is the part of a container's memory that the Go runtime may use: the rest is for stacks of the kernel, mapped files and children.
const memoryShare = 0.8

// LimitMemory sets the runtime's soft memory limit from the container's limit, unless GOMEMLIMIT is set or there is no limit.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := containerMemory("/"); limit > 0 {
		debug.SetMemoryLimit(int64(memoryShare * float64(limit)))
	}
}

// containerMemory returns the memory limit of this process's control group, of version 2 or 1, in bytes; 0 if there is none. root is the root folder. In a
// container, its own group is at the top of the mounted tree.
func containerMemory(root string) int64 {
	for _, file := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		raw, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		if err == nil && limit < unlimitedMemory {
			return limit
		}
	}
	return 0 // such as "max"
}

// unlimitedMemory is less than what version 1 shows if there is no limit.
const unlimitedMemory = 1 << 60
