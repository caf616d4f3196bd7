package models

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/planner-svc/internal/llm"
)

const (
	// maxText bounds a whole request, and maxOutput a reply; in bytes.
	maxText   = 16 << 20
	maxOutput = 4 << 20
)

// Model is a named model. It bounds what is asked of the provider's model, asks the fallback if that fails, and names itself in errors,
// which are *errs.Error.
type Model struct {
	llm.Model
	book     *Book
	info     llm.Info
	timeout  time.Duration
	slots    chan struct{}
	fallback *Model // may be nil
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.info }

// Generate implements llm.Model. The caller's identity decides whose limit counts.
func (m *Model) Generate(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	if err := checkSize(r); err != nil {
		return &llm.Reply{Name: m.info.Name}, err
	}
	leave, err := m.book.enter(userOf(ctx))
	if err != nil {
		return &llm.Reply{Name: m.info.Name}, err
	}
	defer leave()
	var spent llm.Usage
	for {
		started := false
		reply, err := m.ask(ctx, r, func(d llm.Delta) error {
			started = true
			if onDelta == nil {
				return nil
			}
			return onDelta(d)
		})
		spent = spent.Add(reply.Usage)
		reply.Usage = spent
		var e *llm.Error
		if started || m.fallback == nil || !errors.As(err, &e) || !e.Temporary() {
			return reply, err
		}
		m = m.fallback
	}
}

// errTooLong ends a reply without end.
var errTooLong = errors.New("the answer is too long")

// ask asks the provider's model alone.
func (m *Model) ask(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	reply := &llm.Reply{Name: m.info.Name}
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
	bounded, err := m.bound(r)
	if err != nil {
		return reply, m.explain(err)
	}
	left := maxOutput
	reply, err = m.Model.Generate(limited, bounded, func(d llm.Delta) error {
		if left -= d.Size(); left < 0 {
			return errTooLong
		}
		return onDelta(d)
	})
	reply.Name = m.info.Name
	reply.Usage = reply.Usage.PricedBy(m.info.Price)
	return reply, m.explain(err)
}

// bound returns the request within what the model can do.
func (m *Model) bound(r *llm.Request) (*llm.Request, error) {
	if len(r.Tools) > 0 && !m.info.Tools {
		return nil, &llm.Error{Class: llm.BadRequest, Message: "it is configured with `tools: false`"}
	}
	bounded := *r
	if r.MaxTokens <= 0 || r.MaxTokens > m.info.MaxTokens {
		bounded.MaxTokens = m.info.MaxTokens
	}
	if m.info.Schema == llm.SchemaInPrompt {
		bounded.Output = nil
	}
	return &bounded, nil
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
	for _, t := range r.Tools {
		size += len(t.Description) + len(t.Parameters)
	}
	if size > maxText {
		return errs.TooLarge(int64(size), maxText)
	}
	return nil
}
