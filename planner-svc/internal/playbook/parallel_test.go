package playbook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/offline"
)

const beside = `
steps:
- {id: find, tool: ws/find, input: {pattern: x}}
- parallel:
  - steps:
    - {id: a1, tool: ws/read, input: {x: "${find.message}"}}
    - {id: a2, tool: ws/read, if: "steps.a1.status == 'success'", input: {x: "${a1.message}"}}
  - steps:
    - {id: b, tool: ws/delete, foreach: [1, 2], input: {i: "${item}"}, retry: {attempts: 2}}
  - steps:
    - {id: c, tool: ws/read, if: "goal == 'another'"}
- {tool: ws/read, input: {all: ["${a2.message}", "${b}"]}, if: "steps.c.status == 'skipped'"}
answer: ${a2.message}
`

// of is a step of a branch.
func of(branch string, e *plannerv1.HistoryEntry) *plannerv1.HistoryEntry {
	e.Branch = branch
	return e
}

// onLine plans a line, and returns its steps, the branches that are due, or the error, in one line each.
func onLine(t *testing.T, branch string, tc *plannerv1.TaskContext) string {
	t.Helper()
	tc.Branch = branch
	res, err := New(offline.New()).PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc}, nil)
	if err != nil {
		return "error: " + errs.From(err).Message
	}
	lines := res.GetBranches()
	for _, s := range res.GetSteps() {
		lines = append(lines, tell(s))
	}
	return strings.Join(lines, "\n")
}

// A branch is planned ahead with references to its own steps, which it numbers itself.
func TestBranchesArePlannedAhead(t *testing.T) {
	const book = `
steps:
- {id: find, tool: ws/find}
- parallel:
  - steps:
    - {id: a, tool: ws/read, input: {x: "${find.message}"}}
    - {id: b, tool: ws/read, input: {x: "${a.message}"}}
    - {id: c, tool: ws/read, input: {x: "${a.message} ${b.message} ${find.message}"}}
  - steps:
    - {id: other, tool: ws/read}
`
	find, a, other := ok("ws/find", `{"message":"f"}`), of("p2.1", ok("ws/read", `{"message":"r"}`)), of("p2.2", ok("ws/read", "{}"))
	const end = "\nFINAL   The branch is done."
	for name, c := range map[string]struct {
		history []*plannerv1.HistoryEntry
		want    string
	}{
		"from the start": {list(find), `ws/read {"x":"f"} LOW a
ws/read {"x":"${branch-step-1.message}"} LOW b
ws/read {"x":"${branch-step-1.message} ${branch-step-2.message} f"} LOW c` + end},
		"from the middle, beside another branch": {list(find, other, a), `ws/read {"x":"r"} LOW b
ws/read {"x":"r ${branch-step-2.message} f"} LOW c` + end},
	} {
		if d := cmp.Diff(c.want, onLine(t, "p2.1", context_(book, c.history...))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// The main line names the branches that are due; each is planned by itself, ahead too, and the main line goes on once all have ended.
func TestParallel(t *testing.T) {
	find, a1 := ok("ws/find", `{"message":"f"}`), of("p2.1", ok("ws/read", `{"message":"r1"}`))
	a2, b1, b2 := of("p2.1", ok("ws/read", `{"message":"r2"}`)), of("p2.2", ok("ws/delete", `{"message":"d1"}`)), of("p2.2", ok("ws/delete", `{"message":"d2"}`))
	broken := of("p2.1", bad("ws/read", "gone"))
	const branchDone, branchB2 = "FINAL   The branch is done.", `ws/delete {"i":2} MEDIUM b (item 2 of 2)`
	for name, c := range map[string]struct {
		branch  string
		history []*plannerv1.HistoryEntry
		want    string
	}{
		"before":              {"", nil, `ws/find {"pattern":"x"} LOW find`},
		"a branch too early":  {"p2.1", nil, `error: the branch "p2.1" of the playbook does not run at this point`},
		"the branches":        {"", list(find), "p2.1\np2.2"},
		"the first":           {"p2.1", list(find), `ws/read {"x":"f"} LOW a1`},
		"the first goes on":   {"p2.1", list(find, b1, a1), "ws/read {\"x\":\"r1\"} LOW a2\n" + branchDone},
		"the second":          {"p2.2", list(find, a1), "ws/delete {\"i\":1} MEDIUM b (item 1 of 2)\n" + branchB2 + "\n" + branchDone},
		"the second again":    {"p2.2", list(find, a1, of("p2.2", bad("ws/delete", "lock"))), "ws/delete {\"i\":1} MEDIUM b (item 1 of 2)\n" + branchB2 + "\n" + branchDone},
		"the third is empty":  {"p2.3", list(find), branchDone},
		"one has ended":       {"", list(find, a1, a2, b1), "p2.2"},
		"all have ended":      {"", list(find, b1, a1, a2, b2), "ws/read {\"all\":[\"r2\",[{\"message\":\"d1\"},{\"message\":\"d2\"}]]} LOW Step 6 of 6\nFINAL   The playbook is done."},
		"after the end":       {"p2.1", list(find, b1, a1, a2, b2, ok("ws/read", "{}")), branchDone},
		"one failed":          {"p2.1", list(find, broken, b1), "FINAL   The branch ends early: step 2 (a1) (ws/read) of the playbook failed: gone"},
		"beside one failed":   {"p2.2", list(find, broken, b1), branchB2 + "\n" + branchDone},
		"while others run":    {"", list(find, broken, b1), "p2.2"},
		"no other runs":       {"", list(find, broken, b1, b2), "error: step 2 (a1) (ws/read) of the playbook failed: gone"},
		"no such branch":      {"p2.4", list(find), `error: the branch "p2.4" of the playbook does not run at this point`},
		"no such branch done": {"", list(find, of("p3.1", ok("ws/read", "{}")), a1, a2, b1, b2), "error: the task has done 6 steps, but the playbook has 5; it is not the playbook that the task began with"},
		"another tool":        {"", list(find, a1, a2, of("p2.2", ok("ws/read", "{}"))), "error: step 4 (b) of the playbook calls ws/delete, but the task called ws/read there; it is not the playbook that the task began with"},
	} {
		if d := cmp.Diff(c.want, onLine(t, c.branch, context_(beside, c.history...))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	tc := context_(beside, list(find, b1, broken)...)
	text, err := answerOf(t, tc, "stopped")
	want := "The playbook ended early: stopped\n\nThe goal\n\n1. find (ws/find) — done: f\n2. a1 (ws/read) — failed: gone\n3. ws/read — not reached\n4. b (item 1 of 2) (ws/delete) — done: d1\n" +
		"5. ws/read — skipped: its condition is false\n6. ws/read — not reached"
	if d := cmp.Diff(want, text); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	if text, err = answerOf(t, context_(beside, list(find, b1, a1, a2, b2, ok("ws/read", "{}"))...), ""); err != nil || text != "r2" {
		t.Errorf("%q %v", text, err)
	}
	if _, err := inputOf(t, "ws/read", "", "", context_(beside, find)); err == nil || !strings.Contains(err.Error(), "but branches") {
		t.Error(err)
	}
}

func list(entries ...*plannerv1.HistoryEntry) (all []*plannerv1.HistoryEntry) {
	for i, e := range entries {
		e.StepId = fmt.Sprintf("step-%d", i+1)
		all = append(all, e)
	}
	return all
}

// A branch may refer to what ran before the block and to its own steps; a `foreach` counts the steps before it, not those beside it.
func TestParallelIsChecked(t *testing.T) {
	const book = "steps:\n- {id: x, tool: a/b}\n- parallel:\n  - steps: [{id: y, tool: a/b, input: {of: \"${x.m}\"}}, {tool: a/b, if: \"steps.y.status == 'success'\"}]\n  - steps: [%s]\n- {tool: a/b%s}\n"
	for name, c := range map[string]struct{ step, last, want string }{
		"a sibling":              {`{id: z, tool: a/b, input: {of: "${y.m}"}}`, "", "line 5: step 4 (z) refers to ${y.m}, but y is in another branch, which runs at the same time; steps after the block can refer to it"},
		"a sibling's status":     {`{tool: a/b, if: "steps.y.status == 'success'"}`, "", "step 4 refers to steps.y, but y is in another branch"},
		"no such step":           {`{tool: a/b, input: {of: "${none}"}}`, "", "step 4 refers to ${none}, but no step before it is called none; it can refer to goal, x\n"},
		"a default id":           {`{id: step5, tool: a/b}`, "", "line 6: the id step5 is taken by step 4"},
		"a mistake in a branch":  {`{tool: nope}`, "", "line 5: step 2: parallel.1.steps.0.tool: must match"},
		"a mistake after it":     {`{tool: a/b}`, ", on_error: no", "line 6: step 5: on_error: must be one of"},
		"a block in a branch":    {`{parallel: [{steps: [{tool: a/b}]}]}`, "", `has unknown property "parallel"`},
		"a condition on a block": {`{tool: a/b}`, "}\n- {if: goal == 'x', parallel: [{steps: [{tool: a/b}]}]", `line 7: step 6: has unknown property "if"`},
		"no branch":              {`{tool: a/b}`, "}\n- {parallel: []", "step 6: parallel: must have at least 1 item, has 0; it is a list of branches"},
		"an empty branch":        {`{tool: a/b}`, "}\n- {parallel: [{steps: []}]", "parallel.0.steps: must have at least 1 item"},
		"a branch of one step":   {`{tool: a/b}`, "}\n- {parallel: [{tool: a/b}]", `parallel.0: required property "steps" is missing`},
		"too many branches":      {`{tool: a/b}`, "}\n- {parallel: [" + strings.Repeat("{steps: [{tool: a/b}]},", 33) + "]", "must have at most 32 items, has 33"},
		"neither":                {`{tool: a/b}`, "}\n- {id: q", `required property "tool" is missing`},
	} {
		_, err := Parse(fmt.Sprintf(book, c.step, c.last))
		e := errs.From(err)
		if e == nil || e.Code != codes.InvalidArgument || e.Reason != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all := ""
		for _, v := range e.Violations {
			all += v.Description + "\n"
		}
		if !strings.Contains(all, c.want) {
			t.Errorf("%s: lacks %q:\n%s", name, c.want, all)
		}
	}
	p, err := Parse(fmt.Sprintf(book, `{tool: a/c}`, `, input: {of: ["${y.m}", "${step4.m}"]}`))
	if err != nil || len(p.Steps) != 5 || len(p.ToolIDs()) != 2 {
		t.Errorf("%v %v", p, err)
	}
	tc := context_(strings.ReplaceAll(beside, "[1, 2]", "[1, 2, 3]"), list(ok("ws/find", `{"message":"f"}`), of("p2.1", ok("ws/read", "{}")), of("p2.1", ok("ws/read", "{}")))...)
	tc.MaxSteps = 4
	if got := onLine(t, "p2.2", tc); !strings.HasPrefix(got, "ws/delete") {
		t.Error(got)
	}
	tc.MaxSteps = 3
	if got := onLine(t, "p2.2", tc); !strings.Contains(got, "FINAL   The branch ends early: step 4 (b) (ws/delete): its `foreach` has 3 items, and the task may take 3 steps, of which 1 come before") {
		t.Error(got)
	}
}
