package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
)

// maxSearches is how often a model may search for tools before it must decide.
const maxSearches = 3

// turn is what a model decided: steps, or the answer if there are none.
type turn struct {
	steps      []*plannerv1.PlannedStep
	answer     string
	goalResult plannerv1.GoalResult
	text       string // of the reply; of models without native tools only about a subtask
	task       taskRating
	memory     *plannerv1.Memory // the new summary of old steps, or nil

	reflection *plannerv1.Reflection // on the subtask; nil if the model gave none
	planChange *plannerv1.PlanChange // nil if the plan should not change
}

// taskRating is the name and the risk that the model gives to the whole task, with its first calls.
type taskRating struct{ Name, Risk string }

// call is a tool call as the model wants it.
type call struct {
	Tool, Why, Risk string
	Input           json.RawMessage // exact JSON of an object
	problem         error           // why the call cannot be made; nil if it can
}

// nextTurn asks the model for its next turn. It returns the problems of an invalid turn to the model, which then corrects the turn. If the first call
// (of a subtask any call) is find_tools, the model gets the tools found, up to maxSearches times; such a turn is not a failed attempt.
func (c *conversation) nextTurn(ctx context.Context, g *gate) (t *turn, err error) {
	read, show := c.read, g.delta
	if c.inJSON {
		form := "turn"
		if c.subtask != nil {
			form = "thought"
		}
		compiled, err := c.expect(c.request, llm.Output{Name: "turn", Schema: prompt.Schema(form)})
		if err != nil {
			return nil, err
		}
		read = func(reply *llm.Reply) (*turn, []call, error) { return readJSON(compiled, reply) }
		show = nil
	}
	if show != nil {
		c.request.Restart = g.restart
	}
	searches, failures := 0, 0
	err = c.askUntilValid(ctx, c.request, show, func(reply *llm.Reply) (messages []*plannerv1.ModelMessage, problem error) {
		var calls []call
		t, calls, problem = read(reply)
		at := slices.IndexFunc(calls, func(call call) bool { return call.Tool == findTools && call.problem == nil })
		if (at == 0 || at > 0 && c.subtask != nil) && searches < maxSearches {
			searches++
			var found []*plannerv1.ModelTool
			for _, match := range c.tools.find(calls[at].text("query")) {
				tool := modelTool(match, c.inJSON)
				if !c.inJSON {
					tool.InputSchemaJson = "" // the request's tools have it
				}
				found = append(found, tool)
			}
			return c.respond(g, reply, nil, func(int) string { return prompt.Render("found", c.tc, found) }), nil
		}
		switch c.lastTry = failures+1 >= c.tries; {
		case len(calls) == 0:
		case c.subtask != nil:
			problem = c.interpretThought(ctx, t, calls)
		default:
			problem = c.interpret(t, calls)
		}
		if problem == nil {
			return nil, nil
		}
		failures++
		return c.respond(g, reply, problem, func(i int) string {
			if calls[i].problem == nil {
				return prompt.Render("not_made", c.tc, nil)
			}
			return prompt.Render("problem", c.tc, calls[i].problem.Error())
		}), problem
	})
	return t, err
}

// read returns a reply's answer, or its calls with the problem of each. It returns an error only for an empty reply.
func (c *conversation) read(reply *llm.Reply) (*turn, []call, error) {
	t := &turn{text: strings.TrimSpace(reply.Text)}
	if len(reply.Calls) == 0 {
		if t.text == "" && reply.Stop != plannerv1.StopReason_STOP_REASON_REFUSED {
			return t, nil, errors.New("the reply is empty")
		}
		t.answer, t.goalResult = t.text+cutNote(c.tc, reply), goalResultOf(reply)
		return t, nil, nil
	}
	calls := make([]call, len(reply.Calls))
	for i, rc := range reply.Calls {
		if calls[i] = c.readCall(rc, t); calls[i].problem != nil && reply.Stop == plannerv1.StopReason_STOP_REASON_MAX_TOKENS {
			calls[i].problem = fmt.Errorf("the arguments were cut off, because a reply has at most %d tokens: write less at once, such as a part of a file", c.request.MaxTokens)
		}
	}
	return t, calls, nil
}

// goalResultOf returns the goal result of an answer in free text. It is FULFILLED unless the answer was refused or cut off, because the prompt tells the
// model to call `finish` if it cannot reach the goal.
func goalResultOf(reply *llm.Reply) plannerv1.GoalResult {
	switch reply.Stop {
	case plannerv1.StopReason_STOP_REASON_REFUSED, plannerv1.StopReason_STOP_REASON_MAX_TOKENS:
		return plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
	}
	return plannerv1.GoalResult_GOAL_RESULT_FULFILLED
}

// cutNote returns the note that ends an answer cut off at the token limit, "" for other answers.
func cutNote(tc *plannerv1.TaskContext, reply *llm.Reply) string {
	if reply.Stop != plannerv1.StopReason_STOP_REASON_MAX_TOKENS {
		return ""
	}
	return "\n\n" + prompt.LangOf(tc).Pick("[The answer was cut off at the token limit.]", "［答案因达到 token 上限而被截断。］")
}

// readJSON is read for models without native tools. s is the schema of a turn, or of a thought about a subtask.
func readJSON(s *schema.Schema, reply *llm.Reply) (*turn, []call, error) {
	a, err := decode[struct {
		Calls     []call
		Thought   string
		Answer    string
		Fulfilled *bool
		Task      taskRating
	}](s, reply)
	if err != nil {
		return nil, nil, err
	}
	t := &turn{task: a.Task, text: strings.TrimSpace(a.Thought)}
	if len(a.Calls) == 0 {
		t.answer, t.goalResult = cmp.Or(strings.TrimSpace(a.Answer), t.text), plannerv1.GoalResult_GOAL_RESULT_FULFILLED
		if a.Fulfilled != nil && !*a.Fulfilled {
			t.goalResult = plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
		}
		if t.answer == "" {
			return nil, nil, errors.New("there are neither calls nor a text")
		}
	}
	return t, a.Calls, nil
}

// respond returns the messages to append to the request: the reply and the response to it. The response answers native call i with text(i), because
// providers demand an answer to each call. It answers a reply in JSON with the problem, or with text(0) if problem is nil. respond also updates the
// request's tools and prepares the gate for the next reply.
func (c *conversation) respond(g *gate, reply *llm.Reply, problem error, text func(i int) string) []*plannerv1.ModelMessage {
	g.next()
	switch {
	case c.inJSON && problem != nil:
		return c.correctJSON(reply, problem)
	case c.inJSON:
		return []*plannerv1.ModelMessage{llm.AssistantText(reply.Text), llm.UserText(text(0))}
	case len(reply.Calls) == 0:
		return []*plannerv1.ModelMessage{llm.UserText(prompt.Render("empty", c.tc, nil))}
	}
	c.request.Tools = c.tools.modelTools(false)
	answer := llm.Message(plannerv1.ModelRole_MODEL_ROLE_USER)
	for i, rc := range reply.Calls {
		answer.Parts = append(answer.Parts, llm.Result(&plannerv1.ModelToolResult{CallId: rc.GetId(), Text: text(i), IsError: problem != nil}))
	}
	return []*plannerv1.ModelMessage{reply.Message(), answer}
}

// holdBack is how many bytes of a reply are held back before it is shown as the answer. Models often announce a tool call in a short sentence, which
// is not the answer (decision 0038).
const holdBack = 120

// gate shows the text of a reply as the answer while it arrives, up to the first tool call. It trims the space around the text.
type gate struct {
	emit     func(text string) error // nil: nothing is shown
	holdBack int

	shown   strings.Builder // of all replies
	held    string          // text of this reply that is not shown yet
	showing bool            // the text of this reply is shown as it arrives
	closed  bool            // delta shows no more text: the reply calls a tool, or an earlier reply of the turn was shown
}

// delta takes a piece of a reply.
func (g *gate) delta(d llm.Delta) error {
	g.closed = g.closed || d.Call
	if g.emit == nil || g.closed {
		return nil
	}
	if g.held += d.Text; !g.showing {
		g.held = strings.TrimLeftFunc(g.held, unicode.IsSpace)
		g.showing = len(g.held) > 0 && len(g.held) >= g.holdBack
	}
	if !g.showing {
		return nil
	}
	text := strings.TrimRightFunc(g.held, unicode.IsSpace)
	g.held = g.held[len(text):]
	return g.show(text)
}

func (g *gate) show(text string) error {
	g.shown.WriteString(text)
	if g.emit == nil || text == "" {
		return nil
	}
	return g.emit(text)
}

// restart drops the reply, so that its request can be repeated. It reports false if a part of the reply was shown.
func (g *gate) restart() bool {
	if !g.showing {
		g.next()
	}
	return !g.showing
}

// next prepares for the next reply. If text was shown already, only finish shows more.
func (g *gate) next() {
	g.held, g.showing, g.closed = "", false, g.shown.Len() > 0
}

// finish shows the rest of the answer, and returns all text that was shown.
func (g *gate) finish(answer string) (string, error) {
	rest, isBegun := strings.CutPrefix(answer, g.shown.String())
	if !isBegun {
		rest = "\n\n" + answer
	}
	err := g.show(rest)
	return g.shown.String(), err
}
