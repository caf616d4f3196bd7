package plan

import (
	"context"
	"errors"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

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
	ID    string      // of a native call
	Tool  string      `json:"tool"`
	Why   string      `json:"why"`
	Risk  string      `json:"risk"`
	Input inputObject `json:"input"`
}

// turn asks the model for its next turn. A wrong turn goes back with the problem of each call, m.tries tries in all. Searches for tools are
// answered on the way.
func (c *conversation) turn(ctx context.Context, g *gate) (*turn, error) {
	if c.inJSON {
		return c.turnInJSON(ctx)
	}
	r := c.request()
	searches := 0
	for try := 1; ; {
		reply, err := c.s.generate(ctx, r, g.delta)
		if err != nil {
			return nil, err
		}
		if query, ok := searchOf(reply); ok && searches < maxSearches {
			page, err := c.search(query)
			if err != nil {
				return nil, c.s.fail(err)
			}
			searches++
			r.Tools = c.tools.native()
			r.Messages = append(r.Messages, reply.Message(), results(reply, func(i int) string { return page }))
			g.next()
			continue
		}
		t, problems := c.read(reply)
		if problems == nil {
			return t, nil
		}
		c.s.wrong(ctx, try, reply, errors.Join(problems...))
		if try >= c.m.tries {
			return nil, c.s.unusable(try, errors.Join(problems...).Error())
		}
		try++
		if err := c.correct(r, reply, problems); err != nil {
			return nil, c.s.fail(err)
		}
		r.Tools = c.tools.native()
		g.next()
	}
}

// read interprets a reply. problems has an entry for each call, nil for the right ones; it is nil if all are right.
func (c *conversation) read(reply *llm.Reply) (t *turn, problems []error) {
	text := strings.TrimSpace(reply.Text)
	if len(reply.Calls) == 0 {
		if text == "" && reply.Stop != llm.StopRefused {
			return nil, []error{errEmpty}
		}
		return &turn{answer: text, text: text, goal: goalOf(reply)}, nil
	}
	t = &turn{text: text}
	calls := make([]call, len(reply.Calls))
	problems = make([]error, len(reply.Calls))
	for i, rc := range reply.Calls {
		calls[i], problems[i] = c.readCall(rc, &t.task)
	}
	return c.interpret(t, calls, problems)
}

var errEmpty = errors.New("the reply is empty")

// goalOf says whether an answer in free text fulfils the goal. The prompt asks for `finish` otherwise.
func goalOf(reply *llm.Reply) plannerv1.GoalResult {
	switch reply.Stop {
	case llm.StopRefused:
		return plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
	case llm.StopMaxTokens:
		return plannerv1.GoalResult_GOAL_RESULT_UNSPECIFIED // it is cut off
	}
	return plannerv1.GoalResult_GOAL_RESULT_FULFILLED
}

// correct appends the reply and what is wrong with it. Each call gets a result, as providers demand.
func (c *conversation) correct(r *llm.Request, reply *llm.Reply, problems []error) error {
	if len(reply.Calls) == 0 {
		page, err := c.m.prompts.Render("empty", c.s.tc, nil)
		r.Messages = append(r.Messages, llm.UserText(page))
		return err
	}
	notMade, err := c.m.prompts.Render("not_made", c.s.tc, nil)
	if err != nil {
		return err
	}
	pages := make([]string, len(problems))
	for i, p := range problems {
		pages[i] = notMade
		if p != nil {
			if pages[i], err = c.m.prompts.Render("problem", c.s.tc, p.Error()); err != nil {
				return err
			}
		}
	}
	wrong := results(reply, func(i int) string { return pages[i] })
	for i := range wrong.Parts {
		wrong.Parts[i].Result.IsError = true
	}
	r.Messages = append(r.Messages, reply.Message(), wrong)
	return nil
}

// results returns the message that answers each call of a reply.
func results(reply *llm.Reply, text func(i int) string) llm.Message {
	m := llm.Message{Role: llm.User}
	for i, rc := range reply.Calls {
		m.Parts = append(m.Parts, llm.Part{Kind: llm.ResultPart, Result: llm.ToolResult{CallID: rc.ID, Text: text(i)}})
	}
	return m
}

// search finds tools for the model and says which ones it found.
func (c *conversation) search(query string) (string, error) {
	found := c.tools.find(query)
	list := make([]llm.Tool, 0, len(found))
	for _, t := range found {
		one := nativeTool(t)
		one.Parameters = prompt.Schema(t)
		list = append(list, one)
	}
	return c.m.prompts.Render("found", c.s.tc, list)
}

// turnSchema is the form of a turn of models without native tools.
const turnSchema = `{"type":"object","properties":{"calls":{"type":"array","maxItems":16,"items":{"type":"object","properties":{` +
	`"tool":{"type":"string"},"why":{"type":"string"},"risk":{"type":"string","enum":["LOW","MEDIUM","HIGH"]},"input":{"type":"object"}},"required":["tool","input"]}},` +
	`"answer":{"type":"string"},"fulfilled":{"type":"boolean"},` +
	`"task":{"type":"object","properties":{"name":{"type":"string"},"risk":{"type":"string","enum":["LOW","MEDIUM","HIGH"]}}}}}`

// turnInJSON is turn for models without native tools.
func (c *conversation) turnInJSON(ctx context.Context) (*turn, error) {
	r := c.request()
	for searches := 0; ; searches++ {
		var t *turn
		answer, err := ask(ctx, c.m, c.s, r, llm.Output{Name: "turn", Schema: turnSchema}, func(a *turnAnswer) error {
			if len(a.Calls) > 0 && a.Calls[0].Tool == findTools && searches < maxSearches {
				return nil
			}
			var problems []error
			t, problems = c.readJSON(a)
			return errors.Join(problems...)
		})
		if err != nil {
			return nil, err
		}
		if t != nil {
			return t, nil
		}
		page, err := c.search(answer.Calls[0].Input.text("query"))
		if err != nil {
			return nil, c.s.fail(err)
		}
		r = c.request()
		r.Messages = append(r.Messages, llm.UserText(page))
	}
}

// turnAnswer is a turn of turnSchema.
type turnAnswer struct {
	Calls     []call   `json:"calls"`
	Answer    string   `json:"answer"`
	Fulfilled *bool    `json:"fulfilled"`
	Task      taskSaid `json:"task"`
}

func (c *conversation) readJSON(a *turnAnswer) (*turn, []error) {
	if len(a.Calls) == 0 {
		if strings.TrimSpace(a.Answer) == "" {
			return nil, []error{errors.New("there are neither calls nor an answer")}
		}
		goal := plannerv1.GoalResult_GOAL_RESULT_FULFILLED
		if a.Fulfilled != nil && !*a.Fulfilled {
			goal = plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
		}
		return &turn{answer: strings.TrimSpace(a.Answer), goal: goal}, nil
	}
	problems := make([]error, len(a.Calls))
	return c.interpret(&turn{task: a.Task}, a.Calls, problems)
}
