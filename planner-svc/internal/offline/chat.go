package offline

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/rank"
	"pawl.dev/planner-svc/internal/result"
)

// goalOf returns the task's goal. From a message of a conversation it removes the words that address the agent: `@helper`, and `helper,` or `helper:` at its
// beginning.
func goalOf(tc *plannerv1.TaskContext) string {
	if tc.GetAgentName() == "" {
		return tc.GetGoal()
	}
	name := regexp.QuoteMeta(tc.GetAgentName())
	return strings.TrimSpace(regexp.MustCompile(`(?i)@`+name+`[,:，：]?($|[^a-z0-9_.-])|^\s*`+name+`\s*[,:，：]`).ReplaceAllString(tc.GetGoal(), "$1"))
}

// Decide replies to a message that names the agent, and is silent otherwise.
func (*Planner) Decide(_ context.Context, req *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error) {
	tc := req.GetContext()
	l := prompt.LangOf(tc)
	named := regexp.MustCompile(`(?i)(?:^|[^a-z0-9])` + regexp.QuoteMeta(tc.GetAgentName()) + `(?:$|[^a-z0-9])`)
	if tc.GetAgentName() != "" && named.MatchString(tc.GetGoal()) {
		return &plannerv1.DecideResponse{Decision: plannerv1.Decision_DECISION_REPLY, Reason: l.Pick("The message names the agent.", "消息提到了该智能体。"), Usage: &commonv1.Usage{}}, nil
	}
	return &plannerv1.DecideResponse{Decision: plannerv1.Decision_DECISION_SILENT, Usage: &commonv1.Usage{},
		Reason: l.Pick("The message does not name the agent. Without a language model, that is all there is to decide by.", "消息没有提到该智能体；没有语言模型时，只能据此判断。")}, nil
}

// SelectTools chooses the next call for the message.
func (*Planner) SelectTools(ctx context.Context, req *plannerv1.SelectToolsRequest) (*plannerv1.SelectToolsResponse, error) {
	res := &plannerv1.SelectToolsResponse{Usage: &commonv1.Usage{}}
	if next := newWork(ctx, req.GetContext()).next; next != nil {
		res.Steps = append(res.Steps, next)
	}
	return res, nil
}

// maxRanked is how many tools RankTools returns by default.
const maxRanked = 8

// RankTools returns the tools that match a text, best first.
func (*Planner) RankTools(req *plannerv1.RankToolsRequest) *plannerv1.RankToolsResponse {
	res := &plannerv1.RankToolsResponse{}
	for _, hit := range rank.Search([]*rank.Index{rank.New(req.GetTools())}, req.GetQuery()) {
		if res.ToolIds = append(res.ToolIds, hit.Tool.GetId()); len(res.GetToolIds()) == int(cmp.Or(req.GetLimit(), maxRanked)) {
			break
		}
	}
	return res
}

// Respond makes the calls that the message needs, one at a time, and replies when their results are there. The message that asks for a call says again what is to be
// done.
func (*Planner) Respond(ctx context.Context, req *plannerv1.RespondRequest) (*plannerv1.RespondResponse, error) {
	w := newWork(ctx, req.GetContext())
	if w.next != nil && !req.GetMustComplete() {
		return &plannerv1.RespondResponse{Decision: plannerv1.RespondDecision_RESPOND_DECISION_CONTINUE, NextCall: w.next, Text: goalOf(w.tc), Usage: &commonv1.Usage{}}, nil
	}
	paragraphs, _ := w.answer("")
	if len(req.GetErrors()) > 0 {
		paragraphs = w.explain(req.GetErrors())
	}
	text, err := w.sign(paragraphs, nil)
	return &plannerv1.RespondResponse{Decision: plannerv1.RespondDecision_RESPOND_DECISION_COMPLETE, Text: text, Usage: &commonv1.Usage{}}, err
}

// SummarizeMemory shortens each step and each message. A conversation needs no summary, because the planner reads only its newest message.
func (*Planner) SummarizeMemory(_ context.Context, req *plannerv1.SummarizeMemoryRequest) (*plannerv1.SummarizeMemoryResponse, error) {
	const maxText = 500 // characters
	res := &plannerv1.SummarizeMemoryResponse{Usage: &commonv1.Usage{}}
	if req.GetContextShare() > 0 {
		return res, nil
	}
	tc := req.GetContext()
	l := prompt.LangOf(tc)
	var lines []string
	if m := tc.GetMemory(); m != nil {
		lines = append(lines, lang.Clip(m.GetSummary(), 2*maxText))
	}
	for _, e := range tc.GetHistory() {
		text := e.GetToolId() + l.Pick(": ", "：")
		if r := result.Of(e); r.OK() {
			text += r.Text()
		} else {
			text += (&work{l: l}).failureText(e)
		}
		lines = append(lines, lang.Clip(strings.TrimSpace(text), maxText))
	}
	for _, m := range req.GetMessages() {
		for _, part := range m.GetParts() {
			lines = append(lines, lang.Clip(part.GetText(), maxText))
		}
	}
	res.Summary = strings.Join(lines, "\n")
	return res, nil
}

// explain writes what the calls gave, if there were any, the errors, and what people can do about them.
func (w *work) explain(errors []string) (paragraphs []string) {
	if len(w.tc.GetHistory()) > 0 {
		paragraphs, _ = w.answer("")
	}
	return append(append(paragraphs, errors...), w.l.Pick("The offline planner, which uses no language model, cannot say more about the cause. Whoever added the agent can look at the server with `pawl mcp list`, and ask again once it works.",
		"离线规划器不使用语言模型，无法进一步说明原因。添加该智能体的用户可以用 `pawl mcp list` 查看服务器，待其恢复后再次提问。"))
}
