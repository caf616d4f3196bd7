package call

import (
	"time"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/cache"
	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
)

// keeper is what the cache is to one call.
type keeper struct {
	cache  *cache.Cache
	user   string
	ttl    time.Duration // 0: its result is not kept
	key    cache.Key
	client mcp.Client
	before uint64 // how often the server had said that its tools changed, when the call began
}

// keep says what the cache is to a call of a tool that only reads: it is for servers whose operator wants it. A call that goes on
// with an earlier one is not what its input says. What writes makes all that was kept over its connection worthless.
func (c *Caller) keep(lease *conn.Lease, r *Request, tool *catalog.Tool) keeper {
	k := keeper{cache: c.deps.Cache, user: r.User, client: lease.Client(), before: lease.Client().ToolsVersion()}
	if c.deps.Cache == nil || r.Server.CacheTTL <= 0 || r.Continues {
		return k
	}
	connection, writes := lease.Stamp()
	key, ok := cache.Of{
		User: r.User, Server: r.Server.UID, Tool: tool.Name, Definition: tool.Hash, ConfigRevision: r.Server.ConfigRevision(),
		Connection: connection, Writes: writes, Changes: k.before, Input: r.Input,
	}.Key()
	if ok {
		k.key, k.ttl = key, r.Server.CacheTTL
	}
	return k
}

// get is the result that is kept; nil where there is none, or where it will not do.
func (k keeper) get(r *Request) *mcppoolv1.CallResult {
	if k.ttl <= 0 || r.BypassCache {
		return nil
	}
	return k.cache.Get(k.key)
}

// put keeps a success, unless the server said meanwhile that its tools changed.
func (k keeper) put(result *mcppoolv1.CallResult) {
	if k.ttl > 0 && !result.GetIsError() && !result.GetTruncated() && k.client.ToolsVersion() == k.before {
		k.cache.Put(k.key, k.user, result, k.ttl)
	}
}
