package runner

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// toolset is the tools of a task, in the order of their servers.
type toolset struct {
	tools  []*commonv1.Tool
	byID   map[string]*commonv1.Tool
	loaded *storagev1.ToolsLoaded
	// poolIDs names, by server, the pool that keeps its calls.
	poolIDs map[string]string
	// lists are those that it was made of, in the order of their servers; late are the ones that were not there yet.
	lists, late []*list
}

// toolset loads the tools once per session. Servers that cannot be used are skipped, and the event log says so (A2).
func (s *Session) toolset(ctx context.Context) (*toolset, error) {
	// Not under mu: loading may take long, and nothing else is to wait for it.
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	loaded := s.tools
	s.mu.Unlock()
	switch {
	case loaded != nil && !loaded.outdated():
		return loaded, nil
	case loaded != nil && !loaded.cutOff():
		return s.keepTools(assemble(loaded.lists)), nil
	}
	ids, err := s.servers(ctx)
	if err != nil {
		return nil, err
	}
	found := s.load(ctx, ids)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.keepTools(found), nil
}

// keepTools makes these the session's tools. A planner that was told of others is told all anew.
func (s *Session) keepTools(t *toolset) *toolset {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.base = t, ""
	return t
}

// forget makes the next use load the tools again; for a definition that has changed.
func (s *Session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.base, s.ahead = nil, "", nil
}

func (s *Session) servers(ctx context.Context) ([]string, error) {
	if ids := s.head.GetMcpIds(); len(ids) > 0 {
		return ids, nil
	}
	var ids []string
	req := &mcppoolv1.ListMcpServersRequest{PageSize: 1000, ActiveOnly: true}
	for {
		page, err := reached(ctx, s, func(ctx context.Context) (*mcppoolv1.ListMcpServersResponse, error) {
			return s.r.pool.ListMcpServers(ctx, req, patient)
		})
		if err != nil {
			return nil, err
		}
		for _, server := range page.GetMcpServers() {
			if !server.GetOnlyWhenNamed() {
				ids = append(ids, server.GetId())
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return ids, nil
		}
	}
}

func (s *Session) toolsOf(ctx context.Context, l *list) error {
	req := &mcppoolv1.ListToolsRequest{McpId: l.id, PageSize: 1000, SessionId: s.id}
	for {
		var at peer.Peer
		page, err := within(ctx, s, s.r.cfg.PoolPatience+startPatience, func(ctx context.Context) (*mcppoolv1.ListToolsResponse, error) {
			return s.r.pool.ListTools(s.toServer(ctx, l.id), req, patient, grpc.Peer(&at))
		})
		if err != nil {
			l.tools = nil
			return err
		}
		s.r.places.note(page.GetPoolId(), &at)
		s.use(where{page.GetPoolId(), l.id})
		l.poolID, l.lateRelease = page.GetPoolId(), page.GetLateRelease()
		if l.tools == nil {
			l.tools = page.GetTools()
		} else {
			l.tools = append(l.tools, page.GetTools()...)
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

// reached makes a call that only looks, and waits for a pool that is coming back.
func reached[T any](ctx context.Context, s *Session, call func(context.Context) (T, error)) (T, error) {
	return within(ctx, s, s.r.cfg.PoolPatience, call)
}

// startPatience is how much longer than for the pool is waited for one of its servers: the pool says first, and better, what is wrong
// with one that does not start.
const startPatience = 30 * time.Second

func within[T any](ctx context.Context, s *Session, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(s.asUser(ctx), limit)
	defer cancel()
	for {
		res, err := call(ctx)
		// A connection that broke under the call says nothing else; what the pool itself says has another reason.
		if err == nil || errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR || ctx.Err() != nil {
			return res, err
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return res, err
		}
	}
}

// problem says what of an input does not fit a tool's schema; empty where it fits. A schema that cannot be read is left
// to the pool, which names the tool's fault.
func problem(tool *commonv1.Tool, input string) string {
	compiled, err := schema.Compile(tool.GetInputSchemaJson())
	if err != nil {
		return ""
	}
	if err := compiled.Validate(input); err != nil {
		return err.Error()
	}
	return ""
}
