package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"time"
	"weak"

	"golang.org/x/sync/singleflight"

	"pawl.dev/mcppool-svc/internal/mcp"
)

const (
	// listLimit is how long a server has for all its pages.
	listLimit = 60 * time.Second
	// MaxAge is how long a catalog is used without listing again: change notifications can get lost over HTTP.
	MaxAge = 5 * time.Minute
	// retryAge is how old a catalog must be to be asked for again because a tool was not in it.
	retryAge = 2 * time.Second
)

// Source is where tool definitions come from: an mcp.Client.
type Source interface {
	ListTools(ctx context.Context) ([]json.RawMessage, error)
	ToolsVersion() uint64
}

// Cache keeps the catalog of one connection.
type Cache struct {
	source Source
	known  *Interner

	lists singleflight.Group // by version

	mu      sync.Mutex
	current *Catalog // guarded by mu
	version uint64   // guarded by mu; ToolsVersion before current was listed
}

// NewCache returns a cache over a connection; known may be nil.
func NewCache(source Source, known *Interner) *Cache { return &Cache{source: source, known: known} }

// Get returns the catalog, asking the server only where what is known is out of date. Errors are *mcp.Error.
func (c *Cache) Get(ctx context.Context) (*Catalog, error) { return c.get(ctx, MaxAge) }

// Fresh is Get, but lists again unless the catalog is only a moment old.
func (c *Cache) Fresh(ctx context.Context) (*Catalog, error) { return c.get(ctx, retryAge) }

// Find returns a tool and its catalog. If the tool is missing, it lists once more: servers may gain tools without a notification. The tool is nil
// if there is none.
func (c *Cache) Find(ctx context.Context, name string) (*Catalog, *Tool, error) {
	for _, age := range []time.Duration{MaxAge, retryAge} {
		catalog, err := c.get(ctx, age)
		if err != nil {
			return nil, nil, err
		}
		if t := catalog.Find(name); t != nil {
			return catalog, t, nil
		}
	}
	return nil, nil, nil
}

func (c *Cache) get(ctx context.Context, age time.Duration) (*Catalog, error) {
	version := c.source.ToolsVersion()
	c.mu.Lock()
	current, listed := c.current, c.version
	c.mu.Unlock()
	if current != nil && listed == version && time.Since(current.Time) < age {
		return current, nil
	}
	// Others may wait for this list too: it does not end with the first caller.
	done := c.lists.DoChan(strconv.FormatUint(version, 10), func() (any, error) { return c.list(context.WithoutCancel(ctx), version) })
	select {
	case l := <-done:
		catalog, _ := l.Val.(*Catalog)
		return catalog, l.Err
	case <-ctx.Done():
		return nil, &mcp.Error{Kind: mcp.Interrupted, Message: context.Cause(ctx).Error(), Err: errors.Join(ctx.Err(), context.Cause(ctx))}
	}
}

func (c *Cache) list(ctx context.Context, version uint64) (*Catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	raw, err := c.source.ListTools(ctx)
	if err != nil {
		return nil, err
	}
	catalog, err := read(raw, time.Now(), c.known)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || version >= c.version {
		c.current, c.version = catalog, version
	}
	return catalog, nil
}

// Interner shares tools of the same definition between catalogs: a thousand users of a server have a thousand connections, each with a
// list of its own, and one set of tools. Tools that no catalog holds are dropped. It is safe for concurrent use.
type Interner struct {
	mu    sync.Mutex
	tools map[string]weak.Pointer[Tool] // guarded by mu; by Tool.Hash
}

// NewInterner returns an empty Interner.
func NewInterner() *Interner { return &Interner{tools: make(map[string]weak.Pointer[Tool])} }

// read parses a definition, or returns the tool that has it already.
func (k *Interner) read(raw json.RawMessage) (*Tool, error) {
	t, err := parse(raw)
	if err != nil || k == nil {
		return t, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if other := k.tools[t.Hash].Value(); other != nil && other.Raw == t.Raw {
		return other, nil
	}
	k.tools[t.Hash] = weak.Make(t)
	runtime.AddCleanup(t, k.forget, t.Hash)
	return t, nil
}

// forget drops a tool that is gone, unless there is another one of that definition by now.
func (k *Interner) forget(hash string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, ok := k.tools[hash]; ok && p.Value() == nil {
		delete(k.tools, hash)
	}
}
