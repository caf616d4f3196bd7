package runner

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/toolcall"
)

const (
	// maxAcks is how many acknowledgements one request may carry.
	maxAcks = 1000
	// largeOutput is the size from which a result is acknowledged at once. Until then the pool keeps it, and counts it against its budget of large
	// messages.
	largeOutput = 256 << 10
	// releaseTimeout bounds the requests that release a session.
	releaseTimeout = 5 * time.Second
	// releaseDelay is how long a released session waits for a call of the same user that can carry its release.
	releaseDelay = 250 * time.Millisecond
	// maxReleases bounds the sessions that wait to be released.
	maxReleases = 1000
	// maxReleasesPerCall bounds the releases that one call carries.
	maxReleasesPerCall = 100
)

// ack is a call with a durable result, and the replica of the MCP pool that still keeps the result.
type ack struct {
	location
	callID string
}

// Recorded notes that a call's result is durable. It acknowledges a large result to the pool; otherwise the next call does, or Leave.
func (s *Session) Recorded(ctx context.Context, c flow.Called) {
	s.noteRecorded(c)
	if len(c.Output)+len(c.Err.GetErrMsg()) >= largeOutput {
		s.Leave(ctx, false)
	}
}

func (s *Session) noteRecorded(c flow.Called) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := ack{callID: flow.CallID(s.id, c.Ordinal, c.Attempt, c.Round)}
	for lane, call := range s.calls {
		if call.id == a.callID {
			a.location = call.location
			delete(s.calls, lane)
		}
	}
	s.acks = append(s.acks, a)
}

// takeAcks removes and returns acknowledgements for a replica, at most as many as one request may carry.
func (s *Session) takeAcks(poolID string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	s.acks = slices.DeleteFunc(s.acks, func(a ack) bool {
		if len(ids) == maxAcks || s.r.cfg.Replicas != nil && a.poolID != poolID {
			return false
		}
		ids = append(ids, a.callID)
		return true
	})
	return ids
}

// Leave acknowledges durable results to the replicas of the MCP pool and, if the task has ended, releases the task's connections. If that fails, the replicas forget the results and close the idle connections after a while.
func (s *Session) Leave(ctx context.Context, ended bool) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	s.mu.Lock()
	later := ended && s.r.cfg.Replicas == nil && s.tools.mayReleaseLater()
	s.mu.Unlock()
	if later {
		s.r.releaseLater(ctx, []release{{user: s.head.GetUserSub(), session: s.id, acks: s.takeAcks("")}})
		return
	}
	for _, at := range s.locations() {
		acks := s.takeAcks(at.poolID)
		if !ended && len(acks) == 0 {
			continue
		}
		err := s.sendToReplica(ctx, at, func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, o ...grpc.CallOption) (err error) {
			if ended {
				_, err = pool.ReleaseSession(ctx, &mcppoolv1.ReleaseSessionRequest{SessionId: s.id, AckCallIds: acks}, o...)
			} else {
				_, err = pool.AckCall(ctx, &mcppoolv1.AckCallRequest{CallIds: acks}, o...)
			}
			return err
		})
		if err != nil {
			s.log.WarnContext(ctx, "the results could not be acknowledged to the MCP pool, or the session could not be released", "error", err)
		}
	}
}

// locations returns the replicas that keep something for the task, or one empty location if the pool has one replica.
func (s *Session) locations() []location {
	if s.r.cfg.Replicas == nil {
		return []location{{}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []location
	for _, poolID := range slices.Sorted(maps.Keys(s.used)) {
		all = append(all, location{poolID, s.used[poolID]})
	}
	return all
}

// mayReleaseLater reports whether all servers of the task allow a delayed release.
func (t *toolset) mayReleaseLater() bool {
	return t != nil && len(t.lists) > 0 && !slices.ContainsFunc(t.lists, func(l *toolcall.List) bool { return !l.Done() || l.Err != nil || !l.LateRelease })
}

// release is a session that the pool has to release.
type release struct {
	user, session string
	acks          []string
}

// releaseQueue holds releases until a call of the same user can carry them, which saves a request for each.
type releaseQueue struct {
	mu     sync.Mutex // guards the fields below
	queued []release
	timer  *time.Timer // set from the first add until takeAll
	closed bool

	flushing sync.Mutex // held while the queue is flushed
}

// add queues a release. It returns false if there is no room or the queue is closed. flush is called once the queue has waited for
// releaseDelay.
func (q *releaseQueue) add(e release, flush func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.queued) >= maxReleases {
		return false
	}
	q.queued = append(q.queued, e)
	if q.timer == nil {
		q.timer = time.AfterFunc(releaseDelay, flush)
	}
	return true
}

// take removes and returns the user's releases that a call with acks acknowledgements of its own can carry.
func (q *releaseQueue) take(user string, acks int) (taken []release) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued = slices.DeleteFunc(q.queued, func(e release) bool {
		if e.user != user || len(taken) == maxReleasesPerCall || acks+len(e.acks) > maxAcks {
			return false
		}
		acks += len(e.acks)
		taken = append(taken, e)
		return true
	})
	return taken
}

// takeAll removes and returns all releases.
func (q *releaseQueue) takeAll() []release {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timer != nil {
		q.timer.Stop()
	}
	all := q.queued
	q.queued, q.timer = nil, nil
	return all
}

// releaseLater queues releases, and sends at once those that do not fit into the queue.
func (r *Runner) releaseLater(ctx context.Context, releases []release) {
	for _, e := range releases {
		if !r.releases.add(e, r.flushReleases) {
			r.sendRelease(ctx, e)
		}
	}
}

// flushReleases sends the releases that no call carried.
func (r *Runner) flushReleases() {
	r.releases.flushing.Lock()
	defer r.releases.flushing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	for _, e := range r.releases.takeAll() {
		r.sendRelease(ctx, e)
	}
}

func (r *Runner) sendRelease(ctx context.Context, e release) {
	ctx, cancel := context.WithTimeout(identity.OnBehalfOf(ctx, e.user), releaseTimeout)
	defer cancel()
	_, err := r.pool.ReleaseSession(ctx, &mcppoolv1.ReleaseSessionRequest{SessionId: e.session, AckCallIds: e.acks})
	if err != nil {
		r.log.WarnContext(ctx, "the MCP pool's session could not be released", "task_id", e.session, "error", err)
	}
}
