package api

import (
	"sync"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/services/errs"
)

// maxStreams is how many subscriptions, of servers and resources, a user may have open at once.
const maxStreams = 200

// streams counts the subscriptions of users.
type streams struct {
	mu   sync.Mutex
	open map[string]int // guarded by mu
}

func newStreams() *streams { return &streams{open: make(map[string]int)} }

// enter counts a subscription until leave.
func (s *streams) enter(user string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[user] >= maxStreams {
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"you have %d subscriptions open; close one first", maxStreams)
	}
	s.open[user]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[user]--; s.open[user] == 0 {
			delete(s.open, user)
		}
	}, nil
}

// Stop ends all subscriptions: they would not end by themselves.
func (s *Server) Stop() { s.stop() }

func errStopping() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "the MCP pool is stopping; subscribe again later")
}
