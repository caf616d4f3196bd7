package models

import (
	"context"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/planner-svc/internal/llm"
)

// asked is a model that does what a test wants.
type asked func(ctx context.Context, emit func(llm.Delta) error) error

func (a asked) Info() llm.Info { return llm.Info{} }

func (a asked) Generate(ctx context.Context, _ *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	return &llm.Reply{}, a(ctx, onDelta)
}

func bookOf(atOnce int, m llm.Model) (*Book, *Model) {
	b := newBook("", os.Getenv)
	n := &Model{Model: m, book: b, info: llm.Info{Name: "it", MaxTokens: 10}, timeout: time.Minute, slots: make(chan struct{}, atOnce)}
	b.list = append(b.list, n)
	return b, n
}

func as(ctx context.Context, user string) context.Context {
	return identity.NewContext(ctx, identity.Principal{Sub: user})
}

// One user's requests are limited, those included that wait; another user's are not refused for them.
func TestLimitPerUser(t *testing.T) {
	running := make(chan struct{}, 1)
	b, n := bookOf(1, asked(func(ctx context.Context, _ func(llm.Delta) error) error {
		select {
		case running <- struct{}{}:
		default:
			t.Error("a model is asked for a caller who has left")
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range perUser + 1 {
		go func() {
			_, err := n.Generate(as(ctx, "ann"), &llm.Request{}, nil)
			ended <- err
		}()
	}
	<-running
	if e := errs.From(<-ended); e.Code != codes.ResourceExhausted || e.Reason != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED {
		t.Errorf("one too many: %v", e)
	}
	late, stop := context.WithCancel(t.Context())
	stop()
	if _, err := n.Generate(as(late, "bob"), &llm.Request{}, nil); errs.From(err).Code != codes.Canceled {
		t.Errorf("another user: %v", err)
	}
	cancel()
	for range perUser {
		<-ended
	}
	if len(b.busy) != 0 {
		t.Errorf("still counted: %v", b.busy)
	}
}
