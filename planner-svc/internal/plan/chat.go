package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
)

type decideAnswer struct {
	Decision, Reason, Question string
	DelegateTo                 string `json:"delegate_to"`
}

// Decide decides whether and how an agent responds to a message.
func (m *Model) Decide(ctx context.Context, req *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error) {
	return askAboutTask(ctx, m.session(ctx, req.GetContext()), "decide", req, func(a *decideAnswer, usage *commonv1.Usage) (*plannerv1.DecideResponse, error) {
		res := &plannerv1.DecideResponse{Decision: plannerv1.Decision(plannerv1.Decision_value["DECISION_"+a.Decision]), Reason: a.Reason, Usage: usage}
		switch res.GetDecision() {
		case plannerv1.Decision_DECISION_ASK_HUMAN:
			if res.Question = a.Question; strings.TrimSpace(a.Question) == "" {
				return nil, errors.New("`question` is missing")
			}
		case plannerv1.Decision_DECISION_DELEGATE:
			if res.DelegateTo = a.DelegateTo; !slices.Contains(req.GetAgents(), a.DelegateTo) {
				return nil, errors.New("`delegate_to` must be one of the agents")
			}
		}
		return res, nil
	})
}

// SelectTools chooses the next calls that a message needs. A call that needs the output of another one is left to a later request.
func (m *Model) SelectTools(ctx context.Context, req *plannerv1.SelectToolsRequest) (*plannerv1.SelectToolsResponse, error) {
	s := m.session(ctx, req.GetContext())
	t, err := s.takeTurn(ctx, prompt.Render("select_tools", s.tc, nil), &gate{})
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(t.steps, (*plannerv1.PlannedStep).GetUnresolved); i >= 0 {
		t.steps = t.steps[:i] // the next request, which has the results, chooses the others
	}
	return &plannerv1.SelectToolsResponse{Steps: t.steps, Usage: s.usage()}, nil
}

// respondAnswer is the model's answer to the page `respond`.
type respondAnswer struct {
	Decision     string
	NextToolCall *call `json:"next_tool_call"`
	Text         string
}

// Respond asks the model once for the next call or the reply to a message. An answer that is not the wanted JSON is the reply itself (B16). The model
// corrects a call that cannot be made.
func (m *Model) Respond(ctx context.Context, req *plannerv1.RespondRequest) (res *plannerv1.RespondResponse, err error) {
	s := m.session(ctx, req.GetContext())
	c := &conversation{session: s, tools: toolsOf(s), inJSON: true}
	for again := false; ; again = true {
		var listed []*plannerv1.ModelTool
		for _, tool := range c.tools.shown {
			listed = append(listed, modelTool(tool, true))
		}
		r := s.question(prompt.Render("system_respond", s.tc, listed), prompt.Render("respond", s.tc, req), s.outputBytes())
		compiled, err := s.expect(r, llm.Output{Name: "respond", Schema: prompt.Schema("respond")})
		if err != nil {
			return nil, err
		}
		err = s.askUntilValid(ctx, r, nil, func(reply *llm.Reply) ([]*plannerv1.ModelMessage, error) {
			answer, problem := decode[respondAnswer](compiled, reply)
			if problem != nil && !hasDecision(reply.Text) {
				answer, problem = &respondAnswer{Text: reply.Text + cutNote(s.tc, reply)}, nil
			}
			if problem == nil {
				res, problem = c.response(answer, req.GetMustComplete())
			}
			if problem == nil {
				return nil, nil
			}
			return s.correctJSON(reply, problem), problem
		})
		if err == nil {
			res.Usage = s.usage()
			return res, nil
		}
		if !s.shortens(again, r, err) {
			return nil, err
		}
	}
}

// hasDecision reports whether a text holds a JSON object with a decision.
func hasDecision(text string) bool {
	object := extractJSON(text)
	_, ok := strictjson.Member(object, "decision")
	return ok && json.Valid([]byte(object))
}

// response returns the response of an answer, or the problem with the answer. With mustComplete, a text that comes with a call is the reply.
func (c *conversation) response(a *respondAnswer, mustComplete bool) (*plannerv1.RespondResponse, error) {
	text := strings.TrimSpace(a.Text)
	if a.Decision != "continue" || mustComplete && text != "" {
		if text == "" {
			return nil, errors.New("`text`, the reply, is missing")
		}
		return &plannerv1.RespondResponse{Decision: plannerv1.RespondDecision_RESPOND_DECISION_COMPLETE, Text: text}, nil
	}
	switch {
	case mustComplete:
		return nil, errors.New("no further call can be made: write the reply")
	case a.NextToolCall == nil:
		return nil, errors.New("`next_tool_call` is missing")
	case c.all.Lookup(a.NextToolCall.Tool) == nil:
		return nil, c.unknownTool(a.NextToolCall.Tool)
	}
	next, _ := NextOrdinal(c.tc.GetHistory())
	step, err := c.plannedStep(a.NextToolCall, next, 0)
	if err != nil {
		return nil, err
	}
	return &plannerv1.RespondResponse{Decision: plannerv1.RespondDecision_RESPOND_DECISION_CONTINUE, NextCall: step, Text: cmp.Or(text, step.GetDescription())}, nil
}

// summarizeConversation summarizes the conversation's messages but the last keepLast, if the conversation takes more than this share of the model's window (B13).
func (s *session) summarizeConversation(ctx context.Context, share float64, keepLast int) (*plannerv1.SummarizeMemoryResponse, error) {
	covered := max(0, len(s.messages)-keepLast)
	if float64(estimate(s.goalPage(nil))) <= share*float64(s.info.ContextWindow) {
		covered = 0
	}
	var texts []string
	for _, m := range s.messages[:covered] {
		texts = append(texts, prompt.Line(m.GetSender())+":\n"+prompt.Fence(cut(m.GetText(), s.maxPrompt()))+"\n\n")
	}
	res := &plannerv1.SummarizeMemoryResponse{CoveredMessages: uint32(covered)}
	if covered > 0 {
		var err error
		if res.Summary, err = s.summarize(ctx, s.tc.GetConversationSummary(), texts); err != nil {
			return nil, err
		}
	}
	res.Usage = s.usage()
	return res, nil
}

// cut shortens a text to a number of bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + " […]"
}
