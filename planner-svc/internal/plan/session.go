package plan

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/llm"
)

// session makes the model calls of one request within the task's budget and counts what they cost. It is used by one goroutine.
type session struct {
	*Model
	info  llm.Info // of the model; its window shrinks if the provider finds a prompt too long
	tc    *plannerv1.TaskContext
	used  llm.Usage
	reply *llm.Reply // the last successful one
}

// session begins the model calls of a request.
func (m *Model) session(tc *plannerv1.TaskContext) *session {
	return &session{Model: m, info: m.model.Info(), tc: tc}
}

// minReply is the shortest reply worth asking for, in tokens, if a budget leaves less than the model's maximum.
const minReply = 64

// generate reserves the call's budget, asks the model and counts the usage, also of a failed call.
func (s *session) generate(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	if err := s.reserve(r); err != nil {
		return nil, s.fail(err)
	}
	r.CacheKey = s.tc.GetTaskId()
	reply, err := s.model.Generate(ctx, r, onDelta)
	if reply != nil {
		s.used = s.used.Add(reply.Usage)
	}
	if err != nil {
		return nil, s.fail(err)
	}
	s.reply = reply
	return reply, nil
}

// reserve refuses a call that the task's budget does not cover, and limits the reply and the repetitions of the call to the rest of the budget.
func (s *session) reserve(r *llm.Request) error {
	if r.MaxTokens <= 0 {
		r.MaxTokens = s.info.MaxTokens
	}
	prompt := uint64(tokensOf(r))
	if left := s.tc.ModelCallsLeft; left != nil {
		if s.used.Requests >= *left {
			return s.exceeded("no model call is left")
		}
		r.MaxRequests = *left - s.used.Requests
	}
	if left := s.tc.TokensLeft; left != nil {
		rest := *left - min(*left, s.used.Input+s.used.Output)
		if prompt > rest {
			return s.exceeded("the next prompt has about %d tokens, and %d are left", prompt, rest)
		}
		if err := s.bound(r, rest-prompt); err != nil {
			return err
		}
	}
	if left := s.tc.CostNanoUsdLeft; left != nil {
		return s.reserveCost(r, prompt, *left)
	}
	return nil
}

func (s *session) reserveCost(r *llm.Request, prompt, leftNano uint64) error {
	base, known := s.info.Price.Cost(llm.Usage{Input: prompt})
	if !known {
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
			"the task has a cost limit, and the model %q has no price; configure its `price`, choose another model, or drop the limit", s.info.Name)
	}
	r.MaxPrice = s.info.Price
	perToken, _ := s.info.Price.Cost(llm.Usage{Output: 1})
	left := llm.Money(min(leftNano, math.MaxInt64/1000))*1000 - s.used.Cost - base
	switch {
	case left < 0:
		return s.exceeded("the next prompt would cost more than is left")
	case perToken > 0:
		return s.bound(r, uint64(left/perToken))
	}
	return nil
}

// bound limits the reply to the tokens that are left after the prompt.
func (s *session) bound(r *llm.Request, left uint64) error {
	if left < minReply {
		return s.exceeded("about %d tokens are left for the reply", left)
	}
	r.MaxTokens = int(min(left, uint64(cmp.Or(r.MaxTokens, math.MaxInt32))))
	return nil
}

func (s *session) exceeded(format string, args ...any) error {
	return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED, "the task's budget does not suffice: "+format+
		"; the model %q was not asked. Start a new task, or fork this one, with a larger budget", append(args, s.info.Name)...)
}

// unusable returns the error after a number of tries that gave no usable reply; reply is the last one. Executors do not retry an error with this code,
// so that tries do not multiply.
func (s *session) unusable(tries int, problem string, reply *llm.Reply) error {
	const maxLast = 900 // bytes
	last := reply.Text
	for _, c := range reply.Calls {
		last += "\n" + c.GetName() + " " + c.GetInputJson()
	}
	if len(last) > maxLast {
		last = strings.ToValidUTF8(last[:maxLast], "") + " …"
	}
	e := errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
		"the model %q gave no usable reply in %d %s; the last one was wrong: %s. Try again, or choose another model", s.info.Name, tries, lang.Plural(tries, "try", "tries"), problem)
	return s.fail(e.With("last_reply", last))
}

// fail adds the session's usage to an error. Errors of the caller's context, and those before the first request to the model, stay as they are.
func (s *session) fail(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || s.used.Requests == 0 {
		return err
	}
	return errs.From(err).WithUsage(s.usage())
}

// usage returns what the session has cost so far.
func (s *session) usage() *commonv1.Usage { return UsageProto(s.used) }

// UsageProto converts a usage to its proto message. It rounds the cost up, and leaves an unknown cost out.
func UsageProto(u llm.Usage) *commonv1.Usage {
	out := &commonv1.Usage{InputTokens: u.Input, CachedInputTokens: u.CachedInput, OutputTokens: u.Output, ModelCalls: u.Requests}
	if cost, known := u.ExactCost(); known && u.Requests > 0 {
		out.CostNanoUsd = proto.Uint64(uint64(cost+999) / 1000)
	}
	return out
}

// tokensOf estimates the tokens of a request; the estimate is usually too high.
func tokensOf(r *llm.Request) int {
	const (
		each  = 4    // tokens that a message, part or tool takes besides its texts
		media = 1500 // tokens of a picture or sound
	)
	n := estimate(r.System)
	for _, t := range r.Tools {
		n += each + tokens(proto.Size(t))
	}
	for _, m := range r.Messages {
		n += each
		for _, p := range m.GetParts() {
			if n += each; p.GetImage() != nil || p.GetAudio() != nil {
				n += media
			} else {
				n += tokens(proto.Size(p))
			}
		}
	}
	if r.Output != nil {
		n += estimate(r.Output.Schema)
	}
	return n
}

// estimate returns about how many tokens a text has.
func estimate(text string) int { return tokens(len(text)) }

// tokens counts one token per 3 bytes: 3 letters of English, or one Chinese character.
func tokens(bytes int) int { return (bytes + 2) / 3 }
