package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/llm"
)

// thinkOf is a request about the subtask `a`, with one that has not started beside it.
func thinkOf(history ...*plannerv1.HistoryEntry) *plannerv1.ThinkRequest {
	return &plannerv1.ThinkRequest{Context: task(history...), Current: &plannerv1.Subtask{Id: "a", Title: "Read a", Description: "Read a.txt", Acceptance: "It is read"},
		Others: []*plannerv1.SubtaskState{{Id: "b", Title: "Write b", Status: "BLOCKED"}}}
}

func think(t testing.TB, f *fakeModel, req *plannerv1.ThinkRequest) (*plannerv1.ThinkResult, string, error) {
	t.Helper()
	var streamed strings.Builder
	res, err := planner(t, f).Think(t.Context(), req, func(text string) error {
		streamed.WriteString(text)
		return nil
	})
	return res, streamed.String(), err
}

// D3, D4: one model call thinks, reflects and chooses the next calls; it may change the plan.
func TestThinkAndReflectInOne(t *testing.T) {
	const summary = `{"done":false,"summary":"nothing yet","next":"read"}`
	change := `{"done":false,"summary":"s","next":"n","plan_change":{"add":[` + sub("c", `"a"`) + `],"reason":"r"}}`
	read := &plannerv1.PlannedStep{ToolId: "fs/read", Description: "Look", InputJson: `{"path":"${goal} a"}`, Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "read only reads."}}
	write := &plannerv1.PlannedStep{ToolId: "fs/write", InputJson: `{"path":"b"}`, Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_MEDIUM, Reason: "write may change something."}}
	begun := &plannerv1.Reflection{Summary: "nothing yet", Next: "read"}
	added := &plannerv1.Subtask{Id: "c", Title: "T", Description: "D", Acceptance: "A", DependsOn: []string{"a"}, ToolIds: []string{"fs/read", "fs/write"}}
	inJSON := func(call string) replyFunc { return says(`{"thought":"I look.","calls":[` + call + `]}`) }
	for name, c := range map[string]struct {
		native, inJSON replyFunc
		want           *plannerv1.ThinkResult
	}{
		"calls in order": {remarks("I look.", "reflect", summary, "fs__read", `{"pawl_why":"Look","path":"${goal} a"}`, "fs__write", `{"path":"b"}`),
			inJSON(`{"tool":"fs__read","why":"Look","input":{"path":"${goal} a"}},{"tool":"fs__write","input":{"path":"b"}},{"tool":"reflect","input":` + summary + `}`),
			&plannerv1.ThinkResult{Thought: "I look.", Steps: []*plannerv1.PlannedStep{read, write}, Reflection: begun}},
		"no reflection": {remarks("I look.", "fs__write", `{"path":"b"}`), inJSON(`{"tool":"fs__write","input":{"path":"b"}}`),
			&plannerv1.ThinkResult{Thought: "I look.", Steps: []*plannerv1.PlannedStep{write}}},
		"no call":   {says("I look."), inJSON(""), &plannerv1.ThinkResult{Thought: "I look."}},
		"the end":   {calls("reflect", `{"done":true,"summary":" s ","next":"more"}`), says(`{"calls":[{"tool":"reflect","input":{"done":true,"summary":"s","next":""}}]}`), &plannerv1.ThinkResult{Reflection: &plannerv1.Reflection{Done: true, Summary: "s"}}},
		"read more": {calls("read_output", `{"step":"step-1","offset":2}`), says(`{"calls":[{"tool":"read_output","input":{"step":"step-1","offset":2}}]}`), &plannerv1.ThinkResult{Steps: []*plannerv1.PlannedStep{{ToolId: ReadOutputID, FromHistory: true, InputJson: `{"step":"step-1","offset":2,"limit":15800}`, Description: "Read on in the output of step-1", Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "It only reads what is known already."}}}}},
		"a change": {calls("reflect", change), says(`{"calls":[{"tool":"reflect","input":` + change + `}]}`),
			&plannerv1.ThinkResult{Reflection: &plannerv1.Reflection{Summary: "s", Next: "n"}, PlanChange: &plannerv1.PlanChange{Add: []*plannerv1.Subtask{added}, Reason: "r"}}},
	} {
		for tools, reply := range map[bool]replyFunc{true: c.native, false: c.inJSON} {
			f := native(reply)
			f.info.Tools = tools
			res, streamed, err := think(t, f, thinkOf(done(1, "fs/read", `{}`, "text")))
			if d := cmp.Diff(c.want, res, protocmp.Transform(), protocmp.IgnoreFields(res, "usage")); err != nil || d != "" || streamed != res.GetThought() || len(f.requests) != 1 {
				t.Errorf("%s, native %v: %v %q %s", name, tools, err, streamed, d)
			}
		}
	}
}

// D4: the prompt has the task, the subtask, the last 10 inputs, the last calls in full and older ones in a line each, the last observation once.
func TestThinkPrompt(t *testing.T) {
	for _, tools := range []bool{true, false} {
		f := native(says(`{"thought":"ok"}`))
		f.info.Tools = tools
		var history []*plannerv1.HistoryEntry
		for n := range 130 {
			history = append(history, done(n+1, "fs/read", fmt.Sprintf(`{"path":"%d"}`, n+1), fmt.Sprintf("output %d\nof many", n+1)))
		}
		req := thinkOf(history...)
		req.Context.AgentDescription = "You write Go."
		for n := range 12 {
			req.Inputs = append(req.Inputs, fmt.Sprintf("input %d", n+1))
		}
		if _, _, err := think(t, f, req); err != nil {
			t.Fatal(err)
		}
		p := show(f.requests[0])
		for _, want := range []string{"Copy a.txt to b.txt", "You write Go.", "Read a.txt", "It is read", "- b BLOCKED: Write b", "- input 3\n", "- input 12\n", "\nstep-125 fs/read {\"path\":\"125\"} succeeded: output 125 of many\n",
			"step-26 fs/read", "step-126 succeeded:", "\noutput 130\nof many\n", "reflect", "fs__write"} {
			if strings.Count(p, want) == 0 {
				t.Errorf("native %v: %q is missing", tools, want)
			}
		}
		for _, not := range []string{"- input 2\n", "step-125 succeeded", "step-25 fs/read", "finish", "${step-"} {
			if strings.Contains(p, not) {
				t.Errorf("native %v: there is %q", tools, not)
			}
		}
		if n := strings.Count(p, "output 130"); n != 1 {
			t.Errorf("the last observation is there %d times", n)
		}
	}
}

// DESIGN 11: at least 90 % of a prompt repeats the one before, except when the oldest full calls become lines.
func TestThinkPromptsGrowAtTheEnd(t *testing.T) {
	var prompts []string
	repeats := 0
	req := thinkOf()
	req.Inputs = []string{"Keep the line endings."}
	for n := range 30 {
		f := native(says("ok"))
		if _, _, err := think(t, f, req); err != nil {
			t.Fatal(err)
		}
		r := f.requests[0]
		prompts = append(prompts, show(r))
		req.Context.History = append(req.Context.History, done(n+1, "fs/read", `{"path":"a.txt"}`, strings.Repeat("word ", 200)))
		if n == 0 {
			continue
		}
		now, before, same := prompts[n], prompts[n-1], 0
		for same < len(before) && now[same] == before[same] {
			same++
		}
		if n >= 10 && n%5 == 0 {
			continue // a new window
		}
		if repeats++; same*100 < len(before)*90 {
			t.Errorf("prompt %d repeats %d of %d bytes", n, same, len(before))
		}
		if cut := len(r.Messages) - 2; !slices.Contains(r.CacheHere, cut) {
			t.Errorf("prompt %d is marked for the cache at %v of %d messages", n, r.CacheHere, len(r.Messages))
		}
	}
	if repeats != 25 {
		t.Errorf("%d prompts repeat the one before", repeats)
	}
}

// A reply that cannot be used is corrected. Arguments that do not fit a schema are not the planner's affair, and those that stay broken are passed on
// as a text, which no tool takes (D5).
func TestThinkCorrections(t *testing.T) {
	const done_, cut = `{"done":true,"summary":"s","next":""}`, `{"path":"a","edits":[{"a":1},`
	for name, c := range map[string]struct {
		replies []replyFunc
		prompts string // part of the last prompt
		steps   string
		isDone  bool
	}{
		"done with calls":       {[]replyFunc{calls("fs__read", `{"path":"a"}`, "reflect", done_), calls("reflect", done_)}, "`done` cannot come with other calls", "", true},
		"done with calls twice": {[]replyFunc{calls("fs__read", `{"path":"a"}`, "reflect", done_), calls("reflect", done_, "fs__read", `{"path":"a"}`)}, "was not made", "", true},
		"an unknown tool":       {[]replyFunc{calls("fs__raed", `{}`), calls("fs__read", `{"path":"a"}`)}, `there is no tool "fs__raed"; the nearest are fs__read`, `fs/read {"path":"a"}`, false},
		"a wrong reflection":    {[]replyFunc{calls("fs__read", `{"path":"a"}`, "reflect", `{"done":"no"}`), calls("fs__read", `{"path":"a"}`)}, "must be a boolean", `fs/read {"path":"a"}`, false},
		"a wrong change":        {[]replyFunc{calls("reflect", `{"done":false,"summary":"","next":"","plan_change":{"drop":["x"],"reason":""}}`), says("no")}, `"x" is not a subtask that has not started`, "", false},
		"nothing":               {[]replyFunc{says(""), says("x")}, "Your reply was empty", "", false},
		"input that misfits":    {[]replyFunc{calls("fs__read", `{"pawl_why":"w","paht":5}`)}, "", `fs/read {"paht":5}`, false},
		"broken input":          {[]replyFunc{calls("fs__read", cut), calls("fs__read", `{"path":"b"}`)}, "not a JSON object", `fs/read {"path":"b"}`, false},
		"cut off":               {[]replyFunc{cutOff(calls("fs__write", cut)), calls("fs__write", `{"path":"a","content":"b"}`)}, "a reply has at most 4096 tokens: write less at once", `fs/write {"path":"a","content":"b"}`, false},
		"always broken":         {[]replyFunc{calls("fs__read", cut), calls("fs__read", cut), calls("fs__read", cut, "fs__write", `[1]`)}, "not a JSON object", `fs/read "{\"path\":\"a\",\"edits\":[{\"a\":1},", fs/write [1]`, false},
	} {
		f := native(c.replies...)
		res, _, err := think(t, f, thinkOf())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var steps []string
		for _, st := range res.GetSteps() {
			steps = append(steps, st.GetToolId()+" "+st.GetInputJson())
		}
		if got := strings.Join(steps, ", "); got != c.steps || res.GetReflection().GetDone() != c.isDone || len(f.requests) != len(c.replies) || int(res.GetUsage().GetModelCalls()) != len(c.replies) {
			t.Errorf("%s: %v after %d requests", name, res, len(f.requests))
		}
		if p := show(f.requests[len(f.requests)-1]); !strings.Contains(p, c.prompts) {
			t.Errorf("%s: the last prompt lacks %q:\n%s", name, c.prompts, p)
		}
	}
	_, _, err := think(t, native(calls("x", `{}`), calls("x", `{}`), calls("x", `{}`)), thinkOf())
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR || errs.From(err).Usage.GetModelCalls() != 3 {
		t.Error(err)
	}
	// Without native tools the whole answer is corrected.
	f := native(says(`{"calls":[{"tool":"fs__none","input":{}}]}`), says(`{}`), says(`{"thought":"ok"}`))
	f.info.Tools = false
	if res, streamed, err := think(t, f, thinkOf()); err != nil || res.GetThought() != "ok" || streamed != "ok" || !strings.Contains(show(f.requests[2]), "neither calls nor a text") {
		t.Errorf("%v %v", res, err)
	}
}

// D3: a call that failed twice with the same input and error is named in the prompt, and a third one is refused until something was changed.
func TestThoughtsDoNotRepeatFailures(t *testing.T) {
	failed := func(n int, tool, input, problem string) *plannerv1.HistoryEntry {
		return &plannerv1.HistoryEntry{StepId: fmt.Sprintf("step-%d", n), ToolId: tool, InputJson: input, Result: plannerv1.StepResult_STEP_RESULT_ERROR, Error: problem, Outcome: commonv1.Outcome_OUTCOME_KNOWN}
	}
	away := failed(2, "fs/read", `{"path":"b.txt"}`, "no server")
	away.Outcome = commonv1.Outcome_OUTCOME_NOT_EXECUTED
	const input, same = `{"path":"b.txt"}`, `{"path": "b.txt"}`
	for name, c := range map[string]struct {
		history []*plannerv1.HistoryEntry
		refused bool
	}{
		"once":                   {[]*plannerv1.HistoryEntry{failed(1, "fs/read", input, "gone")}, false},
		"twice":                  {[]*plannerv1.HistoryEntry{failed(1, "fs/read", input, "gone"), done(2, "fs/read", `{}`, "x"), failed(3, "fs/read", same, "gone")}, true},
		"another input":          {[]*plannerv1.HistoryEntry{failed(1, "fs/read", input, "gone"), failed(2, "fs/read", `{"path":"c.txt"}`, "gone")}, false},
		"another error":          {[]*plannerv1.HistoryEntry{failed(1, "fs/read", input, "gone"), failed(2, "fs/read", input, "busy")}, false},
		"another tool":           {[]*plannerv1.HistoryEntry{failed(1, "fs/read", input, "gone"), failed(2, "fs/write", input, "gone")}, false},
		"something was changed":  {[]*plannerv1.HistoryEntry{failed(1, "fs/read", input, "gone"), failed(2, "fs/read", input, "gone"), done(3, "fs/write", input, "x")}, false},
		"the server is away":     {[]*plannerv1.HistoryEntry{away, away}, false},
		"failed again afterward": {[]*plannerv1.HistoryEntry{failed(1, "fs/read", input, "gone"), done(2, "fs/write", `{}`, "x"), failed(3, "fs/read", input, "gone")}, false},
	} {
		for _, tools := range []bool{true, false} {
			again, other := calls("fs__read", same), calls("fs__write", input)
			if !tools {
				again, other = says(`{"calls":[{"tool":"fs__read","input":`+same+`}]}`), says(`{"calls":[{"tool":"fs__write","input":`+input+`}]}`)
			}
			f := native(again, other)
			f.info.Tools = tools
			res, _, err := think(t, f, thinkOf(c.history...))
			if err != nil || len(res.GetSteps()) != 1 || (res.GetSteps()[0].GetToolId() == "fs/write") != c.refused {
				t.Errorf("%s, native %v: %v %v", name, tools, res, err)
			}
			if told := strings.Contains(show(f.requests[0]), "Calls that failed twice"); told != c.refused {
				t.Errorf("%s, native %v: the prompt tells of the loop: %v", name, tools, told)
			}
			if p := show(f.requests[len(f.requests)-1]); c.refused && !strings.Contains(p, "step-1 and a later call with the same input failed with the same error") {
				t.Errorf("%s, native %v: %s", name, tools, p)
			}
		}
	}
	invalid := failed(1, "fs/read", `{"paht":5}`, "no path")
	invalid.Outcome = commonv1.Outcome_OUTCOME_NOT_EXECUTED
	if refused := planner(t, native()).session(t.Context(), task(invalid, invalid)).repeatedFailures(); len(refused) != 1 {
		t.Errorf("input that no schema allows: %v", refused)
	}
	unusable := task(away, away)
	unusable.Tools[0].InputSchemaJson = "{"
	if refused := planner(t, native()).session(t.Context(), unusable).repeatedFailures(); len(refused) != 0 {
		t.Errorf("a tool without a usable schema: %v", refused)
	}
	loop := calls("fs__read", input)
	_, _, err := think(t, native(loop, loop, loop), thinkOf(failed(1, "fs/read", input, "gone"), failed(2, "fs/read", input, "gone")))
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR || !strings.Contains(err.Error(), "it would be a loop") {
		t.Error(err)
	}
}

// With many tools the model sees those of the subtask and can search for more, also beside its reflection.
func TestThinkWithManyTools(t *testing.T) {
	f := native(calls("reflect", `{"done":false,"summary":"","next":""}`, "find_tools", `{"query":"translate text"}`), calls("lang__translate", `{"text":"x"}`))
	req := thinkOf()
	req.Context = many(500)
	req.Current.ToolIds = []string{req.Context.GetTools()[400].GetId(), "gone/tool"}
	res, _, err := think(t, f, req)
	if err != nil || len(res.GetSteps()) != 1 || res.GetSteps()[0].GetToolId() != "lang/translate" {
		t.Errorf("%v %v", res, err)
	}
	has := func(id string) bool {
		return slices.ContainsFunc(f.requests[0].Tools, func(mt *plannerv1.ModelTool) bool { return mt.GetName() == Alias(id) })
	}
	if !has(req.Current.ToolIds[0]) || has("lang/translate") {
		t.Errorf("%d tools are shown", len(f.requests[0].Tools))
	}
}

// A prompt that is too long is shortened: outputs first, and the steps before the last stay lines. A budget holds for thoughts too.
func TestThinkIsBounded(t *testing.T) {
	req := thinkOf()
	for n := range 9 {
		req.Context.History = append(req.Context.History, done(n+1, "fs/read", `{}`, strings.Repeat("x", 15_000)))
	}
	f := native(fails((&llm.Error{Class: llm.TooLong, Message: "too long"}).Public("fake")), says("ok"))
	if _, _, err := think(t, f, req); err != nil || tokensOf(f.requests[1]) > tokensOf(f.requests[0])*3/4 || strings.Contains(show(f.requests[1]), "Summary") {
		t.Errorf("%v", err)
	}
	req.Context.ModelCallsLeft = new(uint32)
	if _, _, err := think(t, native(), req); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
		t.Error(err)
	}
}
