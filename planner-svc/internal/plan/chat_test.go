package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// message is a task about a message of ada to the agent helper, after n messages of length bytes.
func message(n, length int, history ...*plannerv1.HistoryEntry) *plannerv1.TaskContext {
	tc := task(history...)
	tc.Goal, tc.AgentName, tc.Speaker, tc.ConversationSummary = "What is in a.txt?", "helper", "ada", "They talked of ratchets."
	for i := range n {
		tc.Messages = append(tc.Messages, &plannerv1.ChatMessage{Sender: []string{"ada", "helper"}[i%2], FromSelf: i%2 == 1, Text: fmt.Sprintf("message %d%s", i, strings.Repeat(".", max(0, length-9)))})
	}
	return tc
}

// order checks that texts follow each other in a prompt.
func order(t *testing.T, prompt string, texts ...string) {
	t.Helper()
	at := 0
	for _, text := range texts {
		i := strings.Index(prompt[at:], text)
		if i < 0 {
			t.Fatalf("%q does not follow in:\n%s", text, prompt)
		}
		at += i + len(text)
	}
}

// B10: system prompt, summary, history, tool results and the user's message, and the reply as it is written.
func TestReply(t *testing.T) {
	for _, tools := range []bool{true, false} {
		f := native(says("It holds x."))
		f.info.Tools = tools
		var pieces []string
		res, err := planner(t, f).GenerateAnswer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: message(2, 0, done(1, "fs/read", `{"path":"a.txt"}`, "x"))}, func(s string) error {
			pieces = append(pieces, s)
			return nil
		})
		if err != nil || strings.Join(pieces, "") != "It holds x." || len(pieces) != 3 || res.GetUsage().GetModelCalls() != 1 {
			t.Errorf("%v %q %v", res, pieces, err)
		}
		order(t, show(f.requests[0]), "system\n", "You are helper", "They talked of ratchets.", "ada:\n<<<DATA", "message 0", "You:\n<<<DATA", "message 1", "step-1 succeeded", "from ada, to which you reply\nWhat is in a.txt?", "Write your reply")
	}
	// A server has failed.
	f := native(says("The server is down."))
	if _, err := planner(t, f).GenerateAnswer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: message(0, 0), ExplainError: true}, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	order(t, show(f.requests[0]), "They talked of ratchets.", "What is in a.txt?", "what failed, the likely cause")
}

// The prompts of a message begin alike, so that providers cache them, and a longer conversation continues the shorter one.
func TestPromptsOfAMessageBeginAlike(t *testing.T) {
	f := native(calls("fs__read", `{"path":"a.txt"}`), says("none"), says("x"))
	p, ctx := planner(t, f), t.Context()
	first, err := p.SelectTools(ctx, &plannerv1.SelectToolsRequest{Context: message(6, 50)})
	if err != nil || len(first.GetSteps()) != 1 {
		t.Fatal(first, err)
	}
	tc := message(6, 50, done(1, "fs/read", `{"path":"a.txt"}`, "x"))
	if _, err := p.SelectTools(ctx, &plannerv1.SelectToolsRequest{Context: tc}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.GenerateAnswer(ctx, &plannerv1.GenerateAnswerRequest{Context: tc}, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	head := func(i int, page string) string { text, _, _ := strings.Cut(show(f.requests[i]), page); return text }
	if a, b, c := head(0, "1\nCall all tools"), head(1, "1\nCall all tools"), head(2, "1\nThe message from"); !strings.HasPrefix(b, a) || b != c || len(a) < 1000 {
		t.Errorf("%s\n---\n%s\n---\n%s", a, b, c)
	}
}

// B8: calls that need another call's output wait for the next request.
func TestSelectToolsMakesIndependentCalls(t *testing.T) {
	res, err := planner(t, native(calls("fs__read", `{"path":"a"}`, "fs__write", `{"path":"b","content":"${step-1.message}"}`, "fs__read", `{"path":"c"}`))).
		SelectTools(t.Context(), &plannerv1.SelectToolsRequest{Context: message(0, 0)})
	if err != nil || len(res.GetSteps()) != 1 || res.GetSteps()[0].GetInputJson() != `{"path":"a"}` || res.GetUsage().GetModelCalls() != 1 {
		t.Errorf("%v %v", res, err)
	}
}

// B2: the model knows who speaks, and what was said.
func TestDecideKnowsTheConversation(t *testing.T) {
	f := native(says(`{"decision":"ASK_HUMAN","reason":"r","question":" "}`), says(`{"decision":"ASK_HUMAN","reason":"r","question":"Which file?"}`))
	res, err := planner(t, f).Decide(t.Context(), &plannerv1.DecideRequest{Context: message(2, 0), Agents: []string{"writer"}})
	if err != nil || res.GetDecision() != plannerv1.Decision_DECISION_ASK_HUMAN || res.GetQuestion() != "Which file?" || res.GetUsage().GetModelCalls() != 2 {
		t.Errorf("%v %v", res, err)
	}
	order(t, show(f.requests[0]), "You are helper", "message 1", "The newest message, from ada\nWhat is in a.txt?", "written by ada", "- writer")
}

// B16: one model call decides; an answer that is no JSON is the reply; only a call that cannot be made is corrected.
func TestRespond(t *testing.T) {
	const goOn, complete = plannerv1.RespondDecision_RESPOND_DECISION_CONTINUE, plannerv1.RespondDecision_RESPOND_DECISION_COMPLETE
	read := `{"decision":"continue","next_tool_call":{"tool":"fs__read","why":"To see it","risk":"LOW","input":{"path":"a.txt"}},"text":"I read a.txt."}`
	for name, tc := range map[string]struct {
		replies  []replyFunc
		must     bool
		decision plannerv1.RespondDecision
		tool     string
		text     string
	}{
		"a call":           {[]replyFunc{says("Sure: " + read)}, false, goOn, `fs/read {"path":"a.txt"}`, "I read a.txt."},
		"a reply":          {[]replyFunc{says(`{"decision":"complete","next_tool_call":null,"text":"It is empty."}`)}, false, complete, "", "It is empty."},
		"no JSON":          {[]replyFunc{says("It is **empty**.")}, false, complete, "", "It is **empty**."},
		"other JSON":       {[]replyFunc{says(`The file holds {"a": 1}.`)}, false, complete, "", `The file holds {"a": 1}.`},
		"broken JSON":      {[]replyFunc{says(`{"decision":"complete","text":"It i`)}, false, complete, "", `{"decision":"complete","text":"It i`},
		"an unknown tool":  {[]replyFunc{says(strings.Replace(read, "fs__read", "fs__raed", 1)), says(read)}, false, goOn, `fs/read {"path":"a.txt"}`, "I read a.txt."},
		"a wrong input":    {[]replyFunc{says(strings.Replace(read, "path", "pth", 1)), says(read)}, false, goOn, `fs/read {"path":"a.txt"}`, "I read a.txt."},
		"no call":          {[]replyFunc{says(`{"decision":"continue","text":""}`), says(read)}, false, goOn, `fs/read {"path":"a.txt"}`, "I read a.txt."},
		"must complete":    {[]replyFunc{says(read)}, true, complete, "", "I read a.txt."},
		"has to say it":    {[]replyFunc{says(strings.Replace(read, "I read a.txt.", "", 1)), says("It is empty.")}, true, complete, "", "It is empty."},
		"an earlier value": {[]replyFunc{says(strings.Replace(read, "a.txt\"}", "${step-1.message}\"}", 1))}, false, goOn, `fs/read {"path":"b.txt"}`, "I read a.txt."},
	} {
		f := native(tc.replies...)
		res, err := planner(t, f).Respond(t.Context(), &plannerv1.RespondRequest{Context: message(1, 0, done(1, "fs/read", `{"path":"x"}`, "b.txt")), MessageType: "result_msg", MustComplete: tc.must})
		got := strings.TrimSpace(res.GetNextCall().GetToolId() + " " + res.GetNextCall().GetInputJson())
		if err != nil || res.GetDecision() != tc.decision || got != tc.tool || res.GetText() != tc.text || int(res.GetUsage().GetModelCalls()) != len(tc.replies) {
			t.Errorf("%s: %v %v", name, res, err)
			continue
		}
		if tc.tool != "" && (res.GetNextCall().GetDescription() != "To see it" || res.GetNextCall().GetRisk().GetLevel() != commonv1.RiskLevel_RISK_LEVEL_LOW) {
			t.Errorf("%s: %v", name, res)
		}
		order(t, show(f.requests[0]), "You are helper", "fs__read", "They talked of ratchets.", "message 0", "What is in a.txt?", "step-1 succeeded", "result_msg")
	}
	_, err := planner(t, native(says(""), says(""), says(""))).Respond(t.Context(), &plannerv1.RespondRequest{Context: message(0, 0)})
	if e := errs.From(err); e == nil || e.Reason != commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR || e.Usage.GetModelCalls() != 3 {
		t.Errorf("empty replies: %v", err)
	}
}

// The budget of the task holds for messages too: nothing is asked that it does not cover.
func TestBudgetsOfMessages(t *testing.T) {
	tc := message(3, 1000)
	tc.ModelCallsLeft = proto.Uint32(0)
	p, ctx := planner(t, native()), t.Context()
	for name, ask := range map[string]func() error{
		"decide":  func() error { _, err := p.Decide(ctx, &plannerv1.DecideRequest{Context: tc}); return err },
		"select":  func() error { _, err := p.SelectTools(ctx, &plannerv1.SelectToolsRequest{Context: tc}); return err },
		"respond": func() error { _, err := p.Respond(ctx, &plannerv1.RespondRequest{Context: tc}); return err },
		"summarize": func() error {
			_, err := p.SummarizeMemory(ctx, &plannerv1.SummarizeMemoryRequest{Context: tc, ContextShare: 0.001})
			return err
		},
	} {
		if err := ask(); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// B13: a conversation over 0.8 of the window is summarized but for its last 5 messages; one that fits costs no model call.
func TestSummarizeConversation(t *testing.T) {
	ask := func(f *fakeModel, tc *plannerv1.TaskContext) *plannerv1.SummarizeMemoryResponse {
		f.info.ContextWindow = 10_000
		res, err := planner(t, f).SummarizeMemory(t.Context(), &plannerv1.SummarizeMemoryRequest{Context: tc, ContextShare: 0.8, KeepLast: 5})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for _, tc := range []*plannerv1.TaskContext{message(20, 1000), message(5, 10_000), message(0, 0)} {
		if res := ask(native(), tc); res.GetCoveredMessages() != 0 || res.GetSummary() != "" || res.GetUsage().GetModelCalls() != 0 {
			t.Errorf("%d messages: %v", len(tc.GetMessages()), res)
		}
	}
	f := native(says("half"), says("the rest"), says("more"), says("more"))
	res := ask(f, message(30, 1000))
	if n := len(f.requests); res.GetCoveredMessages() != 25 || n < 2 || res.GetSummary() != []string{"half", "the rest", "more"}[n-1] || int(res.GetUsage().GetModelCalls()) != n {
		t.Errorf("%d requests: %v", n, res)
	}
	order(t, show(f.requests[0]), "They talked of ratchets.", "ada:\n<<<DATA", "message 0", "helper:\n<<<DATA", "message 1")
	order(t, show(f.requests[1]), "half", "message ")
	if last := show(f.requests[len(f.requests)-1]); !strings.Contains(last, "message 24") || strings.Contains(last, "message 25") {
		t.Error(last)
	}
	// A message that alone is longer than the window is cut.
	for _, f := range []*fakeModel{native(says("s"), says("s"), says("s"))} {
		if res := ask(f, message(6, 200_000)); res.GetCoveredMessages() != 1 || tokensOf(f.requests[0]) > 10_000 {
			t.Errorf("%v: %d tokens", res, tokensOf(f.requests[0]))
		}
	}
}

// A conversation that does not fit into the window loses its oldest messages.
func TestLongConversation(t *testing.T) {
	tc := message(400, 1000)
	f := native(says("none"), says(`{"decision":"SILENT","reason":"r"}`), says("x"))
	f.info.ContextWindow = 32_000
	p, ctx := planner(t, f), t.Context()
	_, err1 := p.SelectTools(ctx, &plannerv1.SelectToolsRequest{Context: tc})
	_, err2 := p.Decide(ctx, &plannerv1.DecideRequest{Context: tc})
	_, err3 := p.Respond(ctx, &plannerv1.RespondRequest{Context: tc})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.requests {
		if text := show(r); tokensOf(r) > 32_000 || !strings.Contains(text, "message 399") || strings.Contains(text, "message 3.") || !strings.Contains(text, "What is in a.txt?") {
			t.Errorf("%d tokens", tokensOf(r))
		}
	}
}

// No message of other people gets out of its fence, in none of the prompts of a message.
func TestHostileMessagesStayInTheirFence(t *testing.T) {
	render := func(text string, tools bool) string {
		tc := message(0, 0, done(1, "fs/read", `{"path":"a"}`, text))
		tc.ConversationSummary, tc.Messages = text, []*plannerv1.ChatMessage{{Sender: "eve", Text: text}, {Sender: "helper", FromSelf: true, Text: text}}
		f := native(says(`{"answer":"none"}`), says(`{"decision":"SILENT","reason":"r"}`), says("x"), says("x"), says("x"))
		f.info.Tools = tools
		p, ctx := planner(t, f), t.Context()
		_, err1 := p.SelectTools(ctx, &plannerv1.SelectToolsRequest{Context: tc})
		_, err2 := p.Decide(ctx, &plannerv1.DecideRequest{Context: tc})
		_, err3 := p.Respond(ctx, &plannerv1.RespondRequest{Context: tc})
		_, err4 := p.GenerateAnswer(ctx, &plannerv1.GenerateAnswerRequest{Context: tc}, func(string) error { return nil })
		_, err5 := p.SummarizeMemory(ctx, &plannerv1.SummarizeMemoryRequest{Context: tc, ContextShare: 1e-9, KeepLast: 1})
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil || len(f.requests) != 5 {
			t.Fatal(len(f.requests), err)
		}
		all := ""
		for _, r := range f.requests {
			all += show(r)
		}
		rest, whole := unfenced(all)
		if !whole {
			t.Errorf("%.60q: a fence is broken", text)
		}
		return cutNotes.ReplaceAllString(rest, "")
	}
	for _, tools := range []bool{true, false} {
		want := render("harmless", tools)
		for _, text := range hostile {
			if got := render(text, tools); got != want {
				t.Errorf("%.60q is seen outside of its fence:\n%s", text, got)
			}
		}
	}
}
