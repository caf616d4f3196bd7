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
	"pawl.dev/services/identity"

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

// Book holds the named models. It is safe for concurrent use.
type Book struct {
	list []*Model // the default first
	web  *http.Client

	mu   sync.Mutex
	busy map[string]int // guarded by mu; requests by user
}

// Model is a named model. It bounds what is asked of the provider's model and names itself in errors, which are *errs.Error.
type Model struct {
	llm.Model
	book    *Book
	info    llm.Info
	timeout time.Duration
	slots   chan struct{}
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.info }

// None returns a book without models.
func None() *Book { return newBook() }

func newBook() *Book { return &Book{web: wire.NewClient(), busy: make(map[string]int)} }

// Close closes connections that wait for further requests. Call it when no request is running.
func (b *Book) Close() { b.web.CloseIdleConnections() }

// List returns the models, the default first.
func (b *Book) List() []*Model { return b.list }

func (b *Book) find(name string) *Model {
	for _, n := range b.list {
		if n.info.Name == name {
			return n
		}
	}
	return nil
}

// Find returns the model of that name.
func (b *Book) Find(name string) (*Model, error) {
	if m := b.find(name); m != nil {
		return m, nil
	}
	return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
		"there is no model %.100q that can be asked as it is; there are %s", name, strings.Join(b.names(), ", "))
}

// Choose returns the model of a name; without one, the first that a hint fits; else the default. A hint fits what it is a part of: the
// name that the file gives a model, or the provider's.
func (b *Book) Choose(name string, hints []string) (*Model, error) {
	if len(b.list) == 0 {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
			"no language model is configured: `offline` and `playbook` work out plans, and cannot answer by themselves. "+
				"An operator names models in a file (docs/models.md) and gives it to the planner as --models FILE or PAWL_MODELS")
	}
	if name != "" {
		return b.Find(name)
	}
	for _, hint := range hints {
		hint = strings.ToLower(strings.TrimSpace(hint))
		for _, n := range b.list {
			if hint != "" && (strings.Contains(strings.ToLower(n.info.Name), hint) || strings.Contains(strings.ToLower(n.info.ProviderModel), hint)) {
				return n, nil
			}
		}
	}
	return b.list[0], nil
}

func (b *Book) names() []string {
	names := make([]string, 0, len(b.list))
	for _, n := range b.list {
		names = append(names, n.info.Name)
	}
	return names
}

// errTooLong ends an answer without end.
var errTooLong = errors.New("the answer is too long")

// Generate implements llm.Model. The caller's identity decides whose limit counts.
func (m *Model) Generate(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	reply := &llm.Reply{Name: m.info.Name}
	if err := checkSize(r); err != nil {
		return reply, err
	}
	leave, err := m.book.enter(userOf(ctx))
	if err != nil {
		return reply, err
	}
	defer leave()
	limited, cancel := context.WithTimeoutCause(ctx, m.timeout, errs.New(codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
		"the model %q took longer than %v; ask for less, or raise its `timeout`", m.info.Name, m.timeout))
	defer cancel()
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-limited.Done():
		return reply, context.Cause(limited)
	}
	if ctx.Err() != nil { // the caller left while waiting
		return reply, context.Cause(ctx)
	}
	bounded := *r
	if r.MaxTokens <= 0 || r.MaxTokens > m.info.MaxTokens {
		bounded.MaxTokens = m.info.MaxTokens
	}
	left := maxOutput
	reply, err = m.Model.Generate(limited, &bounded, func(d llm.Delta) error {
		if left -= d.Size(); left < 0 {
			return errTooLong
		}
		if onDelta == nil {
			return nil
		}
		return onDelta(d)
	})
	reply.Name = m.info.Name
	reply.Usage = reply.Usage.PricedBy(m.info.Price)
	return reply, m.explain(err)
}

// userOf returns the caller's user, "" if the call has none.
func userOf(ctx context.Context) string {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return ""
	}
	return p.Sub
}

// explain names the model in an error of its provider.
func (m *Model) explain(err error) error {
	var e *llm.Error
	switch {
	case errors.Is(err, errTooLong):
		e = &llm.Error{Class: llm.Broken, Message: fmt.Sprintf("its answer has more than %d MiB", maxOutput>>20)}
	case !errors.As(err, &e):
		return err
	}
	return e.Public(m.info.Name)
}

func checkSize(r *llm.Request) error {
	size := len(r.System)
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			size += len(p.Text) + len(p.Data) + len(p.Call.Arguments) + len(p.Result.Text)
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
