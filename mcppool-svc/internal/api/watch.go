package api

import (
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// watchProbe is the time between probes of watched connections, to notice a server that ended without closing its connection.
const watchProbe = 15 * time.Second

// WatchMcpServers implements McpPoolService.
func (s *Server) WatchMcpServers(req *mcppoolv1.WatchMcpServersRequest, stream grpc.ServerStreamingServer[mcppoolv1.WatchMcpServersResponse]) error {
	p, err := identity.FromContext(stream.Context())
	if err != nil {
		return err
	}
	watcher, err := s.hub.Watch(p.Sub)
	if err != nil {
		return err
	}
	defer watcher.Close()
	for _, id := range req.GetIds() {
		if _, err := s.Registry.Lookup(p.Sub, id); err != nil {
			return err
		}
	}
	s.Pool.Wake(p.Sub)
	v := view{s: s, p: p, ids: req.GetIds(), sent: make(map[string]*mcppoolv1.WatchMcpServersResponse), send: stream.Send}
	probe := time.NewTicker(watchProbe)
	defer probe.Stop()
	for changed := func(string) bool { return true }; ; changed = watcher.Take() {
		if err := v.update(changed); err != nil {
			return err
		}
		select {
		case <-probe.C:
			s.Pool.Probe(stream.Context(), p.Sub, v.servers()...) // a change notifies the watcher
		case <-watcher.wake:
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-s.stopping:
			return errStopping()
		}
	}
}

// Stop ends the streams of WatchMcpServers and SubscribeResource, which would not end by themselves.
func (s *Server) Stop() { s.stop() }

func errStopping() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "the MCP pool is stopping; subscribe again later")
}

// Touch notifies watchers that a server changed for a user.
func (s *Server) Touch(uid, user string) { s.hub.Touch(uid, user) }

// view is the state of a WatchMcpServers stream: the servers as last sent.
type view struct {
	s    *Server
	p    identity.Principal
	ids  []string                                      // empty: all
	sent map[string]*mcppoolv1.WatchMcpServersResponse // the last response for each server
	send func(*mcppoolv1.WatchMcpServersResponse) error
}

// update sends the servers that changed since they were last sent.
func (v *view) update(changed func(uid string) bool) error {
	visible := make(map[string]bool, len(v.sent))
	for _, server := range v.servers() {
		visible[server.ID] = true
		if _, sent := v.sent[server.ID]; sent && !changed(server.UID) {
			continue
		}
		if err := v.show(server); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.sent)) {
		if visible[id] {
			continue
		}
		delete(v.sent, id)
		gone := &mcppoolv1.WatchMcpServersResponse{McpServer: &mcppoolv1.McpServer{Id: id}, Removed: true}
		if err := v.send(gone); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) servers() []*registry.Server {
	all := v.s.Registry.Visible(v.p.Sub)
	if len(v.ids) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(s *registry.Server) bool { return !slices.Contains(v.ids, s.ID) })
}

func (v *view) show(server *registry.Server) error {
	m := &mcppoolv1.WatchMcpServersResponse{McpServer: v.s.show(v.p, server), ToolsVersion: v.s.Pool.Status(server, v.p.Sub).Tools}
	if proto.Equal(v.sent[server.ID], m) {
		return nil
	}
	v.sent[server.ID] = m
	return v.send(m)
}

const (
	// maxChanged bounds the changed servers that a watcher remembers; after that, all count as changed.
	maxChanged = 1_000
	// maxStreams bounds a user's open subscriptions to servers and resources.
	maxStreams = 200
)

// hub notifies watchers. It is safe for concurrent use.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{} // guarded by mu
}

func newHub() *hub { return &hub{watchers: make(map[*watcher]struct{})} }

// watcher is notified of changes that concern its user. Close it when done.
type watcher struct {
	hub  *hub
	user string
	wake chan struct{} // of size 1; receives a value when a server changes

	changed map[string]bool // guarded by the hub's mu; UIDs of the changed servers; "" means all
}

// Watch returns a watcher for a user, or an error if the user has too many subscriptions.
func (h *hub) Watch(user string) (*watcher, error) {
	w := &watcher{hub: h, user: user, wake: make(chan struct{}, 1), changed: make(map[string]bool)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count(user) >= maxStreams {
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"you have %d subscriptions open; close one first", maxStreams)
	}
	h.watchers[w] = struct{}{}
	return w, nil
}

// Watches reports whether a user, or any user if user is empty, has a watcher.
func (h *hub) Watches(user string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count(user) > 0
}

// count returns the number of watchers of a user, or of all users if user is empty. Called with mu held.
func (h *hub) count(user string) (n int) {
	for w := range h.watchers {
		if user == "" || w.user == user {
			n++
		}
	}
	return n
}

// Touch notifies watchers that a server changed for a user (empty uid: any server; empty user: all users). It never blocks.
func (h *hub) Touch(uid, user string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if user == "" || w.user == user {
			w.touch(uid)
		}
	}
}

func (w *watcher) touch(uid string) {
	if len(w.changed) >= maxChanged {
		uid = ""
	}
	w.changed[uid] = true
	select {
	case w.wake <- struct{}{}:
	default: // it is notified already
	}
}

// Take returns a function that reports whether a server changed between the last Take and this one.
func (w *watcher) Take() (hasChanged func(uid string) bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	changed := w.changed
	w.changed = make(map[string]bool)
	return func(uid string) bool { return changed[""] || changed[uid] }
}

// Close removes the watcher.
func (w *watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	delete(w.hub.watchers, w)
}
