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

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/llm"
)

// session makes the model calls of one request within the task's budget and counts their usage. It is used by one goroutine.
type session struct {
	*Model
	info  llm.Info // of the model; its window shrinks if the provider finds a prompt too long
	tc    *plannerv1.TaskContext
	all   catalog.Set // the task's tools
	used  llm.Usage
	reply *llm.Reply // the last successful reply

	messages []*plannerv1.ChatMessage // the last messages of the conversation that prompts show

	hasPlan bool                      // the task has a plan: prompts show its older steps in one line each
	subtask *plannerv1.Subtask        // the subtask that the model works on; nil if it works on the goal
	others  []*plannerv1.SubtaskState // of the plan

	failures []*plannerv1.HistoryEntry // calls that the model must not make again, see repeatedFailures
}

// session makes the session of a request.
func (m *Model) session(ctx context.Context, tc *plannerv1.TaskContext) *session {
	info := m.model.Info()
	info.ContextWindow = cmp.Or(info.ContextWindow, unknownWindow)
	return &session{Model: m, info: info, tc: tc, all: catalog.FromContext(ctx, tc.GetTools()), messages: tc.GetMessages()}
}

// minReply is the shortest reply worth asking for, in tokens, if a budget leaves less than the model's maximum.
const minReply = 64

// generate reserves the call's budget, asks the model and counts the usage, also of a failed call.
func (s *session) generate(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	if err := s.reserve(r); err != nil {
		return nil, s.withUsage(err)
	}
	r.CacheKey = s.tc.GetTaskId()
	reply, err := s.model.Generate(ctx, r, onDelta)
	if reply != nil {
		s.used = s.used.Add(reply.Usage)
	}
	if err != nil {
		return nil, s.withUsage(err)
	}
	s.reply = reply
	return reply, nil
}

// reserve refuses a call that the task's budget does not cover, and limits the length of the reply and the repetitions of the call to the budget.
func (s *session) reserve(r *llm.Request) error {
	if r.MaxTokens <= 0 {
		r.MaxTokens = s.info.MaxTokens
	}
	promptTokens := uint64(tokensOf(r))
	if calls := s.tc.ModelCallsLeft; calls != nil {
		if s.used.Requests >= *calls {
			return s.budgetExceeded("no model call is left")
		}
		r.MaxRequests = *calls - s.used.Requests
	}
	if limit := s.tc.TokensLeft; limit != nil {
		tokens := *limit - min(*limit, s.used.Input+s.used.Output)
		if promptTokens > tokens {
			return s.budgetExceeded("the next prompt has about %d tokens, and %d are left", promptTokens, tokens)
		}
		if err := s.limitReply(r, tokens-promptTokens); err != nil {
			return err
		}
	}
	if cost := s.tc.CostNanoUsdLeft; cost != nil {
		return s.reserveCost(r, promptTokens, *cost)
	}
	return nil
}

func (s *session) reserveCost(r *llm.Request, promptTokens, nanoUSD uint64) error {
	promptCost, known := s.info.Price.Cost(llm.Usage{Input: promptTokens})
	if !known {
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
			"the task has a cost limit, and the model %q has no price; configure its `price`, choose another model, or drop the limit", s.info.Name)
	}
	r.MaxPrice = s.info.Price
	perToken, _ := s.info.Price.Cost(llm.Usage{Output: 1})
	left := llm.Money(min(nanoUSD, math.MaxInt64/1000))*1000 - s.used.Cost - promptCost
	switch {
	case left < 0:
		return s.budgetExceeded("the next prompt would cost more than is left")
	case perToken > 0:
		return s.limitReply(r, uint64(left/perToken))
	}
	return nil
}

// limitReply limits the reply to the tokens that are left after the prompt.
func (s *session) limitReply(r *llm.Request, tokens uint64) error {
	if tokens < minReply {
		return s.budgetExceeded("about %d tokens are left for the reply", tokens)
	}
	r.MaxTokens = int(min(tokens, uint64(cmp.Or(r.MaxTokens, math.MaxInt32))))
	return nil
}

func (s *session) budgetExceeded(format string, args ...any) error {
	return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED, "the task's budget does not suffice: "+format+
		"; the next request to the model %q was not sent. Start a new task, or fork this one, with a larger budget", append(args, s.info.Name)...)
}

// unusableReply returns the error after a number of tries, of which the last gave reply. Executors do not retry an error with this code.
func (s *session) unusableReply(tries int, problem string, reply *llm.Reply) error {
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
	return s.withUsage(e.With("last_reply", last))
}

// withUsage adds the session's usage to an error. It does not change errors of the caller's context, or errors before the first request to the model.
func (s *session) withUsage(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || s.used.Requests == 0 {
		return err
	}
	return errs.From(err).WithUsage(s.usage())
}

// usage returns the usage of the session's model calls so far.
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
