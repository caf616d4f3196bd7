package mcpserver

import (
	"fmt"
	"slices"
	"strings"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/strictjson"
)

// Actions of an answer to an elicitation.
const (
	accepted  = "accept"
	declined  = "decline"
	dismissed = "cancel"
)

// maxShownInput bounds the input of a step in the text of a question, in bytes, as in the pool's approvals.
const maxShownInput = 4096

// inputRequest is a question to the client's user.
type inputRequest struct {
	Method string         `json:"method"`
	Params map[string]any `json:"params"`
}

// questions returns what a task waits for as elicitations, by wait, without the waits in except. all is false if the client cannot ask for one.
func (q *request) questions(task *executorv1.Task, except map[string]bool) (requests map[string]inputRequest, all bool) {
	requests = map[string]inputRequest{}
	for _, w := range task.GetWaits() {
		if except[w.GetId()] {
			continue
		}
		required := &mcppoolv1.CallInputRequired{InputId: task.GetId() + "/" + w.GetId(), Message: questionOf(w), SchemaJson: formOf(w), Url: w.GetUrl()}
		if !q.canAsk(required) {
			return nil, false
		}
		requests[w.GetId()] = inputRequest{"elicitation/create", q.elicitation(required)}
	}
	return requests, true
}

// questionOf is what a person reads about a wait.
func questionOf(w *executorv1.Wait) string {
	call := w.GetToolId() + " with the input " + shown(w.GetInputJson())
	switch w.GetKind() {
	case executorv1.WaitKind_WAIT_KIND_APPROVAL:
		risk := strings.ToLower(strings.TrimPrefix(w.GetRisk().GetLevel().String(), "RISK_LEVEL_"))
		return strings.TrimSpace(fmt.Sprintf("Allow the call of %s? Its risk is %s. %s", call, risk, w.GetMessage()))
	case executorv1.WaitKind_WAIT_KIND_OUTCOME:
		return fmt.Sprintf("It is not known whether the call of %s had its effect (%s). Look before you answer.", call, w.GetMessage())
	case executorv1.WaitKind_WAIT_KIND_PLAN:
		return "Confirm the plan: " + w.GetMessage()
	case executorv1.WaitKind_WAIT_KIND_PAUSE:
		return "The task is paused. Continue it? " + w.GetMessage()
	}
	return w.GetMessage()
}

func shown(input string) string {
	if len(input) <= maxShownInput {
		return input
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(input[:maxShownInput], ""), len(input))
}

const (
	emptyForm   = `{"type":"object","properties":{}}`
	outcomeForm = `{"type":"object","properties":{"decision":{"type":"string","enum":["retry","skip"],"description":"retry: call it again, so the effect may happen twice; ` +
		`skip: go on without it"}},"required":["decision"]}`
	wordsForm = `{"type":"object","properties":{"answer":{"type":"string","description":"The missing values, in your own words."}},"required":["answer"]}`
)

// formOf returns the form of a wait, in the part of JSON Schema that elicitations have.
func formOf(w *executorv1.Wait) string {
	switch w.GetKind() {
	case executorv1.WaitKind_WAIT_KIND_INPUT:
		return w.GetParamsSchemaJson()
	case executorv1.WaitKind_WAIT_KIND_PARAMS:
		return paramsForm(w.GetParamsSchemaJson())
	case executorv1.WaitKind_WAIT_KIND_OUTCOME:
		return outcomeForm
	}
	return emptyForm
}

// paramsForm returns the form for missing parameters, whose schemas also allow null: without that, if they are simple values, else one for words.
func paramsForm(schema string) string {
	o, err := strictjson.ParseObject(schema)
	if err != nil {
		return wordsForm
	}
	raw, _ := o.Get("properties")
	properties, err := strictjson.ParseObject(raw)
	if err != nil {
		return wordsForm
	}
	for _, name := range properties.Keys() {
		raw, _ := properties.Get(name)
		property, err := strictjson.ParseObject(raw)
		if err != nil {
			return wordsForm
		}
		kind, _ := property.Get("type")
		var kinds []string
		if strictjson.Kind(kind) == "array" {
			for item := range strictjson.Items(kind) {
				kinds = append(kinds, item)
			}
		} else {
			kinds = []string{kind}
		}
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == `"null"` })
		if len(kinds) != 1 || !slices.Contains([]string{`"string"`, `"number"`, `"integer"`, `"boolean"`}, kinds[0]) {
			return wordsForm
		}
		form := &strictjson.Object{}
		form.Set("type", kinds[0])
		for _, key := range []string{"title", "description"} {
			if value, ok := property.Get(key); ok {
				form.Set(key, value)
			}
		}
		properties.Set(name, form.String())
	}
	return `{"type":"object","properties":` + properties.String() + `}`
}

// answerWaits passes on the answers in params.inputResponses, and adds their waits to answered. left reports that a wait stays open, because it has no
// answer or the user did not decide.
func (q *request) answerWaits(id string, answered map[string]bool) (task *executorv1.Task, left bool, err error) {
	task, err = q.executor.GetTask(q.Context(), &executorv1.GetTaskRequest{Id: id})
	if err != nil {
		return nil, false, err
	}
	for _, w := range task.GetWaits() {
		answer := q.inputs.object(w.GetId())
		action := answer.text("action")
		if answer == nil || staysOpen(w, action) {
			left = true
			continue
		}
		if err := q.answerWait(task, w.GetId(), action, string(answer["content"])); err != nil {
			return nil, false, err
		}
		answered[w.GetId()] = true
	}
	return task, left, nil
}

// staysOpen reports whether an action answers no question.
func staysOpen(w *executorv1.Wait, action string) bool {
	return action == dismissed || action == declined && w.GetKind() == executorv1.WaitKind_WAIT_KIND_PAUSE
}

// answerWait passes the answer to a wait on. It does nothing if the wait is not open: someone else may have answered it.
func (q *request) answerWait(task *executorv1.Task, id, action, content string) error {
	i := slices.IndexFunc(task.GetWaits(), func(w *executorv1.Wait) bool { return w.GetId() == id })
	switch {
	case action != accepted && action != declined:
		return errorf(invalidParams, "the action of the answer is none of accept, decline, cancel")
	case i < 0:
		return nil
	}
	req := &executorv1.ResumeTaskRequest{Id: task.GetId(), WaitId: id}
	switch w := task.GetWaits()[i]; {
	case action == accepted:
		if err := accept(req, w, content); err != nil {
			return err
		}
	case w.GetKind() == executorv1.WaitKind_WAIT_KIND_INPUT:
		req.Answer = &executorv1.ResumeTaskRequest_Input{Input: &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_DECLINE}}
	default:
		req.Answer = &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: "declined in the MCP client"}}
	}
	_, err := q.executor.ResumeTask(q.Context(), req)
	return err
}

// accept sets the answer of a user who accepted the question of a wait, with the content of its form.
func accept(req *executorv1.ResumeTaskRequest, w *executorv1.Wait, content string) error {
	if strictjson.Kind(content) != "object" {
		content = "{}"
	}
	switch w.GetKind() {
	case executorv1.WaitKind_WAIT_KIND_INPUT:
		answer := &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_ACCEPT}
		if w.GetUrl() == "" {
			answer.ContentJson = content
		}
		req.Answer = &executorv1.ResumeTaskRequest_Input{Input: answer}
	case executorv1.WaitKind_WAIT_KIND_PARAMS:
		params := &executorv1.Params{ContentJson: content}
		if words := fieldsOf(content).text("answer"); words != "" && formOf(w) == wordsForm {
			params = &executorv1.Params{Description: words}
		}
		req.Answer = &executorv1.ResumeTaskRequest_Params{Params: params}
	case executorv1.WaitKind_WAIT_KIND_OUTCOME:
		outcome := &executorv1.OutcomeAnswer{}
		switch fieldsOf(content).text("decision") {
		case "retry":
			outcome.Answer = &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}
		case "skip":
			outcome.Answer = &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{}}
		default:
			return errorf(invalidParams, "the answer's decision is neither retry nor skip")
		}
		req.Answer = &executorv1.ResumeTaskRequest_Outcome{Outcome: outcome}
	case executorv1.WaitKind_WAIT_KIND_PAUSE:
		req.Answer = &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}}
	case executorv1.WaitKind_WAIT_KIND_APPROVAL, executorv1.WaitKind_WAIT_KIND_PLAN:
		req.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}
	default:
		return errorf(invalidParams, "this version of the gateway cannot answer a wait of kind %s", w.GetKind())
	}
	return nil
}

// answerTask passes on the answer to a question that a taskCall has asked on its stream.
func (q *request) answerTask(asked question, answer fields) error {
	task, err := q.executor.GetTask(q.Context(), &executorv1.GetTaskRequest{Id: asked.Task})
	if err != nil {
		return err
	}
	for _, w := range task.GetWaits() {
		switch {
		case w.GetId() != asked.Input:
		case !staysOpen(w, answer.text("action")):
			return q.answerWait(task, asked.Input, answer.text("action"), string(answer["content"]))
		default:
			if c, ok := q.calls.Load(asked.Call); ok {
				c.(*taskCall).dismiss(task)
			}
		}
	}
	return nil
}
