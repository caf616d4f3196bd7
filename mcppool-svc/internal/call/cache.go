package call

import (
	"crypto/sha256"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	"google.golang.org/protobuf/proto"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

const (
	// defaultCacheBytes is the size of the cache if none is configured.
	defaultCacheBytes = 64 << 20
	// maxResultFraction: one result may take at most 1/8 of the cache.
	maxResultFraction = 8
	// cacheOverhead is the approximate number of bookkeeping bytes per entry.
	cacheOverhead = 512
)

// Cache keeps results of tools that only read, for servers with a cache_ttl. It is safe for concurrent use.
type Cache struct {
	maxBytes int64
	results  *otter.Cache[cacheKey, *cachedResult]
}

// cachedResult is shared: do not change it.
type cachedResult struct {
	result *mcppoolv1.CallResult
	size   uint32
	ttl    time.Duration
}

// clock is the otter.Clock of a Cache.
type clock func() time.Time

// NowNano implements otter.Clock.
func (c clock) NowNano() int64 { return c().UnixNano() }

// Tick implements otter.Clock. There are no ticks: expired results are removed when others are added.
func (clock) Tick(time.Duration) <-chan time.Time { return nil }

// NewCache returns a cache of at most maxBytes, or 64 MiB if that is 0.
func NewCache(maxBytes int64, now func() time.Time) *Cache {
	if maxBytes == 0 {
		maxBytes = defaultCacheBytes
	}
	return &Cache{maxBytes: maxBytes, results: otter.Must(&otter.Options[cacheKey, *cachedResult]{
		MaximumWeight: uint64(maxBytes),
		Weigher:       func(_ cacheKey, c *cachedResult) uint32 { return c.size },
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[cacheKey, *cachedResult]) time.Duration {
			return e.Value.ttl
		}),
		StatsRecorder: stats.NewCounter(),
		Clock:         clock(now),
	})}
}

// get returns a cached result, or nil.
func (c *Cache) get(k cacheKey) *mcppoolv1.CallResult {
	cached, ok := c.results.GetIfPresent(k)
	if !ok {
		return nil
	}
	return &mcppoolv1.CallResult{Content: cached.result.GetContent(), StructuredJson: cached.result.GetStructuredJson(), ResultJson: cached.result.GetResultJson(), Cached: true}
}

// put keeps the content of a result, unless it is too large.
func (c *Cache) put(k cacheKey, r *mcppoolv1.CallResult, ttl time.Duration) {
	size := int64(proto.Size(r) + cacheOverhead)
	if size > c.maxBytes/maxResultFraction {
		return
	}
	content := &mcppoolv1.CallResult{Content: r.GetContent(), StructuredJson: r.GetStructuredJson(), ResultJson: r.GetResultJson()}
	c.results.Set(k, &cachedResult{content, uint32(size), ttl})
}

// CacheStats are counters of a Cache.
type CacheStats struct{ Hits, Misses int64 }

// Stats returns the counters.
func (c *Cache) Stats() CacheStats {
	s := c.results.Stats()
	return CacheStats{Hits: int64(s.Hits), Misses: int64(s.Misses)}
}

// cacheKey identifies a result. Two calls have the same key only if the same user calls the same tool with the same input over the same
// connection, with no write and no change of the server's tools between them.
type cacheKey struct {
	user, server, tool, definition string
	exact                          bool
	configRevision                 uint64
	connection, writes             uint64            // see conn.Lease.Stamp
	changes                        uint64            // version of the server's tools
	input                          [sha256.Size]byte // with sorted members; numbers as they were written
}

// cacheSlot is the place of one call's result in the cache. The zero slot keeps nothing.
type cacheSlot struct {
	*attempt
	ttl    time.Duration // 0: the result is not kept
	key    cacheKey
	client mcp.Client
	before uint64 // version of the server's tools when the attempt began
}

// cacheSlot returns the slot of a call, or the zero slot if its result must not be cached. A call that continues another one depends on
// more than its input.
func (a *attempt) cacheSlot(lease *conn.Lease, tool *catalog.Tool, policy registry.Policy) cacheSlot {
	if a.deps.Cache == nil || a.Server.CacheTTL <= 0 || a.Continues || !a.reads(policy) {
		return cacheSlot{}
	}
	s := cacheSlot{attempt: a, ttl: a.Server.CacheTTL, client: lease.Client(), before: lease.Client().ToolsVersion()}
	input := jsontext.Value(a.Input.String())
	if input.Format(jsontext.ReorderRawObjects(true)) != nil {
		return cacheSlot{} // it is not Unicode, so servers may read it differently
	}
	connection, writes := lease.Stamp()
	s.key = cacheKey{
		user: a.User, server: a.Server.UID, exact: a.Exact, tool: tool.Name, definition: tool.Hash, configRevision: a.Server.ConfigRevision(),
		connection: connection, writes: writes, changes: s.before, input: sha256.Sum256(input),
	}
	return s
}

// get returns the cached result, or nil if there is none or the client bypasses the cache.
func (s cacheSlot) get() *mcppoolv1.CallResult {
	if s.ttl <= 0 || s.BypassCache {
		return nil
	}
	return s.deps.Cache.get(s.key)
}

// put keeps a successful, complete result if the server's tools have not changed and the server asked no question.
func (s cacheSlot) put(result *mcppoolv1.CallResult) {
	if s.ttl > 0 && !result.GetIsError() && !result.GetTruncated() && s.client.ToolsVersion() == s.before &&
		!s.asked.Load() && !s.unclear.Load() {
		s.deps.Cache.put(s.key, result, s.ttl)
	}
}
