package runner

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/executor-svc/internal/flow"
)

// mostAcks is how many calls a pool is told of at once.
const mostAcks = 1000

// leaveLimit bounds what is told to a pool when a task is left.
const leaveLimit = 5 * time.Second

// Release gives the task's connections back (A23). Failing to costs nothing: the pool closes idle ones by itself.
func (s *Session) Release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(s.asUser(ctx), leaveLimit)
	defer cancel()
	for _, w := range s.pools() {
		req := &mcppoolv1.ReleaseSessionRequest{SessionId: s.id, AckCallIds: s.takeAcks(w.pool)}
		err := s.atPool(ctx, w, func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, o ...grpc.CallOption) error {
			_, err := pool.ReleaseSession(ctx, req, o...)
			return err
		})
		if err != nil {
			s.log.WarnContext(ctx, "releasing the task's connections", "error", err)
		}
	}
}

// pools are those that have something of the task's; where there is one only, that.
func (s *Session) pools() []where {
	if s.r.cfg.Replicas == nil {
		return []where{{}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []where
	for _, pool := range slices.Sorted(maps.Keys(s.used)) {
		all = append(all, where{pool, s.used[pool]})
	}
	return all
}

// Recorded says that what came of a call is durable: the pool may forget it. It learns that with the next call, at the
// latest when the task is left.
func (s *Session) Recorded(c flow.Called) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := ack{call: flow.LegID(s.id, c.Ordinal, c.Attempt, c.Leg)}
	if s.call != nil && s.call.id == a.call {
		a.where = s.call.at
	}
	s.acks = append(s.acks, a)
}

// takeAcks returns what a pool is to be told, once, and no more than it takes at once. Where there is one pool only, all is for
// that.
func (s *Session) takeAcks(pool string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var acks []string
	s.acks = slices.DeleteFunc(s.acks, func(a ack) bool {
		if len(acks) == mostAcks || s.r.cfg.Replicas != nil && a.pool != pool {
			return false
		}
		acks = append(acks, a.call)
		return true
	})
	return acks
}

// Leave ends the session's streams, and tells the pools what they were not told yet. Failing to costs nothing: a pool forgets by itself after a while.
func (s *Session) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(s.asUser(ctx), leaveLimit)
	defer cancel()
	s.closeLanes(ctx)
	for _, w := range s.pools() {
		acks := s.takeAcks(w.pool)
		if len(acks) == 0 {
			continue
		}
		err := s.atPool(ctx, w, func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, o ...grpc.CallOption) error {
			_, err := pool.AckCall(ctx, &mcppoolv1.AckCallRequest{CallIds: acks}, o...)
			return err
		})
		if err != nil {
			s.log.WarnContext(ctx, "acknowledging calls", "error", err)
		}
	}
}
