package registry

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"pawl.dev/mcppool-svc/internal/registry/store"
)

const (
	bucketWays = "ways" // spec.Server.Origin → wayRecord
	// maxWays is how many are remembered; the oldest give way.
	maxWays = 10_000
	// wayAge is how long one is believed. A server that was upgraded may still take the older way, and nobody would ever ask for the
	// newer one; to ask costs one more request, when a connection is made.
	wayAge = 24 * time.Hour
)

// Ways remembers how servers were reached last time, where that is not what is tried first. It is safe for concurrent use.
type Ways struct {
	store store.Store
	log   *slog.Logger
	now   func() time.Time

	mu   sync.Mutex
	ways map[string]wayRecord // guarded by mu; by spec.Server.Origin
}

// wayRecord is one as stored.
type wayRecord struct {
	Version int       `json:"v"`
	Way     string    `json:"way"`
	Time    time.Time `json:"time"`
}

// NewWays reads what is stored.
func NewWays(st store.Store, now func() time.Time, log *slog.Logger) (*Ways, error) {
	w := &Ways{store: st, log: log, now: now, ways: make(map[string]wayRecord)}
	err := st.Load(bucketWays, func(key string, value []byte) error {
		var r wayRecord
		if err := decode(value, &r); err != nil {
			return fmt.Errorf("entry %q of %s: %w", key, bucketWays, err)
		}
		w.ways[key] = r
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading how MCP servers are reached: %w", err)
	}
	return w, nil
}

// Recall returns how a server was reached; empty where there is nothing to say, or that is long ago.
func (w *Ways) Recall(origin string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.ways[origin]
	if age := w.now().Sub(r.Time); age >= wayAge || age < 0 {
		return "" // replaced by what is found out now
	}
	return r.Way
}

// Remember replaces that; an empty way forgets. What cannot be stored is found out again after a restart.
func (w *Ways) Remember(origin, way string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var changes []store.Change
	if way == "" {
		delete(w.ways, origin)
		changes = append(changes, store.Change{Bucket: bucketWays, Key: origin})
	} else {
		if _, known := w.ways[origin]; !known && len(w.ways) >= maxWays {
			oldest := w.oldest()
			delete(w.ways, oldest)
			changes = append(changes, store.Change{Bucket: bucketWays, Key: oldest})
		}
		r := wayRecord{Version: recordVersion, Way: way, Time: w.now().UTC()}
		w.ways[origin] = r
		changes = append(changes, store.Change{Bucket: bucketWays, Key: origin, Value: encode(r)})
	}
	if err := w.store.Apply(changes...); err != nil {
		w.log.Warn("how an MCP server is reached cannot be stored", "error", err)
	}
}

// oldest is the origin that was remembered first. Called with mu held.
func (w *Ways) oldest() string {
	keys := make([]string, 0, len(w.ways))
	for key := range w.ways {
		keys = append(keys, key)
	}
	return slices.MinFunc(keys, func(a, b string) int { return cmp.Or(w.ways[a].Time.Compare(w.ways[b].Time), cmp.Compare(a, b)) })
}
