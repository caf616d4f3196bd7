package models

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

const (
	// perUser is how many requests of one user are dealt with at once, those included that wait for the model.
	perUser = 16
	// maxText bounds a whole request, and maxOutput an answer; in bytes.
	maxText   = 16 << 20
	maxOutput = 4 << 20
)

// Book holds the named models. It may be used by several goroutines.
type Book struct {
	list []*Named // the default first
	web  *http.Client

	mu   sync.Mutex
	busy map[string]int // guarded by mu; requests by user
}

// Named is one named model.
type Named struct {
	Name, Description string

	providers string // the provider's name of it
	model     llm.Model
	maxTokens int
	timeout   time.Duration
	slots     chan struct{}
}

// None is a book without models.
func None() *Book { return newBook() }

func newBook() *Book { return &Book{web: wire.NewClient(), busy: make(map[string]int)} }

// Close closes connections that wait for further requests. Call it when no request is running.
func (b *Book) Close() { b.web.CloseIdleConnections() }

// List returns the models, the default first.
func (b *Book) List() []*Named { return b.list }

func (b *Book) find(name string) *Named {
	for _, n := range b.list {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Choose returns the model of a name; without one, the first that a hint fits; else the default. A hint fits what it is a part of: the
// name that the file gives a model, or the provider's.
func (b *Book) Choose(name string, hints []string) (*Named, error) {
	if len(b.list) == 0 {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
			"no language model is configured: `offline` and `playbook` work out plans, and cannot answer by themselves. "+
				"An operator names models in a file (docs/models.md) and gives it to the planner as --models FILE or PAWL_MODELS")
	}
	if name != "" {
		if n := b.find(name); n != nil {
			return n, nil
		}
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
			"there is no model %.100q that can be asked as it is; there are %s", name, strings.Join(b.names(), ", "))
	}
	for _, hint := range hints {
		hint = strings.ToLower(strings.TrimSpace(hint))
		for _, n := range b.list {
			if hint != "" && (strings.Contains(strings.ToLower(n.Name), hint) || strings.Contains(strings.ToLower(n.providers), hint)) {
				return n, nil
			}
		}
	}
	return b.list[0], nil
}

func (b *Book) names() []string {
	names := make([]string, 0, len(b.list))
	for _, n := range b.list {
		names = append(names, n.Name)
	}
	return names
}

// errTooLong ends an answer without end.
var errTooLong = errors.New("the answer is too long")

// Generate asks a model for a user, within the model's bounds. Errors are *errs.Error, the end of ctx, or what emit said.
func (b *Book) Generate(ctx context.Context, n *Named, user string, r *llm.Request, emit func(string) error) (llm.Reply, error) {
	if err := checkSize(r); err != nil {
		return llm.Reply{}, err
	}
	leave, err := b.enter(user)
	if err != nil {
		return llm.Reply{}, err
	}
	defer leave()
	limited, cancel := context.WithTimeoutCause(ctx, n.timeout, errs.New(codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
		"the model %q took longer than %v; ask for less, or raise its `timeout`", n.Name, n.timeout))
	defer cancel()
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-limited.Done():
		return llm.Reply{}, context.Cause(limited)
	}
	if ctx.Err() != nil { // the turn came just when nobody wants the answer any more
		return llm.Reply{}, context.Cause(ctx)
	}
	if r.MaxTokens <= 0 || r.MaxTokens > n.maxTokens {
		r.MaxTokens = n.maxTokens
	}
	left := maxOutput
	reply, err := n.model.Generate(limited, r, func(text string) error {
		if left -= len(text); left < 0 {
			return errTooLong
		}
		return emit(text)
	})
	return reply, n.explain(err)
}

// explain names the model in what it failed with.
func (n *Named) explain(err error) error {
	var f *llm.Failure
	switch {
	case errors.Is(err, errTooLong):
		f = &llm.Failure{Problem: llm.Broken, Message: fmt.Sprintf("its answer has more than %d MiB", maxOutput>>20)}
	case !errors.As(err, &f):
		return err
	}
	return f.Explain(n.Name)
}

func checkSize(r *llm.Request) error {
	size := len(r.System)
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			size += len(p.Text) + len(p.Data)
		}
	}
	if size > maxText {
		return errs.TooLarge(int64(size), maxText)
	}
	return nil
}

// enter counts a request of a user, unless there are too many.
func (b *Book) enter(user string) (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy[user] >= perUser {
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"you have %d requests to models running; wait until one has ended", perUser)
	}
	b.busy[user]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.busy[user]--; b.busy[user] == 0 {
			delete(b.busy, user)
		}
	}, nil
}
