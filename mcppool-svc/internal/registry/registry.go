package registry

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/errs"
)

// Buckets of the store.
const (
	BucketServers     = "servers"     // server key → record
	bucketActivations = "activations" // user, server key → activation
	bucketRequests    = "requests"    // unused; of earlier versions
)

// Buckets returns the buckets that a Registry's store must have.
func Buckets() []string {
	return []string{BucketServers, bucketActivations, bucketRequests, bucketTransportHints, bucketAnonymousElicitors}
}

// Registry keeps the registered servers. It is safe for concurrent use. The servers that it returns are shared: do not change them.
// Its errors are *errs.Error.
type Registry struct {
	store store.Store
	log   *slog.Logger
	now   func() time.Time

	changed func(user string) // see Observe; may be nil

	// writes serializes changes, commits included. mu is not held during a commit, so that readers never wait for a disk.
	writes sync.Mutex

	mu      sync.RWMutex
	servers map[string]*Server // guarded by mu; by Server.Key
	active  map[string]bool    // guarded by mu; by pairKey; explicit choices only
}

// New reads the stored servers and adds those of config (from files and built in), which have priority.
func New(st store.Store, config []*Server, log *slog.Logger) (*Registry, error) {
	r := &Registry{
		store: st, log: log, now: time.Now,
		servers: make(map[string]*Server), active: make(map[string]bool),
	}
	for _, bucket := range []string{BucketServers, bucketActivations} {
		err := st.Load(bucket, func(key string, value []byte) error { return r.read(bucket, key, value) })
		if err != nil {
			return nil, fmt.Errorf("reading the registered MCP servers: %w", err)
		}
	}
	for _, s := range config {
		if old := r.servers[s.Key()]; old != nil && !old.FromConfig {
			log.Warn("a configured or built-in MCP server hides the registered one of the same id", "mcp_id", s.ID)
		}
		r.servers[s.Key()] = s.Seal()
	}
	return r, nil
}

// Observe sets the function that is called after each stored change with the user concerned, or "" for all users. Set it before the first
// change. The function must not block.
func (r *Registry) Observe(changed func(user string)) { r.changed = changed }

func (r *Registry) read(bucket, key string, value []byte) error {
	var err error
	switch bucket {
	case BucketServers:
		var rec record
		if err = store.Decode(value, recordVersion, &rec); err == nil {
			r.servers[key] = rec.Seal()
		}
	case bucketActivations:
		var a activation
		if err = store.Decode(value, recordVersion, &a); err == nil {
			r.active[key] = a.Active
		}
	}
	if err != nil {
		return fmt.Errorf("entry %q of %s: %w", key, bucket, err)
	}
	return nil
}

// Lookup returns the server with an id that a user sees: the user's own, else the shared one.
func (r *Registry) Lookup(user, id string) (*Server, error) {
	if own := r.get(user, id); own != nil {
		return own, nil
	}
	return r.Of("", id)
}

// Of returns the server with an id that belongs to an owner (empty: shared by all users).
func (r *Registry) Of(owner, id string) (*Server, error) {
	if s := r.get(owner, id); s != nil {
		return s, nil
	}
	return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND,
		"there is no MCP server %.64q; `pawl mcp list` lists the servers", id).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
}

// get returns a server, or nil.
func (r *Registry) get(owner, id string) *Server {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.servers[pairKey(owner, id)]
}

// All returns the servers of all owners, in no order.
func (r *Registry) All() []*Server {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.servers))
}

// Visible returns the servers that a user can see, sorted by id. The user's own server hides the shared one of the same id.
func (r *Registry) Visible(user string) []*Server {
	r.mu.RLock()
	defer r.mu.RUnlock()
	byID := make(map[string]*Server)
	for _, s := range r.servers {
		if s.Owner == user || s.Owner == "" && byID[s.ID] == nil {
			byID[s.ID] = s
		}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b *Server) int { return cmp.Compare(a.ID, b.ID) })
}

// Active reports whether a server, disabled or not, is active for a user: the user's explicit choice, else the server's default.
func (r *Registry) Active(user string, s *Server) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if active, chosen := r.active[pairKey(user, s.Key())]; chosen {
		return active
	}
	return s.AutoActivate
}

// pairKey returns a key for a user and an id: the id of the user's own server, a Server.Key, or a request_id.
func pairKey(user, id string) string { return user + "\x00" + id }

// keyUser returns the user of a pairKey.
func keyUser(key string) string {
	user, _, _ := strings.Cut(key, "\x00")
	return user
}

// recordVersion is the version of all records.
const recordVersion = 1

// record is a server as stored.
type record struct {
	Version int `json:"v"`
	Server
}

// activation is a user's explicit choice for a server.
type activation struct {
	Version int  `json:"v"`
	Active  bool `json:"active"`
}

// Create registers a server. If requestID is set, a repeated request (with the same digest) returns the server that the first request created.
// The owner must not see a server with that id already, and a plain user may have MostServers.
func (r *Registry) Create(user, requestID, digest string, s *Server) (*Server, error) {
	r.writes.Lock()
	defer r.writes.Unlock()
	request := ""
	if requestID != "" {
		request = pairKey(user, requestID)
		for _, existing := range r.All() {
			switch {
			case existing.Request != request:
			case existing.RequestDigest != digest:
				return nil, errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_REQUEST_ID_REUSED,
					"the request_id was used for another request; choose a new one")
			default:
				return existing, nil
			}
		}
	}
	if _, err := r.Lookup(s.Owner, s.ID); err == nil {
		return nil, errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
			"there is an MCP server %s already; choose another id, or update that server", s.ID)
	}
	own := 0
	for _, other := range r.All() {
		if other.Owner == s.Owner && !other.ByOperator {
			own++
		}
	}
	if own >= MostServers && !s.ByOperator {
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"you have registered %d MCP servers, which is the limit; remove one", MostServers)
	}
	s = s.Clone()
	s.UID, s.Generation, s.FromConfig = uuid.Must(uuid.NewV7()).String(), 1, false
	s.Request, s.RequestDigest = request, digest
	s.CreateTime = r.now().UTC()
	s.UpdateTime = s.CreateTime
	return s, r.commit(s.Owner, []store.Change{s.change()})
}

// change returns the store.Change that writes the server.
func (s *Server) change() store.Change {
	return store.Change{Bucket: BucketServers, Key: s.Key(), Value: store.Encode(record{recordVersion, *s})}
}

// Update replaces a server with a copy that edit has changed. If edit fails, Update returns the error of edit as it is. etag, if set, must be
// current.
func (r *Registry) Update(owner, id, etag string, edit func(*Server) error) (*Server, error) {
	r.writes.Lock()
	defer r.writes.Unlock()
	current, err := r.findChangeable(owner, id, etag)
	if err != nil {
		return nil, err
	}
	s := current.Clone()
	if err := edit(s); err != nil {
		return nil, err
	}
	s.Generation++
	s.Change = uuid.NewString()
	s.KeepConfigRevision(current)
	s.UpdateTime = r.now().UTC()
	return s, r.commit(s.Owner, []store.Change{s.change()})
}

// Delete removes a server and its activations, and returns the server. etag, if set, must be current.
func (r *Registry) Delete(owner, id, etag string) (*Server, error) {
	r.writes.Lock()
	defer r.writes.Unlock()
	s, err := r.findChangeable(owner, id, etag)
	if err != nil {
		return nil, err
	}
	changes := []store.Change{{Bucket: BucketServers, Key: s.Key()}}
	r.mu.RLock()
	for key := range r.active {
		if key == pairKey(keyUser(key), s.Key()) {
			changes = append(changes, store.Change{Bucket: bucketActivations, Key: key})
		}
	}
	r.mu.RUnlock()
	return s, r.commit(s.Owner, changes)
}

// SetActive stores a user's choice whether a server is active.
func (r *Registry) SetActive(user string, s *Server, active bool) error {
	r.writes.Lock()
	defer r.writes.Unlock()
	value := store.Encode(activation{Version: recordVersion, Active: active})
	return r.commit(user, []store.Change{{Bucket: bucketActivations, Key: pairKey(user, s.Key()), Value: value}})
}

// findChangeable returns a server if it can be changed.
func (r *Registry) findChangeable(owner, id, etag string) (*Server, error) {
	s, err := r.Of(owner, id)
	switch {
	case err != nil:
		return nil, err
	case s.FromConfig && s.Builtin != nil:
		return nil, readOnly("MCP server %s is built in: the program's flags define it; `pawl mcp deactivate %[1]s` keeps your tasks from using it", id)
	case s.FromConfig:
		return nil, readOnly("MCP server %s comes from a configuration file; edit that file and restart the pool", id)
	case etag != "" && etag != s.Etag():
		return nil, errs.New(codes.Aborted, commonv1.ErrorReason_ERROR_REASON_CONFLICT, "MCP server %s changed since you read it; read it again", id)
	}
	return s, nil
}

func readOnly(format, id string) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_READ_ONLY, format, id).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
}

// commit stores changes that concern a user (empty: all users), and reads the values back, because another replica may have written too.
func (r *Registry) commit(user string, changes []store.Change) error {
	if err := r.store.Apply(changes...); err != nil {
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "storing failed: writing the registered MCP servers: %w", err)
	}
	r.mu.Lock()
	for _, c := range changes {
		r.reload(c.Bucket, c.Key)
	}
	r.mu.Unlock()
	if r.changed != nil {
		r.changed(user)
	}
	return nil
}
