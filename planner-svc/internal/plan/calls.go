package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/jsonref"
	"pawl.dev/services/similar"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/result"
	"pawl.dev/planner-svc/internal/risk"
)

// maxSteps is how many calls of one turn become steps; the model has to repeat later calls in its next turn.
const maxSteps = 16

// text returns a member of the call's input as text, "" if the input lacks it.
func (c *call) text(key string) string {
	raw, _ := strictjson.Member(string(c.Input), key)
	return strictjson.Content(raw)
}

// readCall reads the arguments of a native call and removes the properties that withExtras added. It sets t.task to the first rating of the task.
func (c *conversation) readCall(modelCall *plannerv1.ModelToolCall, t *turn) call {
	raw := cmp.Or(strings.TrimSpace(modelCall.GetInputJson()), "{}")
	text := extractJSON(raw)
	if raw[0] == '{' && !strings.HasPrefix(raw, text) {
		text = raw // an object that was cut off; text is an object within it
	}
	doc, err := strictjson.ParseObject(text)
	if err != nil {
		return call{Tool: modelCall.GetName(), Input: json.RawMessage(raw), problem: fmt.Errorf("the arguments are not a JSON object: %w", err)}
	}
	tool := catalog.NewTool(c.all.Lookup(modelCall.GetName()))
	take := func(name string) string {
		raw, ok := doc.Get(name)
		if !ok || tool.Prop(name) != nil {
			return ""
		}
		doc.Delete(name)
		return raw
	}
	why, risk := strictjson.Content(take("pawl_why")), strictjson.Content(take("pawl_risk"))
	var task taskRating
	if json.Unmarshal([]byte(take("pawl_task")), &task) == nil && t.task.Name == "" {
		t.task = task
	}
	return call{Tool: modelCall.GetName(), Why: why, Risk: risk, Input: json.RawMessage(doc.String())}
}

// interpret sets the steps or the answer of t from the calls. It also sets the problem of each call, and returns the problems joined. If the first call is
// `finish`, the task ends with its goal not fulfilled. A later `finish` is dropped, because it cannot know the results of the calls before it.
func (c *conversation) interpret(t *turn, calls []call) error {
	if first := &calls[0]; first.Tool == finish && first.problem == nil {
		t.answer, t.goalResult = cmp.Or(strings.TrimSpace(first.text("answer")), t.text), plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
		if t.answer == "" {
			first.problem = errors.New("`answer` is missing: say what is missing and why")
		}
		return first.problem
	}
	next, _ := NextOrdinal(c.tc.GetHistory())
	var problems []error
	for i := range calls {
		call := &calls[i]
		if call.problem == nil && i < maxSteps && (i == 0 || call.Tool != finish && call.Tool != findTools) {
			var step *plannerv1.PlannedStep
			step, call.problem = c.plannedStep(call, next, len(t.steps))
			t.steps = append(t.steps, step)
		}
		problems = append(problems, call.problem)
	}
	return errors.Join(problems...)
}

// plannedStep checks the i-th call of a turn and returns its step. next is the ordinal of the turn's first step. The input of a call about a subtask
// is literal, and may not fit the tool's schema: the executor records such a call as failed, and the model sees it (D5).
func (c *conversation) plannedStep(call *call, next uint64, i int) (*plannerv1.PlannedStep, error) {
	if call.Tool == readOutput {
		return c.readOutputStep(call)
	}
	t := c.all.Lookup(call.Tool)
	if t == nil {
		return nil, c.unknownTool(call.Tool)
	}
	tool := catalog.NewTool(t)
	if c.subtask != nil {
		in, err := strictjson.ParseObject(string(call.Input))
		if err != nil {
			in = &strictjson.Object{}
		}
		return c.stepOf(call, tool, in, string(call.Input)), c.repeatedFailure(t.GetId(), string(call.Input))
	}
	text, unresolved, err := resolve(c.tc, string(call.Input), next, i)
	if err != nil {
		return nil, err
	}
	in, err := strictjson.ParseObject(text)
	if err != nil {
		return nil, err
	}
	if err := tool.Misfit(text); err != nil && !unresolved {
		return nil, err
	}
	step := c.stepOf(call, tool, in, in.String())
	if step.Missing, step.Unresolved = tool.Missing(in), unresolved; unresolved {
		step.Description = jsonref.Escape(step.Description)
	}
	return step, nil
}

// stepOf returns the step of a call. in is the input as far as it is known, text its exact JSON.
func (c *conversation) stepOf(call *call, tool *catalog.Tool, in *strictjson.Object, text string) *plannerv1.PlannedStep {
	why := lang.Clip(strings.Join(strings.Fields(call.Why), " "), maxWhy)
	l, rated := prompt.LangOf(c.tc), risk.Parse(call.Risk)
	return &plannerv1.PlannedStep{ToolId: tool.GetId(), Description: why, InputJson: text,
		Risk: risk.Raise(risk.Assess(l, tool, in), rated, l.Say("The model rates this call %s.", "模型将此调用评为 %s。", risk.Name(rated)))}
}

// maxWhy bounds a step's description, in characters.
const maxWhy = 200

// unknownTool returns the error for a name that no tool has. It names the nearest tools and adds them to the prompt.
func (c *conversation) unknownTool(name string) error {
	var aliases []string
	for _, t := range c.tc.GetTools() {
		aliases = append(aliases, Alias(t.GetId()))
	}
	slices.Sort(aliases)
	near := similar.Names(name, append(aliases, c.tools.ending.GetName(), readOutput))
	for _, alias := range near {
		c.tools.show(c.all.Lookup(alias))
	}
	if len(near) == 0 {
		for _, t := range c.tools.find(strings.NewReplacer("_", " ", "-", " ", "/", " ").Replace(name)) {
			near = append(near, Alias(t.GetId()))
		}
	}
	if len(near) == 0 {
		return fmt.Errorf("there is no tool %q", name)
	}
	return fmt.Errorf("there is no tool %q; the nearest are %s", name, strings.Join(near[:min(len(near), 5)], ", "))
}

// references matches references of the form that the prompt describes. An input without such a reference is literal, even if it contains `${`.
var references = regexp.MustCompile(`\$\{(step-\d+|goal)[.}]`)

// resolve puts the goal and the outputs of finished steps into the input of the i-th call of a turn. References to earlier calls of
// the turn stay, and make the input unresolved.
func resolve(tc *plannerv1.TaskContext, in string, next uint64, i int) (text string, unresolved bool, err error) {
	if !references.MatchString(in) {
		return in, false, nil
	}
	lookup := func(name string) (string, bool) {
		if name == "goal" {
			return strictjson.Quote(tc.GetGoal()), true
		}
		for _, e := range tc.GetHistory() {
			if e.GetStepId() == name && e.GetOutputJson() != "" {
				return e.GetOutputJson(), true
			}
		}
		return "", false
	}
	notYet := func(name string) (string, bool) {
		n, err := strconv.ParseUint(strings.TrimPrefix(name, StepPrefix), 10, 32)
		return name, err == nil && strings.HasPrefix(name, StepPrefix) && n >= next && n < next+uint64(i)
	}
	if text, unresolved, err = jsonref.Partial(in, lookup, notYet); err == nil && !unresolved {
		text, err = jsonref.Resolve(in, lookup)
	}
	if err != nil {
		return "", false, fmt.Errorf("a reference cannot be resolved: %w", err)
	}
	return text, unresolved, nil
}

// StepPrefix begins the id that a task gives to a step; the step's ordinal follows.
const StepPrefix = "step-"

// BranchStepPrefix begins the name that a reference gives to a step of its own branch; the step's number within the branch follows.
const BranchStepPrefix = "branch-step-"

// NextOrdinal returns the ordinal of the step after the history; false if the id of the last step has none.
func NextOrdinal(history []*plannerv1.HistoryEntry) (uint64, bool) {
	if len(history) == 0 {
		return 1, true
	}
	digits, ok := strings.CutPrefix(history[len(history)-1].GetStepId(), StepPrefix)
	n, err := strconv.ParseUint(digits, 10, 32)
	return n + 1, ok && err == nil
}

// readOverhead bounds the bytes that an output of read_output has besides the text.
const readOverhead = 200

// readOutputStep checks a call of read_output, which the executor serves, and returns its step. The step's limit is so small that the prompt
// shows its whole output, because the end of the output names the next offset.
func (c *conversation) readOutputStep(call *call) (*plannerv1.PlannedStep, error) {
	id := call.text("step")
	offset, err := strconv.Atoi(call.text("offset"))
	history := c.tc.GetHistory()
	i := slices.IndexFunc(history, func(e *plannerv1.HistoryEntry) bool { return e.GetStepId() == id })
	if i < 0 {
		return nil, fmt.Errorf("there is no finished step %q", id)
	}
	if err != nil || offset < 0 {
		return nil, errors.New("`offset` must be a number of bytes")
	}
	if n := len(result.Of(history[i]).Text()); offset >= n {
		return nil, fmt.Errorf("the output of %s has only %d bytes", id, n)
	}
	l := prompt.LangOf(c.tc)
	return &plannerv1.PlannedStep{
		ToolId: ReadOutputID, FromHistory: true, InputJson: fmt.Sprintf(`{"step":%s,"offset":%d,"limit":%d}`, strictjson.Quote(id), offset, c.outputLimit-readOverhead),
		Description: l.Say("Read on in the output of %s", "继续读取 %s 的输出", id),
		Risk:        &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: l.Pick("It only reads what is known already.", "只读取已有的内容。")},
	}, nil
}
