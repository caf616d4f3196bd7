package models

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/planner-svc/internal/llm"
)

// maxText bounds a whole request, in bytes.
const maxText = 16 << 20

// Model is a named model. It bounds what is asked of the provider's model, asks the fallback if that fails, and names itself in errors,
// which are *errs.Error.
type Model struct {
	llm.Model
	book     *Book
	info     llm.Info
	advice   string // what to do if the key is rejected
	timeout  time.Duration
	slots    chan struct{}
	fallback *Model // may be nil
}

// model makes the model of an entry.
func (b *Book) model(e *entry) (*Model, error) {
	if e.Provider == llm.ProviderOllama && e.BaseURL == "" {
		e.BaseURL = ollamaDefault
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	credentials, err := b.credentials(e)
	if err != nil {
		return nil, err
	}
	timeout, err := e.timeout()
	info := e.info()
	return &Model{
		Model: llm.New(llm.Config{
			Info: info, BaseURL: e.BaseURL, Organization: e.Organization, Credentials: credentials, Retries: valueOr(e.Retries, defaultRetries), HTTP: b.web,
		}),
		book: b, info: info, advice: e.keyAdvice(), timeout: timeout, slots: make(chan struct{}, cmp.Or(e.AtOnce, defaultAtOnce)),
	}, err
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
		reply, err := m.ask(ctx, r, spent.Requests, func(d llm.Delta) error {
			started = true
			if onDelta == nil {
				return nil
			}
			return onDelta(d)
		})
		spent = spent.Add(reply.Usage)
		reply.Usage = spent
		var e *llm.Error
		if started || m.fallback == nil || spent.Requests == r.MaxRequests || !m.fallback.info.Price.Within(r.MaxPrice) || !errors.As(err, &e) || !e.Temporary() {
			return reply, err
		}
		m = m.fallback
	}
}

// ask asks the provider's model alone, after so many requests to others.
func (m *Model) ask(ctx context.Context, r *llm.Request, requests uint32, onDelta func(llm.Delta) error) (*llm.Reply, error) {
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
	bounded, err := m.bound(r, requests)
	began := time.Now()
	if err == nil {
		reply, err = m.Model.Generate(limited, bounded, onDelta)
	}
	reply.Name, reply.Usage = m.info.Name, reply.Usage.PricedBy(m.info.Price)
	m.book.metrics.record(ctx, &m.info, reply, began, err)
	var e *llm.Error
	if errors.As(err, &e) {
		if e.Class == llm.Auth {
			e.Advice = m.advice
		}
		err = e.Public(m.info.Name)
	}
	return reply, err
}

// bound returns the request within what the model can do and what is left after so many requests.
func (m *Model) bound(r *llm.Request, requests uint32) (*llm.Request, error) {
	if len(r.Tools) > 0 && !m.info.Tools {
		return nil, &llm.Error{Class: llm.BadRequest, Message: "it is configured with `tools: false`"}
	}
	if !m.info.Images && slices.ContainsFunc(r.Messages, func(one *plannerv1.ModelMessage) bool {
		return slices.ContainsFunc(one.GetParts(), func(p *plannerv1.ModelPart) bool { return p.GetImage() != nil })
	}) {
		return nil, &llm.Error{Class: llm.BadRequest, Message: "it is configured with `images: false`"}
	}
	bounded := *r
	if r.MaxTokens <= 0 || r.MaxTokens > m.info.MaxTokens {
		bounded.MaxTokens = m.info.MaxTokens
	}
	if m.info.Schema == llm.SchemaInPrompt {
		bounded.Output = nil
	}
	bounded.MaxRequests -= min(bounded.MaxRequests, requests)
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

func checkSize(r *llm.Request) error {
	size := len(r.System)
	for _, m := range r.Messages {
		size += proto.Size(m)
	}
	for _, t := range r.Tools {
		size += proto.Size(t)
	}
	if size > maxText {
		return errs.TooLarge(int64(size), maxText)
	}
	return nil
}
