package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/llm"
)

// many is a task with n tools of which one can translate.
func many(n int) *plannerv1.TaskContext {
	tc := task()
	tc.Goal = "Send a message to Ada"
	tc.Tools = nil
	for i := range n {
		tc.Tools = append(tc.Tools, &commonv1.Tool{Id: fmt.Sprintf("srv/send_message_%d", i), McpId: "srv", Name: fmt.Sprintf("send_message_%d", i),
			Description: "Sends a message.", InputSchemaJson: `{"type":"object","properties":{"to":{"type":"string"}}}`, Effect: commonv1.Effect_EFFECT_WRITE})
	}
	tc.Tools = append(tc.Tools, &commonv1.Tool{Id: "lang/translate", McpId: "lang", Name: "translate", Description: "Translates a text.",
		InputSchemaJson: `{"type":"object","properties":{"text":{"type":"string"}}}`, Effect: commonv1.Effect_EFFECT_READ})
	return tc
}

// Of many tools only the relevant ones are sent. find_tools recovers from a wrong choice within the same call, and what was used stays.
func TestManyTools(t *testing.T) {
	tc := many(500)
	f := native(calls("find_tools", `{"query":"translate text"}`), calls("lang__translate", `{"text":"hi"}`), calls("srv__send_message_1", `{"to":"Ada"}`), says("Sent."))
	got := one(t, f, tc)
	if got.GetSteps()[0].GetToolId() != "lang/translate" || got.GetUsage().GetModelCalls() != 2 {
		t.Fatal(got)
	}
	if first := f.requests[0]; len(first.Tools) != chosenTools+3 || strings.Contains(show(first), "lang__translate") {
		t.Errorf("%d tools in the first prompt", len(first.Tools))
	}
	if second := show(f.requests[1]); !strings.Contains(second, "tool lang__translate") || !strings.Contains(second, "These tools match") {
		t.Errorf("the tool that was found is not in the second prompt")
	}
	for n, tool := range []string{"lang/translate", "srv/send_message_1"} {
		tc.History = append(tc.History, done(n+1, tool, `{}`, "ok"))
		one(t, f, tc)
	}
	if third, fourth := show(f.requests[2]), show(f.requests[3]); !strings.HasPrefix(fourth, third) || !strings.Contains(third, "tool lang__translate") {
		t.Error("the tools changed although none was added")
	}
	// A name that the prompt does not hold is a tool all the same.
	if got := one(t, native(calls("lang__translate", `{}`)), many(500)); got.GetSteps()[0].GetToolId() != "lang/translate" {
		t.Error(got)
	}
	// A name that is not similar to any is searched for: the correction shows the tools that match.
	f = native(calls("translate-a-text-for-me", `{}`), calls("lang__translate", `{}`))
	if got := one(t, f, many(500)); got.GetSteps()[0].GetToolId() != "lang/translate" || !strings.Contains(show(f.requests[1]), "tool lang__translate") {
		t.Error(got)
	}
	// Searching without end is a wrong reply.
	search := calls("find_tools", `{"query":"x"}`)
	if _, _, err := planSteps(t, native(search, search, search, search, search, search), many(500)); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR {
		t.Error(err)
	}
}

// Beyond the window old steps are summarized once and stay summarized.
func TestOldStepsAreSummarized(t *testing.T) {
	f := native(says("Steps 1 to 7 read files."), calls("fs__read", `{"path":"x"}`), calls("fs__read", `{"path":"y"}`))
	f.info.ContextWindow, f.info.MaxTokens = 8000, 1000
	tc := task()
	for i := range 12 {
		tc.History = append(tc.History, done(i+1, "fs/read", `{"path":"a"}`, fmt.Sprintf("line %d ", i+1)+strings.Repeat("word ", 400)))
	}
	got := one(t, f, tc)
	if m := got.GetMemory(); m.GetSummary() != "Steps 1 to 7 read files." || m.GetLastStepId() != "step-7" || got.GetUsage().GetModelCalls() != 2 {
		t.Fatalf("%v %v", m, got.GetUsage())
	}
	if p := show(f.requests[1]); !strings.Contains(p, "Steps 1 to 7 read files.") || strings.Contains(p, "line 7 ") || !strings.Contains(p, "line 8 ") || tokensOf(f.requests[1]) > 8000*windowPercent/100 {
		t.Errorf("%d tokens:\n%s", tokensOf(f.requests[1]), p)
	}
	tc.Memory = got.GetMemory()
	tc.History = append(tc.History, done(13, "fs/read", `{"path":"x"}`, "short"))
	again := one(t, f, tc)
	if again.GetMemory() != nil || again.GetUsage().GetModelCalls() != 1 || !strings.HasPrefix(show(f.requests[2]), show(f.requests[1])) {
		t.Errorf("the summary did not stay: %v", again)
	}
	// A memory about a step that is not there is not used.
	tc.Memory = &plannerv1.Memory{Summary: "of another branch", LastStepId: "step-99"}
	tc.History = tc.History[:2]
	f = native(says("ok"))
	one(t, f, tc)
	if strings.Contains(show(f.requests[0]), "another branch") {
		t.Error("a summary of another history is used")
	}
}

// What cannot be summarized is cut shorter, and a step that is too long alone leaves the decision to the provider.
func TestFewLongSteps(t *testing.T) {
	f := native(says("ok"))
	f.info.ContextWindow, f.info.MaxTokens = 6000, 500
	tc := task()
	for i := range 4 {
		tc.History = append(tc.History, done(i+1, "fs/read", `{"path":"a"}`, strings.Repeat("文", 5000)))
	}
	if one(t, f, tc); tokensOf(f.requests[0]) > 6000 {
		t.Errorf("%d tokens", tokensOf(f.requests[0]))
	}
}

// A window that is smaller than it was thought to be costs one call more.
func TestPromptThatIsTooLong(t *testing.T) {
	long := &llm.Error{Class: llm.TooLong, Message: "prompt is too long"}
	f := native(fails(long.Public("fake")), says("ok"))
	tc := task()
	for i := range 10 {
		tc.History = append(tc.History, done(i+1, "fs/read", `{"path":"a"}`, strings.Repeat("word ", 3000)))
	}
	got := one(t, f, tc)
	if got.GetAnswer() != "ok" || got.GetUsage().GetModelCalls() != 2 || tokensOf(f.requests[1]) > tokensOf(f.requests[0])*3/4 {
		t.Errorf("%v", got)
	}
	if _, _, err := planSteps(t, native(fails(long.Public("fake")), fails(long.Public("fake"))), task()); llm.ClassOf(err) != llm.TooLong {
		t.Error(err)
	}
}

// A budget is reserved before each call, and the usage is returned also if a call fails.
func TestBudgets(t *testing.T) {
	wrong := calls("fs__read", `{"path":5}`)
	first := native(says("ok"))
	one(t, first, task())
	promptTokens := uint64(tokensOf(first.requests[0]))
	for name, tc := range map[string]struct {
		limit    func(*plannerv1.TaskContext)
		requests int
	}{
		"no calls":          {func(tc *plannerv1.TaskContext) { tc.ModelCallsLeft = proto.Uint32(0) }, 0},
		"one call":          {func(tc *plannerv1.TaskContext) { tc.ModelCallsLeft = proto.Uint32(1) }, 1},
		"two calls":         {func(tc *plannerv1.TaskContext) { tc.ModelCallsLeft = proto.Uint32(2) }, 2},
		"no prompt":         {func(tc *plannerv1.TaskContext) { tc.TokensLeft = proto.Uint64(300) }, 0},
		"no reply":          {func(tc *plannerv1.TaskContext) { tc.TokensLeft = proto.Uint64(promptTokens + minReply - 1) }, 0},
		"one call's tokens": {func(tc *plannerv1.TaskContext) { tc.TokensLeft = proto.Uint64(promptTokens + minReply) }, 1},
		"no money":          {func(tc *plannerv1.TaskContext) { tc.CostNanoUsdLeft = proto.Uint64(0) }, 0},
		"some money":        {func(tc *plannerv1.TaskContext) { tc.CostNanoUsdLeft = proto.Uint64(3_300_000) }, 1},
	} {
		c := task()
		tc.limit(c)
		f := native(wrong, wrong, wrong)
		_, _, err := planSteps(t, f, c)
		e := errs.From(err)
		if e == nil || e.Reason != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED || e.Code != codes.ResourceExhausted || len(f.requests) != tc.requests || int(e.Usage.GetModelCalls()) != tc.requests {
			t.Errorf("%s: %d requests, %v", name, len(f.requests), err)
		}
	}
	limited := task()
	limited.ModelCallsLeft = proto.Uint32(4)
	f := native(wrong, says("ok"))
	if one(t, f, limited); f.requests[0].MaxRequests != 4 || f.requests[1].MaxRequests != 3 {
		t.Errorf("%d and %d requests are reserved", f.requests[0].MaxRequests, f.requests[1].MaxRequests)
	}
	limited = task()
	limited.TokensLeft = proto.Uint64(promptTokens + 100) // prompt and reply are reserved from one sum
	f = native(says("ok"))
	if one(t, f, limited); f.requests[0].MaxTokens != 100 {
		t.Errorf("the reply may have %d tokens", f.requests[0].MaxTokens)
	}
	limited = task()
	limited.CostNanoUsdLeft = proto.Uint64(1_000_000)
	f = native(says("ok"))
	f.info.Price = nil
	if _, _, err := planSteps(t, f, limited); errs.From(err).Code != codes.FailedPrecondition || !strings.Contains(err.Error(), "no price") || len(f.requests) != 0 {
		t.Errorf("a limit of cost without a price: %v", err)
	}
	f = native(says("ok"))
	f.info.Price = nil
	if res := one(t, f, task()); res.GetUsage().CostNanoUsd != nil {
		t.Errorf("an unknown price is said: %v", res.GetUsage())
	}
}

// Failing calls count, and the end of the caller's context stays what it is.
func TestFailingCalls(t *testing.T) {
	broken := &llm.Error{Class: llm.Unavailable, Message: "HTTP 529"}
	f := native(calls("fs__read", `{"path":5}`), fails(broken.Public("fake")))
	_, _, err := planSteps(t, f, task())
	if e := errs.From(err); e.Code != codes.Unavailable || e.Usage.GetModelCalls() != 2 || e.Usage.GetInputTokens() != 200 {
		t.Errorf("%v", err)
	}
	if _, _, err := planSteps(t, native(fails(context.Canceled)), task()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
