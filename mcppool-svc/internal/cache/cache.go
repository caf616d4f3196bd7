package cache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/fair"
	"pawl.dev/services/strictjson"
)

// Config bounds a cache. Zero values mean the defaults.
type Config struct {
	MaxCount int              // results; 10,000
	MaxBytes int64            // of them; 64 MiB
	Now      func() time.Time // time.Now where nil
}

// largest is the part of all bytes that one result may take.
const largest = 8

// overhead is about what a result takes beside itself.
const overhead = 512

// Key says what a result is of. It is the same only where the tool would be asked the same thing by the same user over the
// same connection, and nothing was said or done over that since by which the answer may be another one.
type Key [sha256.Size]byte

// Of is what makes a key.
type Of struct {
	User, Server, Tool, Definition string
	ConfigRevision                 uint64
	Connection, Writes, Changes    uint64 // which one; what was written over it; how often its server said that its tools changed
	Input                          string // JSON text of an object
}

// Key makes the key; false where the input is ambiguous, so that nobody knows what the server makes of it.
func (o Of) Key() (k Key, ok bool) {
	input, ok := canonical(o.Input)
	if !ok {
		return k, false
	}
	h := sha256.New()
	for _, text := range []string{o.User, o.Server, o.Tool, o.Definition, input} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	for _, n := range []uint64{o.ConfigRevision, o.Connection, o.Writes, o.Changes} {
		h.Write(binary.BigEndian.AppendUint64(nil, n))
	}
	h.Sum(k[:0])
	return k, true
}

// canonical is an object's text whatever the order of its members; numbers are as they were written.
func canonical(text string) (string, bool) {
	if strictjson.Check([]byte(text), strictjson.Wire) != nil {
		return "", false
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return "", false
	}
	out, err := json.Marshal(v)
	// What stands for text that is not Unicode may stand for another one.
	return string(out), err == nil && !strings.ContainsRune(string(out), '\uFFFD')
}

// Cache is safe for concurrent use.
type Cache struct {
	cfg Config

	mu    sync.Mutex
	kept  map[Key]*fair.Slot[kept] // guarded by mu
	shelf *fair.Shelf[kept]        // guarded by mu
	hits  uint64                   // guarded by mu
	asked uint64                   // guarded by mu
}

type kept struct {
	key    Key
	result *mcppoolv1.CallResult
	until  time.Time
}

// New makes a cache.
func New(cfg Config) *Cache {
	if cfg.MaxCount == 0 {
		cfg.MaxCount = 10_000
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 64 << 20
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Cache{cfg: cfg, kept: make(map[Key]*fair.Slot[kept]), shelf: fair.New[kept](cfg.MaxCount, cfg.MaxBytes)}
}

// Get returns a result that was kept, nil where there is none. It shares its content with others: do not change that.
func (c *Cache) Get(k Key) *mcppoolv1.CallResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	slot := c.kept[k]
	switch {
	case slot == nil:
		return nil
	case !c.cfg.Now().Before(slot.Value.until):
		c.drop(slot)
		return nil
	}
	c.hits++
	c.shelf.Renew(slot)
	r := slot.Value.result
	return &mcppoolv1.CallResult{Content: r.GetContent(), StructuredJson: r.GetStructuredJson(), Cached: true}
}

// Put keeps a result for a time, in place of the one before. What is too large is not kept.
func (c *Cache) Put(k Key, user string, r *mcppoolv1.CallResult, ttl time.Duration) {
	size := int64(proto.Size(r) + overhead)
	if ttl <= 0 || size > c.cfg.MaxBytes/largest {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.kept[k]; old != nil {
		c.drop(old)
	}
	// The content alone: name and time are another call's.
	own := &mcppoolv1.CallResult{Content: r.GetContent(), StructuredJson: r.GetStructuredJson()}
	c.kept[k] = c.shelf.Add(user, size, kept{key: k, result: own, until: c.cfg.Now().Add(ttl)})
	for slot, over := c.shelf.Over(); over; slot, over = c.shelf.Over() {
		c.drop(slot)
	}
}

// drop is called with mu held.
func (c *Cache) drop(slot *fair.Slot[kept]) {
	c.shelf.Remove(slot)
	delete(c.kept, slot.Value.key)
}

// sweepEvery is how often results that nobody may have any more are given back.
const sweepEvery = time.Minute

// Run forgets what is due also where nobody asks, until ctx is done.
func (c *Cache) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.sweep()
		case <-ctx.Done():
			return
		}
	}
}

func (c *Cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Now()
	for _, slot := range c.kept {
		if !now.Before(slot.Value.until) {
			c.drop(slot)
		}
	}
}

// Stats is what the cache is worth.
type Stats struct {
	Count, Bytes int64
	Hits, Misses int64
}

// Stats looks at it.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Count: int64(c.shelf.Len()), Bytes: c.shelf.Bytes(), Hits: int64(c.hits), Misses: int64(c.asked - c.hits)}
}
