package plan

import (
	"context"
	"errors"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
)

// maxSearches is how often a model may search for tools before it must decide.
const maxSearches = 3

// turn is what a model decided: steps, or the answer if there are none.
type turn struct {
	steps  []*plannerv1.PlannedStep
	answer string
	goal   plannerv1.GoalResult
	text   string // what it wrote beside calls
	task   taskSaid
	memory *plannerv1.Memory // the summary of old steps, if one was made
}

// taskSaid is what the model says about the whole task with its first calls.
type taskSaid struct {
	Name string `json:"name"`
	Risk string `json:"risk"`
}

// call is a tool call as the model wants it.
type call struct {
	Tool  string      `json:"tool"`
	Why   string      `json:"why"`
	Risk  string      `json:"risk"`
	Input inputObject `json:"input"`
}

// turn asks the model for its next turn. A wrong turn goes back with the problem of each call. Searches for tools are answered on the way.
func (c *conversation) turn(ctx context.Context, g *gate) (t *turn, err error) {
	r := c.request()
	read, show := c.read, g.delta
	if c.inJSON {
		compiled, err := c.expect(r, llm.Output{Name: "turn", Schema: turnSchema})
		if err != nil {
			return nil, err
		}
		read = func(reply *llm.Reply) (*turn, []call, []error) { return readJSON(compiled, reply) }
		show = nil
	}
	searches := 0
	err = c.askUntilValid(ctx, r, show, func(reply *llm.Reply) *followUp {
		var calls []call
		var problems []error
		t, calls, problems = read(reply)
		if len(calls) > 0 && calls[0].Tool == findTools && problems[0] == nil && searches < maxSearches {
			searches++
			found := c.search(calls[0].Input.text("query"))
			return c.correct(r, g, reply, nil, func(int) string { return found })
		}
		if len(calls) > 0 {
			c.interpret(t, calls, problems)
		}
		if problem := errors.Join(problems...); problem != nil {
			return c.correct(r, g, reply, problem, func(i int) string {
				if problems[i] == nil {
					return c.renderPrompt("not_made", nil)
				}
				return c.renderPrompt("problem", problems[i].Error())
			})
		}
		return nil
	})
	return t, err
}

// read reads a reply: the answer, or calls with the problem of each. A problem without calls is about the whole reply.
func (c *conversation) read(reply *llm.Reply) (*turn, []call, []error) {
	t := &turn{text: strings.TrimSpace(reply.Text)}
	if len(reply.Calls) == 0 {
		if t.text == "" && reply.Stop != plannerv1.StopReason_STOP_REASON_REFUSED {
			return t, nil, []error{errors.New("the reply is empty")}
		}
		t.answer, t.goal = t.text+cutNote(c.tc, reply), goalOf(reply)
		return t, nil, nil
	}
	calls := make([]call, len(reply.Calls))
	problems := make([]error, len(reply.Calls))
	for i, rc := range reply.Calls {
		calls[i], problems[i] = c.readCall(rc, &t.task)
	}
	return t, calls, problems
}

// goalOf says whether an answer in free text fulfils the goal. The prompt asks for `finish` otherwise.
func goalOf(reply *llm.Reply) plannerv1.GoalResult {
	switch reply.Stop {
	case plannerv1.StopReason_STOP_REASON_REFUSED, plannerv1.StopReason_STOP_REASON_MAX_TOKENS:
		return plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
	}
	return plannerv1.GoalResult_GOAL_RESULT_FULFILLED
}

// cutNote is the end of an answer that the limit of tokens cut off; empty for others.
func cutNote(tc *plannerv1.TaskContext, reply *llm.Reply) string {
	if reply.Stop != plannerv1.StopReason_STOP_REASON_MAX_TOKENS {
		return ""
	}
	return "\n\n" + prompt.LangOf(tc).Pick("[The answer was cut off at the limit of tokens.]", "［答案因达到 token 上限而被截断。］")
}

// turnSchema is the form of a turn of models without native tools.
const turnSchema = `{"type":"object","properties":{"calls":{"type":"array","maxItems":16,"items":{"type":"object","properties":{` +
	`"tool":{"type":"string"},"why":{"type":"string"},"risk":{"type":"string","enum":["LOW","MEDIUM","HIGH"]},"input":{"type":"object"}},"required":["tool","input"]}},` +
	`"answer":{"type":"string"},"fulfilled":{"type":"boolean"},` +
	`"task":{"type":"object","properties":{"name":{"type":"string"},"risk":{"type":"string","enum":["LOW","MEDIUM","HIGH"]}}}}}`

// readJSON is read for models without native tools; s is turnSchema.
func readJSON(s *schema.Schema, reply *llm.Reply) (*turn, []call, []error) {
	a, err := decode(s, reply, func(a *struct {
		Calls     []call
		Answer    string
		Fulfilled *bool
		Task      taskSaid
	}) error {
		if len(a.Calls) == 0 && strings.TrimSpace(a.Answer) == "" {
			return errors.New("there are neither calls nor an answer")
		}
		return nil
	})
	if err != nil {
		return nil, nil, []error{err}
	}
	t := &turn{task: a.Task}
	if len(a.Calls) == 0 {
		t.answer, t.goal = strings.TrimSpace(a.Answer), plannerv1.GoalResult_GOAL_RESULT_FULFILLED
		if a.Fulfilled != nil && !*a.Fulfilled {
			t.goal = plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
		}
	}
	return t, a.Calls, make([]error, len(a.Calls))
}

// correct answers each call of a reply, as providers demand; problem is nil if nothing is wrong. The tools may have grown.
func (c *conversation) correct(r *llm.Request, g *gate, reply *llm.Reply, problem error, text func(i int) string) *followUp {
	g.next()
	switch {
	case c.inJSON && problem != nil:
		return c.correctJSON(reply, problem)
	case c.inJSON:
		return &followUp{nil, []*plannerv1.ModelMessage{llm.AssistantText(reply.Text), llm.UserText(text(0))}}
	case len(reply.Calls) == 0:
		return &followUp{problem, []*plannerv1.ModelMessage{llm.UserText(c.renderPrompt("empty", nil))}}
	}
	r.Tools = c.tools.native()
	answer := llm.Said(plannerv1.ModelRole_MODEL_ROLE_USER)
	for i, rc := range reply.Calls {
		answer.Parts = append(answer.Parts, llm.Result(&plannerv1.ModelToolResult{CallId: rc.GetId(), Text: text(i), IsError: problem != nil}))
	}
	return &followUp{problem, []*plannerv1.ModelMessage{reply.Message(), answer}}
}

// search finds tools for the model and says which ones it found.
func (c *conversation) search(query string) string {
	var found []*plannerv1.ModelTool
	for _, t := range c.tools.find(query) {
		found = append(found, nativeTool(t))
	}
	return c.renderPrompt("found", found)
}
