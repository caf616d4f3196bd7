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

// Release gives the task's connections back (A23): when the task is left, or now where it was.
func (s *Session) Release(ctx context.Context) {
	s.mu.Lock()
	s.released = true
	parted := s.parted
	s.mu.Unlock()
	if parted {
		s.part(ctx)
	}
}

// Leave gives up the session's streams, and tells the pools what they were not told yet: which results are durable and, where the task has
// ended, that it needs its connections no more. Failing to costs nothing: a pool forgets, and closes what is idle, by itself after a
// while.
func (s *Session) Leave(ctx context.Context) {
	lanes := s.leaveLanes()
	s.part(ctx)
	ctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	for _, l := range lanes {
		l.ends(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drop != nil {
		s.drop()
	}
}

// part tells the pools the last of a session.
func (s *Session) part(ctx context.Context) {
	ctx, cancel := context.WithTimeout(s.asUser(ctx), leaveLimit)
	defer cancel()
	s.mu.Lock()
	released := s.released
	s.parted = true
	late := released && s.r.cfg.Replicas == nil && s.tools.releasedLate()
	s.mu.Unlock()
	if late {
		s.r.ended(ctx, ending{user: s.head.GetUserSub(), session: s.id, acks: s.takeAcks("")})
		return
	}
	for _, w := range s.pools() {
		tell := s.parting(released, s.takeAcks(w.pool))
		if tell == nil {
			continue
		}
		if err := s.atPool(ctx, w, tell); err != nil {
			s.log.WarnContext(ctx, "telling the pool what ended", "error", err)
		}
	}
}

// parting is the last that a pool is told of a session; nil where that is nothing.
func (s *Session) parting(released bool, acks []string) func(context.Context, mcppoolv1.McpPoolServiceClient, ...grpc.CallOption) error {
	switch {
	case released:
		return func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, o ...grpc.CallOption) error {
			_, err := pool.ReleaseSession(ctx, &mcppoolv1.ReleaseSessionRequest{SessionId: s.id, AckCallIds: acks}, o...)
			return err
		}
	case len(acks) > 0:
		return func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, o ...grpc.CallOption) error {
			_, err := pool.AckCall(ctx, &mcppoolv1.AckCallRequest{CallIds: acks}, o...)
			return err
		}
	}
	return nil
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
	if r := s.call; r != nil && r.ordinal == c.Ordinal && r.attempt == c.Attempt && r.leg == c.Leg {
		s.acks = append(s.acks, ack{call: r.id, where: r.at})
		return
	}
	s.acks = append(s.acks, ack{call: flow.LegID(s.id, c.Ordinal, c.Attempt, c.Leg)})
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
