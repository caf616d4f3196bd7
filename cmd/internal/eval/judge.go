package eval

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// judge compares the planned calls and the answer with the expected calls and answer.
func (r *caseRun) judge() {
	res := &r.result
	res.Refused = len(r.calls) == 0
	asked := len(r.calls) > 0 && len(r.calls[len(r.calls)-1].GetMissing()) > 0
	r.judgeAnswer()
	if r.c.Nothing {
		if !res.Refused {
			res.Problem = "a tool was called"
		}
		res.SilentWrong = !res.Refused && !asked
		return
	}
	right := r.rightCalls()
	res.RightInput = res.RightTool && right == len(r.c.Calls) && asked == r.c.Asks && res.RightAnswer
	res.SilentWrong = right < len(r.calls) && !asked
	if !res.RightTool && res.Problem == "" {
		res.Problem = "other calls were expected"
	}
	if asked != r.c.Asks && res.Problem == "" {
		res.Problem = map[bool]string{true: "a person is asked for a value that the goal contains", false: "a person is not asked for the missing value"}[asked]
	}
}

// judgeAnswer sets RightAnswer: whether the answer is right and no forbidden tool was called.
func (r *caseRun) judgeAnswer() {
	res := &r.result
	for _, s := range r.calls {
		if slices.ContainsFunc(r.c.Forbidden, func(name string) bool { return find(r.tools, name).GetId() == s.GetToolId() }) {
			res.Problem = s.GetToolId() + " must not be called"
		}
	}
	res.RightAnswer = res.Problem == ""
	for _, re := range r.c.answer {
		if r.answer == nil || !re.MatchString(*r.answer) {
			res.RightAnswer, res.Problem = false, fmt.Sprintf("the answer does not match %q", re)
		}
	}
}

// rightCalls returns the number of right calls before the first wrong one, and sets RightTool: whether all tools are right.
func (r *caseRun) rightCalls() (right int) {
	r.result.RightTool = len(r.calls) == len(r.c.Calls)
	for i, s := range r.calls {
		if i >= len(r.c.Calls) || !r.sameTool(r.c.Calls[i], s) {
			r.result.RightTool = false
			return right
		}
		if problem := r.compare(r.c.Calls[i], s); problem != "" {
			r.result.Problem = problem
		} else if right == i {
			right++
		}
	}
	return right
}

func (r *caseRun) sameTool(want Call, got *plannerv1.PlannedStep) bool {
	return slices.ContainsFunc(want.Tool, func(name string) bool { return find(r.tools, name).GetId() == got.GetToolId() })
}

// compare returns what is wrong with a call's input, or "".
func (r *caseRun) compare(want Call, step *plannerv1.PlannedStep) string {
	var input map[string]any
	if err := json.Unmarshal([]byte(step.GetInputJson()), &input); err != nil {
		return "the input is not a JSON object"
	}
	if r.c.Asks && len(step.GetMissing()) > 0 {
		return ""
	}
	defaults := defaultsOf(find(r.tools, step.GetToolId()))
	for name, value := range want.Input {
		got, ok := input[name]
		if !ok && slices.Contains(alternatives(value), nil) {
			continue
		} else if !ok {
			got = defaults[name]
		}
		if !slices.ContainsFunc(alternatives(value), func(v any) bool { return equal(v, got) }) {
			return fmt.Sprintf("%s is %v, not %v", name, got, value)
		}
	}
	for name, got := range input {
		if _, expected := want.Input[name]; !expected && !equal(defaults[name], got) {
			return fmt.Sprintf("%s is %v, but no value was expected", name, got)
		}
	}
	return ""
}

func alternatives(value any) []any {
	if m, ok := value.(map[string]any); ok && len(m) == 1 {
		if list, ok := m["any"].([]any); ok {
			return list
		}
	}
	return []any{value}
}

func defaultsOf(t *commonv1.Tool) map[string]any {
	var schema struct {
		Properties map[string]struct {
			Default any `json:"default"`
		} `json:"properties"`
	}
	out := map[string]any{}
	if json.Unmarshal([]byte(t.GetInputSchemaJson()), &schema) == nil {
		for name, p := range schema.Properties {
			out[name] = p.Default
		}
	}
	return out
}

// equal compares a value of YAML with a value of JSON. It compares numbers by value, and texts without regard to case, outer punctuation and
// redundant path elements.
func equal(want, got any) bool {
	switch w := want.(type) {
	case string:
		g, ok := got.(string)
		return ok && (plain(w) == plain(g) || path.Clean(w) == path.Clean(g))
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(w, g, equal)
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(w) != len(g) {
			return false
		}
		for k, v := range w {
			if !equal(v, g[k]) {
				return false
			}
		}
		return true
	}
	w, isNumber := number(want)
	if g, ok := number(got); isNumber && ok {
		return math.Abs(w-g) <= 1e-6*max(math.Abs(w), math.Abs(g))
	}
	return want == got
}

func plain(s string) string {
	return strings.ToLower(strings.Join(strings.Fields(strings.Trim(s, " .,;:!?'\"")), " "))
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
