package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/llm"
)

// sub is a subtask as a model writes it.
func sub(id, deps string) string {
	return `{"id":"` + id + `","title":"T","description":"D","acceptance":"A","depends_on":[` + deps + `],"tool_ids":["fs/read","fs__write","fs/read","fs/none"]}`
}

func planOf(subtasks ...string) string {
	return `{"main_task":"M","risk":"HIGH","subtasks":[` + strings.Join(subtasks, ",") + `]}`
}

// D1, D7: a plan is a graph without cycles, in an order in which it can be carried out.
func TestCreatePlan(t *testing.T) {
	f := native(says(planOf(sub("a", `"b"`), sub("b", `"c"`), sub("c", `"b"`))), says(planOf(sub("a", `"x"`))), says(planOf(sub("a", `"b","c"`), sub("b", `"c"`), sub("c", ""))))
	res, err := planner(t, f).CreatePlan(t.Context(), &plannerv1.CreatePlanRequest{Context: task(), Problem: "too\nlarge"})
	want := &plannerv1.CreatePlanResponse{MainTask: "M", Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_HIGH, Reason: "The model rates the whole task HIGH."}, Usage: &commonv1.Usage{InputTokens: 300, OutputTokens: 30, ModelCalls: 3, CostNanoUsd: proto.Uint64(900_000)}}
	for _, id := range []string{"c", "b", "a"} {
		st := &plannerv1.Subtask{Id: id, Title: "T", Description: "D", Acceptance: "A", ToolIds: []string{"fs/read", "fs/write"}}
		st.DependsOn = map[string][]string{"a": {"b", "c"}, "b": {"c"}}[id]
		want.Subtasks = append(want.Subtasks, st)
	}
	if d := cmp.Diff(want, res, protocmp.Transform()); err != nil || d != "" {
		t.Fatalf("%v %s", err, d)
	}
	for i, wants := range [][]string{{"- fs/read: Reads a file.", "at most 10", "for this reason: too large"}, {"cycle: b → c → b"}, {`a depends on "x"`}} {
		for _, want := range wants {
			if p := show(f.requests[i]); !strings.Contains(p, want) {
				t.Errorf("prompt %d lacks %q:\n%s", i, want, p)
			}
		}
	}
	res, err = planner(t, native(says(strings.Replace(planOf(sub("a", "")), "HIGH", "LOW", 1)))).CreatePlan(t.Context(), &plannerv1.CreatePlanRequest{Context: task()})
	if err != nil || res.GetRisk().GetReason() != "write may change something." {
		t.Errorf("A29: %v %v", res, err)
	}
	without := strings.Replace(planOf(sub("a", "")), `"acceptance":"A",`, "", 1)
	f = native(says(without), says(planOf(sub("a", ""), sub("a", ""))), says(planOf(sub("a", ""), sub("b", ""))))
	_, err = planner(t, f).CreatePlan(t.Context(), &plannerv1.CreatePlanRequest{Context: task(), MaxSubtasks: 1})
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR || !strings.Contains(err.Error(), "at most 1 are allowed") || !strings.Contains(show(f.requests[1]), `"acceptance" is missing`) {
		t.Error(err)
	}
}

// A plan change with unknown ids, taken ids or cycles, or of subtasks that have started, is refused; any other keeps the plan
// a graph (D7).
func TestPlanChanges(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "n1", "n2", "n3", "none"}
	list := func(rt *rapid.T, label string, most int) []string {
		return rapid.SliceOfN(rapid.SampledFrom(ids), 0, most).Draw(rt, label)
	}
	accepted, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		statuses := []string{"PENDING", "BLOCKED", "IN_PROGRESS", "COMPLETED", "FAILED", "CANCELLED"}
		s := planner(t, native()).session(t.Context(), task())
		s.subtask = &plannerv1.Subtask{Id: "a"}
		open := map[string]bool{}
		for _, id := range []string{"b", "c", "d"} {
			status := rapid.SampledFrom(statuses).Draw(rt, "status")
			open[id] = status == "PENDING" || status == "BLOCKED"
			s.others = append(s.others, &plannerv1.SubtaskState{Id: id, Status: status})
		}
		change := &plannerv1.PlanChange{Drop: list(rt, "drop", 1), Order: list(rt, "order", 3), Reason: "r"}
		for range rapid.IntRange(0, 3).Draw(rt, "adds") {
			change.Add = append(change.Add, &plannerv1.Subtask{Id: rapid.SampledFrom(ids[3:7]).Draw(rt, "new"), Title: "t", DependsOn: list(rt, "deps", 2)})
		}
		given := proto.CloneOf(change)
		if err := s.checkReflection(&plannerv1.ReflectResponse{PlanChange: change}); err != nil {
			if !strings.HasPrefix(err.Error(), "plan_change: ") {
				rt.Errorf("the problem is %v", err)
			}
			refused++
			return
		}
		accepted++
		done := map[string]bool{}
		for _, id := range []string{"a", "b", "c", "d"} {
			done[id] = !slices.Contains(change.GetDrop(), id)
			if dropped := !done[id]; dropped && !open[id] {
				rt.Errorf("%s was dropped: %v", id, change)
			} else if dropped {
				delete(open, id)
			}
		}
		for _, st := range change.GetAdd() {
			for _, id := range st.GetDependsOn() {
				if !done[id] {
					rt.Errorf("%s comes before its dependency %s, or that is no subtask: %v", st.GetId(), id, change)
				}
			}
			if _, taken := done[st.GetId()]; taken {
				rt.Errorf("the id %s is taken: %v", st.GetId(), change)
			}
			done[st.GetId()], open[st.GetId()] = true, true
		}
		if len(change.GetAdd()) != len(given.GetAdd()) {
			rt.Errorf("%v became %v", given, change)
		}
		for _, id := range change.GetOrder() {
			if !open[id] && !slices.Contains(change.GetDrop(), id) {
				rt.Errorf("%s is in the order: %v", id, change)
			}
		}
	})
	if accepted == 0 || refused == 0 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
}

// D3: a reflection may change the plan; without a plan it cannot.
func TestReflect(t *testing.T) {
	current := &plannerv1.Subtask{Id: "a", Title: "Read a", Description: "Read it", Acceptance: "It is read"}
	others := []*plannerv1.SubtaskState{{Id: "b", Title: "Write b", Status: "BLOCKED"}}
	change := func(id string) string {
		return `{"done":true,"summary":" s ","next":"x","plan_change":{"add":[` + sub(id, `"a"`) + `],"drop":["b"],"reason":"r\nr"}}`
	}
	f := native(says(change("b")), says(change("c")))
	res, err := planner(t, f).Reflect(t.Context(), &plannerv1.ReflectRequest{Context: task(done(1, "fs/read", `{}`, "x")), Current: current, Others: others})
	want := &plannerv1.ReflectResponse{Done: true, Summary: "s", PlanChange: &plannerv1.PlanChange{Drop: []string{"b"}, Reason: "r r", Add: []*plannerv1.Subtask{
		{Id: "c", Title: "T", Description: "D", Acceptance: "A", DependsOn: []string{"a"}, ToolIds: []string{"fs/read", "fs/write"}}}}}
	if d := cmp.Diff(want, res, protocmp.Transform(), protocmp.IgnoreFields(res, "usage")); err != nil || d != "" || res.GetUsage().GetModelCalls() != 2 {
		t.Errorf("%v %s", err, d)
	}
	for i, want := range []string{"It is read", `the id "b" is taken`} {
		if p := show(f.requests[i]); !strings.Contains(p, want) {
			t.Errorf("prompt %d lacks %q:\n%s", i, want, p)
		}
	}
	if res, err := planner(t, native(says(change("b")))).Reflect(t.Context(), &plannerv1.ReflectRequest{Context: task(), Subtask: "Read it"}); err != nil || res.GetPlanChange() != nil {
		t.Errorf("%v %v", res, err)
	}
	// A prompt that the provider finds too long is shortened and sent again.
	long := task()
	for n := range 20 {
		long.History = append(long.History, done(n+1, "fs/read", `{}`, strings.Repeat("x", 4000)))
	}
	f = native(fails((&llm.Error{Class: llm.TooLong, Message: "prompt is too long"}).Public("fake")), says(`{"done":true,"summary":"s","next":""}`))
	f.info.ContextWindow = 30_000
	if _, err := planner(t, f).Reflect(t.Context(), &plannerv1.ReflectRequest{Context: long, Current: current}); err != nil || len(show(f.requests[1])) >= len(show(f.requests[0])) {
		t.Error(err)
	}
}

// The answer to a task with a plan knows the subtasks and the last steps, and a failed subtask leaves the goal unfulfilled (D1).
func TestAnswerToAPlan(t *testing.T) {
	tc := task()
	for n := range 12 {
		tc.History = append(tc.History, done(n+1, "fs/read", `{}`, fmt.Sprintf("output %d", n+1)))
	}
	for status, want := range map[string]plannerv1.GoalResult{"COMPLETED": 0, "FAILED": plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED} {
		f := native(says("Done."))
		res, err := planner(t, f).GenerateAnswer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: tc, Subtasks: []*plannerv1.SubtaskState{
			{Id: "a", Title: "Read a", Status: status, Summary: "read"}}}, func(string) error { return nil })
		if err != nil || res.GetGoalResult() != want {
			t.Errorf("%s: %v %v", status, res, err)
		}
		if p := show(f.requests[0]); !strings.Contains(p, "- a "+status+": Read a — read") || !strings.Contains(p, "step-5 fs/read {} succeeded: output 5") || strings.Contains(p, "step-5 succeeded") {
			t.Error(p)
		}
	}
}
