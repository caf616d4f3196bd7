package api

import (
	"maps"
	"slices"
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

// watchProbe is how often a watched connection is probed, to notice a server that died without closing it.
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
			return registryError(err, id)
		}
	}
	s.Pool.Wake(p.Sub)
	v := view{s: s, p: p, ids: req.GetIds(), seen: make(map[string]*mcppoolv1.WatchMcpServersResponse), send: stream.Send}
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

// Stop ends all subscriptions: they would not end by themselves.
func (s *Server) Stop() { s.stop() }

func errStopping() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "the MCP pool is stopping; subscribe again later")
}

// Touch notifies watchers that a server changed for a user.
func (s *Server) Touch(uid, user string) { s.hub.Touch(uid, user) }

// view is what a watcher has seen.
type view struct {
	s    *Server
	p    identity.Principal
	ids  []string                                      // empty: all
	seen map[string]*mcppoolv1.WatchMcpServersResponse // as sent last
	send func(*mcppoolv1.WatchMcpServersResponse) error
}

// update sends what changed since it was last sent.
func (v *view) update(changed func(uid string) bool) error {
	there := make(map[string]bool, len(v.seen))
	for _, server := range v.servers() {
		there[server.ID] = true
		if _, seen := v.seen[server.ID]; seen && !changed(server.UID) {
			continue
		}
		if err := v.show(server); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.seen)) {
		if there[id] {
			continue
		}
		delete(v.seen, id)
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
	if proto.Equal(v.seen[server.ID], m) {
		return nil
	}
	v.seen[server.ID] = m
	return v.send(m)
}
