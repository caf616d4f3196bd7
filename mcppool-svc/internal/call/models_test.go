package call

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// slow is a planner that answers when ready is closed.
type slow struct {
	plannerv1.PlannerServiceClient

	ready chan struct{}

	mu    sync.Mutex
	asked int // guarded by mu
}

func (s *slow) Generate(context.Context, *plannerv1.GenerateRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[plannerv1.GenerateResponse], error) {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	return &answer{ready: s.ready}, nil
}

func (s *slow) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

type answer struct {
	grpc.ClientStream

	ready chan struct{}
}

func (a *answer) Recv() (*plannerv1.GenerateResponse, error) {
	<-a.ready
	return nil, errs.New(codes.Unavailable, 0, "no model")
}

// TestSlowModelsOfSomeUsers: users whose model requests are slow keep no other user waiting. Their requests over the limit are refused
// with the reason, and they may ask again when the others have ended.
func TestSlowModelsOfSomeUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		planner := &slow{ready: make(chan struct{})}
		m := NewModels(planner)
		ask := func(user string) error {
			_, err := m.sample(t.Context(), user, &registry.Sampling{}, nil, mcp.Sample{})
			return err
		}
		const users, each = 4, 16
		var refused sync.Map
		for u := range users {
			for n := range each {
				go func() {
					if err := ask(fmt.Sprint("user", u)); err != nil && errs.From(err).Code == codes.ResourceExhausted {
						refused.Store([2]int{u, n}, err)
					}
				}()
			}
		}
		synctest.Wait()
		if got := planner.count(); got != users*maxRequestsPerUser {
			t.Errorf("%d requests are with the planner, want %d", got, users*maxRequestsPerUser)
		}
		n := 0
		refused.Range(func(_, err any) bool {
			n++
			e := errs.From(err.(error))
			if errs.ReasonName(e.Reason) != "LIMIT_REACHED" || !strings.Contains(e.Message, "8 model requests") {
				t.Errorf("refused: %v", e)
			}
			return true
		})
		if n != users*(each-maxRequestsPerUser) {
			t.Errorf("%d were refused", n)
		}
		before := planner.count()
		go func() { _ = ask("ann") }()
		synctest.Wait()
		if planner.count() != before+1 {
			t.Error("another user has to wait")
		}
		close(planner.ready)
		synctest.Wait()
		if err := ask("user0"); errs.From(err).Code != codes.Unavailable {
			t.Errorf("when they have ended: %v", err)
		}
		if len(m.users) != 0 || len(m.slots) != 0 {
			t.Errorf("still counted: %v, %d slots", m.users, len(m.slots))
		}
	})
}

// The cost of a call's model requests is known only if that of each is.
func TestUsage(t *testing.T) {
	priced := &commonv1.Usage{InputTokens: 3, OutputTokens: 2, ModelCalls: 1, CostNanoUsd: proto.Uint64(7)}
	unpriced := &commonv1.Usage{InputTokens: 1, ModelCalls: 2}
	for _, tt := range []struct {
		parts []*commonv1.Usage
		want  *commonv1.Usage
	}{
		{nil, nil}, {[]*commonv1.Usage{nil, {}}, nil},
		{[]*commonv1.Usage{priced, priced}, &commonv1.Usage{InputTokens: 6, OutputTokens: 4, ModelCalls: 2, CostNanoUsd: proto.Uint64(14)}},
		{[]*commonv1.Usage{priced, unpriced, priced}, &commonv1.Usage{InputTokens: 7, OutputTokens: 4, ModelCalls: 4}},
	} {
		u := &usage{}
		for _, c := range tt.parts {
			u.add(c)
		}
		if got := u.message(); !proto.Equal(got, tt.want) {
			t.Errorf("%v: %v", tt.parts, got)
		}
	}
}
