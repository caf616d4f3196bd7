package pin

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
)

const (
	// bucketSeen holds the definitions that were accepted without an approval: origin, tool name → record.
	bucketSeen = "pins"
	// bucketApproved holds the definitions that a person approved. They have priority.
	bucketApproved = "approvals"
	// recordVersion is the version of all records.
	recordVersion = 1
	// maxPins bounds the tool names stored for one server, including names that it no longer has.
	maxPins = 20_000
	// maxKept is the longest definition, in bytes, whose text is stored, so that people can see the changes.
	maxKept = 256 << 10
)

// Buckets returns the buckets that a Book's store must have.
func Buckets() []string { return []string{bucketSeen, bucketApproved} }

// First returns the buckets in which the earliest value of all replicas wins.
func First() []string { return []string{bucketSeen} }

// ErrStorage means that a pin or approval could not be stored or read.
var ErrStorage = errors.New("the store failed")

// Record is an accepted definition, as stored.
type Record struct {
	Version    int       `json:"v"`
	Hash       string    `json:"hash"`
	Definition string    `json:"definition,omitempty"` // empty if it is too long
	Time       time.Time `json:"time"`
	By         string    `json:"by,omitempty"` // a user's sub; empty: accepted without an approval
	// Review is the id of the server's first review at the time when the definition was accepted; empty for an approval. The entry firstName
	// has only this id.
	Review string `json:"review,omitempty"`
}

// Book keeps the pins and approvals of all servers. It is safe for concurrent use.
type Book struct {
	store store.Store
	now   func() time.Time

	// writes serializes changes, commits included. mu is not held during a commit.
	writes sync.Mutex

	mu      sync.RWMutex
	servers map[string]*server // guarded by mu; by origin
}

// reviewInput is the input of a review, without the pins.
type reviewInput struct {
	digest  [32]byte
	pinning registry.Pinning
}

// Open reads the stored pins and approvals.
func Open(st store.Store, now func() time.Time) (*Book, error) {
	b := &Book{store: st, now: now, servers: make(map[string]*server)}
	var places []replica.Place
	for _, bucket := range Buckets() {
		err := st.Load(bucket, func(key string, _ []byte) error {
			places = append(places, replica.Place{Bucket: bucket, Key: key})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading the approved tools: %w", err)
		}
	}
	return b, b.ApplyRemote(places)
}

// Review returns the tools of a server that wait for an approval. It first stores the new definitions that the server's pinning accepts.
// If that fails, it returns ErrStorage, and no tool may be used.
func (b *Book) Review(s *registry.Server, c *catalog.Catalog) (*Review, error) {
	if s.Builtin != nil || s.Pinning == registry.PinNothing {
		return nil, nil // built-in tools are part of the program
	}
	origin, input := s.Origin(), reviewInput{c.Digest, s.Pinning}
	if pins := b.server(origin); pins.review != nil && pins.input == input {
		return pins.review, nil
	}
	b.writes.Lock()
	defer b.writes.Unlock()
	pins := b.server(origin)
	review, fresh := reviewTools(s.Pinning, pins, c)
	if len(fresh) > 0 {
		changes := b.acceptChanges(origin, pins, fresh)
		if err := b.apply(changes); err != nil {
			return nil, err
		}
		if err := b.refresh(origin, changes); err != nil {
			return nil, err
		}
		// Another replica may have been first: the stored values count.
		pins = b.server(origin)
		var unaccepted []*catalog.Tool
		review, unaccepted = reviewTools(s.Pinning, pins, c)
		for _, t := range unaccepted {
			review.held[t.Name] = true
		}
	}
	reviewed := *pins
	reviewed.input, reviewed.review = input, review
	b.cacheReview(origin, pins, &reviewed)
	return review, nil
}

// acceptChanges returns the changes that store the fresh tools as accepted. The first review of a server also stores its id.
func (b *Book) acceptChanges(origin string, pins *server, fresh []*catalog.Tool) []store.Change {
	changes := make([]store.Change, 0, len(fresh)+1)
	review := pins.first
	if pins.isNew() {
		review = idOf(fresh)
		changes = append(changes, b.firstChange(origin, review))
	}
	for _, t := range fresh {
		changes = append(changes, b.change(bucketSeen, origin, t, Record{Review: review}))
	}
	return changes
}

// reviewTools returns the tools that wait for an approval, and the fresh tools: those that the pinning accepts and that are not stored yet.
func reviewTools(pinning registry.Pinning, s *server, c *catalog.Catalog) (r *Review, fresh []*catalog.Tool) {
	r = &Review{held: make(map[string]bool)}
	acceptNew := s.isNew() || pinning == registry.PinAllowNew
	for _, t := range c.Tools {
		hash, known := s.acceptedHash(pinning, t.Name)
		switch {
		case known && hash == t.Hash:
		case !known && acceptNew && t.Name != firstName && len(s.pins)+len(fresh) < maxPins:
			fresh = append(fresh, t)
		default:
			r.held[t.Name] = true
		}
	}
	return r, fresh
}

// Approve stores an approval of a tool's definition. It replaces the earlier approval.
func (b *Book) Approve(s *registry.Server, t *catalog.Tool, by string) error {
	origin := s.Origin()
	b.writes.Lock()
	defer b.writes.Unlock()
	changes := []store.Change{b.change(bucketApproved, origin, t, Record{By: by})}
	if b.server(origin).isNew() { // the next review is not the first
		changes = append(changes, b.firstChange(origin, idOf(nil)))
	}
	if err := b.apply(changes); err != nil {
		return err
	}
	return b.refresh(origin, changes)
}

// Approved returns the approved definition of a tool, or else the accepted one; false if there is neither.
func (b *Book) Approved(s *registry.Server, name string) (Record, bool, error) {
	key := s.Origin() + "\x00" + name
	r, known, err := b.get(bucketApproved, key)
	if err != nil || known {
		return r, known, err
	}
	if _, valid := b.server(s.Origin()).acceptedHash(s.Pinning, name); !valid {
		return Record{}, false, nil
	}
	return b.get(bucketSeen, key)
}

// get reads one record.
func (b *Book) get(bucket, key string) (Record, bool, error) {
	value, err := b.store.Get(bucket, key)
	if err != nil {
		return Record{}, false, errors.Join(ErrStorage, fmt.Errorf("reading the approved tools: %w", err))
	}
	if value == nil {
		return Record{}, false, nil
	}
	var r Record
	if err := store.Decode(value, recordVersion, &r); err != nil {
		_, name := splitKey(key)
		return Record{}, false, fmt.Errorf("reading the approved tools: tool %q: %w", name, err)
	}
	return r, true, nil
}

// Forget deletes all pins and approvals of an origin.
func (b *Book) Forget(origin string) error {
	b.writes.Lock()
	defer b.writes.Unlock()
	changes := []store.Change{{Bucket: bucketSeen, Key: origin + "\x00" + firstName}}
	for name := range b.server(origin).pins {
		for _, bucket := range Buckets() {
			changes = append(changes, store.Change{Bucket: bucket, Key: origin + "\x00" + name})
		}
	}
	if err := b.apply(changes); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.servers, origin)
	return nil
}

// server returns the pins of an origin.
func (b *Book) server(origin string) *server {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.servers[origin]; s != nil {
		return s
	}
	return &server{}
}

// cacheReview replaces old, the pins of an origin, by reviewed, a copy with a cached review. It does nothing if the pins have changed.
func (b *Book) cacheReview(origin string, old, reviewed *server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.servers[origin]; now == old || now == nil && len(old.pins) == 0 && old.first == "" {
		b.servers[origin] = reviewed
	}
}

func (b *Book) apply(changes []store.Change) error {
	if err := b.store.Apply(changes...); err != nil {
		return errors.Join(ErrStorage, fmt.Errorf("storing the approved tools: %w", err))
	}
	return nil
}

// change returns the change that stores a tool's definition; r describes the approval or review.
func (b *Book) change(bucket, origin string, t *catalog.Tool, r Record) store.Change {
	r.Version, r.Hash, r.Time = recordVersion, t.Hash, b.now().UTC()
	if len(t.Raw) <= maxKept {
		r.Definition = t.Raw
	}
	return encode(bucket, origin, t.Name, r)
}

func encode(bucket, origin, name string, r Record) store.Change {
	return store.Change{Bucket: bucket, Key: origin + "\x00" + name, Value: store.Encode(r)}
}

// splitKey splits the key of a record.
func splitKey(key string) (origin, name string) {
	origin, name, _ = strings.Cut(key, "\x00")
	return origin, name
}

// Review holds the tools of a catalog that wait for an approval. A nil Review holds none.
type Review struct{ held map[string]bool }

// Holds reports whether a tool waits for an approval.
func (r *Review) Holds(name string) bool { return r != nil && r.held[name] }

// Equal reports whether the same tools wait.
func (r *Review) Equal(other *Review) bool {
	return r == other || r.Held() == other.Held() && (r.Held() == 0 || maps.Equal(r.held, other.held))
}

// Held returns the number of tools that wait for an approval.
func (r *Review) Held() int {
	if r == nil {
		return 0
	}
	return len(r.held)
}
