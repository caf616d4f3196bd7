package openai

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/stream"
)

// responder makes a response of the messages of a call, and the events that stream it. It implements stream.Framing. The events of a task always give the same
// events of a response, with the same numbers.
type responder struct {
	*response
	source source
	task   *responseID // nil if no task answers
	// answered are waits that the request has answered: to stop for them alone does not end the response.
	answered []string
	// streamed reports that events are wanted, from the number first on.
	streamed bool
	first    int

	events bytes.Buffer // not sent yet
	number int          // of the next event
	begun  bool
	ended  bool
	asked  bool           // a person was asked something
	text   *openText      // the item that is written
	calls  map[string]int // the indexes of open calls of tools, by their ids
}

// openText is a message, or a part of the reasoning, that is written.
type openText struct {
	index     int
	id        string
	reasoning bool
	text      strings.Builder
}

// responseEvent is an event of a response. Its members depend on the type.
type responseEvent struct {
	Type         string      `json:"type"`
	Number       int         `json:"sequence_number"`
	Response     *response   `json:"response,omitzero"`
	OutputIndex  *int        `json:"output_index,omitzero"`
	ItemID       string      `json:"item_id,omitzero"`
	ContentIndex *int        `json:"content_index,omitzero"`
	SummaryIndex *int        `json:"summary_index,omitzero"`
	Item         any         `json:"item,omitzero"`
	Part         *textPart   `json:"part,omitzero"`
	Delta        *string     `json:"delta,omitzero"`
	Text         *string     `json:"text,omitzero"`
	Name         string      `json:"name,omitzero"`
	Arguments    *string     `json:"arguments,omitzero"`
	Logprobs     *[]struct{} `json:"logprobs,omitzero"`
	Code         string      `json:"code,omitzero"`
	Message      string      `json:"message,omitzero"`
}

// emit adds an event to those that are to be sent.
func (r *responder) emit(name string, e responseEvent) {
	e.Type, e.Number = name, r.number
	r.number++
	if !r.streamed || e.Number < r.first {
		return
	}
	data, err := json.Marshal(e)
	if err != nil { // as in write
		panic(err)
	}
	r.events.WriteString("event: " + name + "\ndata: ")
	r.events.Write(data)
	r.events.WriteString("\n\n")
}

// take returns the events that were not sent yet.
func (r *responder) take() []byte {
	out := bytes.Clone(r.events.Bytes())
	r.events.Reset()
	return out
}

func (r *responder) begin() {
	if r.begun {
		return
	}
	r.begun = true
	if r.task != nil {
		r.ID, r.Pawl = r.task.String(), jsontext.Value(`{"taskId":"`+r.task.task+`"}`)
	}
	r.emit("response.created", responseEvent{Response: r.response})
	if r.streamed {
		r.Status = statusInProgress
	}
	r.emit("response.in_progress", responseEvent{Response: r.response})
}

// read adds a message to the response.
func (r *responder) read(m proto.Message) {
	if e, ok := m.(*executorv1.ExecutorEvent); ok && r.task != nil && r.task.task == "" {
		r.task.task = e.GetTaskId()
	}
	r.begin()
	p := r.source.read(m)
	if p.usage != nil {
		r.Usage = newResponseUsage(p.usage)
	}
	if p.pawl != nil {
		r.Pawl = p.pawl
	}
	if r.task == nil {
		r.Model = cmp.Or(p.model, r.Model)
	}
	if p.note != "" {
		r.write(true, p.note)
	}
	if p.started != nil {
		r.callStarted(p.started)
	}
	if p.ended != nil {
		r.callEnded(p.ended)
	}
	if p.begins {
		r.closeText(statusCompleted)
	}
	if p.text != "" {
		r.write(false, p.text)
	}
	if p.call != nil {
		r.clientCall(functionItem{CallID: p.call.GetId(), Name: p.call.GetName(), Arguments: p.call.GetInputJson()})
	}
	if p.asks != nil {
		r.ask(p.asks)
	}
	r.settle(p)
}

// settle ends the response if the message does.
func (r *responder) settle(p piece) {
	isOpen := func(wait string) bool { return !slices.Contains(r.answered, wait) }
	if p.finish != "" && p.err != nil { // the answer is whole, and the goal was not reached
		r.closeText(statusCompleted)
	}
	switch {
	case p.err != nil && errs.Reason(p.err) == commonv1.ErrorReason_ERROR_REASON_CANCELLED:
		r.fail(statusCancelled, p.err)
	case p.err != nil:
		r.fail(statusFailed, p.err)
	case p.finish == "length":
		r.IncompleteDetails = &incompleteDetails{"max_output_tokens"}
		r.finish(statusIncomplete)
	case p.finish == "content_filter":
		r.IncompleteDetails = &incompleteDetails{"content_filter"}
		r.finish(statusIncomplete)
	case p.finish != "":
		r.finish(statusCompleted)
	case r.Background || !slices.ContainsFunc(p.stops, isOpen):
	case r.asked:
		r.finish(statusCompleted)
	default: // it is paused, or waits for what an earlier response asks
		r.finish(statusIncomplete)
	}
}

// fail ends the response with an error.
func (r *responder) fail(status string, err error) {
	_, e := fromProblem(problem.From(err))
	r.Error = &responseError{*e.Code, e.Message}
	r.finish(status)
}

// finish ends the response.
func (r *responder) finish(status string) {
	if r.ended {
		return
	}
	r.begin()
	items := statusCompleted
	if status != statusCompleted {
		items = statusIncomplete
	}
	r.closeText(items)
	for _, i := range slices.Sorted(maps.Values(r.calls)) {
		if call, ok := r.Output[i].(*mcpItem); ok {
			call.Status = statusIncomplete
			r.done(i)
		}
	}
	r.Status, r.ended = status, true
	name := status
	if status == statusCancelled { // the API has no event for it
		name = statusFailed
	}
	r.emit("response."+name, responseEvent{Response: r.response})
}

// itemID returns the id of the next item.
func (r *responder) itemID(kind string) string {
	return kind + "_" + strings.TrimPrefix(r.ID, idPrefix) + "_" + strconv.Itoa(len(r.Output))
}

// add adds an item to the output and returns its index.
func (r *responder) add(item any) int {
	index := len(r.Output)
	r.Output = append(r.Output, item)
	r.emit("response.output_item.added", responseEvent{OutputIndex: &index, Item: item})
	return index
}

func (r *responder) done(index int) {
	r.emit("response.output_item.done", responseEvent{OutputIndex: &index, Item: r.Output[index]})
}

// zero is the index of the only part of an item.
var zero = new(int)

// none is empty.
var none = &[]struct{}{}

func outputPart(text string) textPart {
	return textPart{Type: "output_text", Text: text, Annotations: none, Logprobs: none}
}

// write writes on the message or the reasoning, and begins it if needed.
func (r *responder) write(reasoning bool, text string) {
	if r.text != nil && r.text.reasoning != reasoning {
		r.closeText(statusCompleted)
	}
	if r.text == nil {
		r.openText(reasoning)
	}
	r.text.text.WriteString(text)
	e := responseEvent{OutputIndex: &r.text.index, ItemID: r.text.id, Delta: &text}
	if reasoning {
		e.SummaryIndex = zero
		r.emit("response.reasoning_summary_text.delta", e)
		return
	}
	e.ContentIndex, e.Logprobs = zero, none
	r.emit("response.output_text.delta", e)
}

func (r *responder) openText(reasoning bool) {
	if reasoning {
		id := r.itemID("rs")
		r.text = &openText{index: r.add(&reasoningItem{Type: "reasoning", ID: id, Summary: []textPart{}}), id: id, reasoning: true}
		r.emit("response.reasoning_summary_part.added", responseEvent{
			OutputIndex: &r.text.index, ItemID: id, SummaryIndex: zero, Part: &textPart{Type: "summary_text"},
		})
		return
	}
	id, part := r.itemID("msg"), outputPart("")
	r.text = &openText{index: r.add(&messageItem{Type: "message", ID: id, Status: statusInProgress, Role: "assistant", Content: []textPart{}}), id: id}
	r.emit("response.content_part.added", responseEvent{OutputIndex: &r.text.index, ItemID: id, ContentIndex: zero, Part: &part})
}

// closeText ends the item that is written.
func (r *responder) closeText(status string) {
	open := r.text
	if open == nil {
		return
	}
	r.text = nil
	text := open.text.String()
	e := responseEvent{OutputIndex: &open.index, ItemID: open.id}
	whole := func(part textPart) responseEvent { e := e; e.Part = &part; return e }
	switch item := r.Output[open.index].(type) {
	case *reasoningItem:
		item.Summary = []textPart{{Type: "summary_text", Text: text}}
		e.SummaryIndex = zero
		done := whole(item.Summary[0])
		e.Text = &text
		r.emit("response.reasoning_summary_text.done", e)
		r.emit("response.reasoning_summary_part.done", done)
	case *messageItem:
		item.Content, item.Status = []textPart{outputPart(text)}, status
		e.ContentIndex = zero
		done := whole(item.Content[0])
		e.Text, e.Logprobs = &text, none
		r.emit("response.output_text.done", e)
		r.emit("response.content_part.done", done)
	}
	r.done(open.index)
}

// splitTool returns the server and the name in the id of a tool. A name that the model made up has no server.
func splitTool(id string) (server, name string) {
	if server, name, ok := strings.Cut(id, "/"); ok {
		return server, name
	}
	return "", id
}

func (r *responder) callStarted(c *toolCall) {
	r.closeText(statusCompleted)
	server, name := splitTool(c.tool)
	item := &mcpItem{Type: "mcp_call", ID: r.itemID("mcp"), ServerLabel: server, Name: name, Status: statusInProgress}
	if c.wait != "" && r.task != nil {
		id := approvalID(r.task.task, c.wait)
		item.ApprovalRequestID = &id
	}
	index := r.add(item)
	if r.calls == nil {
		r.calls = map[string]int{}
	}
	r.calls[c.id] = index
	e := responseEvent{OutputIndex: &index, ItemID: item.ID}
	r.emit("response.mcp_call.in_progress", e)
	item.Arguments = c.input
	e.Delta = &c.input
	r.emit("response.mcp_call_arguments.delta", e)
	e.Delta, e.Arguments = nil, &c.input
	r.emit("response.mcp_call_arguments.done", e)
}

func (r *responder) callEnded(c *toolCall) {
	index, ok := r.calls[c.id]
	if !ok { // it has failed before it was called
		if c.failure != "" {
			r.write(true, c.tool+" failed: "+c.failure+"\n")
		}
		return
	}
	delete(r.calls, c.id)
	item, _ := r.Output[index].(*mcpItem)
	outcome := statusCompleted
	if c.failure == "" {
		item.Output = &c.output
	} else {
		outcome, item.Error = statusFailed, &mcpError{Type: "mcp_tool_execution_error", Content: []textPart{{Type: "text", Text: c.failure}}}
	}
	if item.Status = outcome; c.notRun {
		item.Status = statusIncomplete // the API has no event for it
	}
	r.emit("response.mcp_call."+outcome, responseEvent{OutputIndex: &index, ItemID: item.ID})
	r.done(index)
}

func (r *responder) clientCall(c functionItem) {
	r.closeText(statusCompleted)
	arguments := c.Arguments
	c.Type, c.ID, c.Arguments, c.Status = "function_call", r.itemID("fc"), "", statusInProgress
	index := r.add(&c)
	c.Arguments, c.Status = arguments, statusCompleted
	e := responseEvent{OutputIndex: &index, ItemID: c.ID}
	e.Delta = &arguments
	r.emit("response.function_call_arguments.delta", e)
	e.Delta, e.Arguments, e.Name = nil, &arguments, c.Name
	r.emit("response.function_call_arguments.done", e)
	r.done(index)
}

// ask adds a request for an approval. What else a task asks has no item in the API: a message says it.
func (r *responder) ask(q *question) {
	r.asked = true
	r.closeText(statusCompleted)
	if !q.approval {
		r.write(false, strings.TrimSpace(q.text))
		r.closeText(statusCompleted)
		return
	}
	server, name := splitTool(q.tool)
	r.done(r.add(&approvalItem{
		Type: "mcp_approval_request", ID: approvalID(r.task.task, q.wait), ServerLabel: server, Name: name, Arguments: cmp.Or(q.input, "{}"),
	}))
}

// ContentType implements stream.Framing.
func (r *responder) ContentType() string { return "text/event-stream" }

// Opening implements stream.Framing. The id of a task's response is known with its first event.
func (r *responder) Opening() []byte {
	if r.task == nil {
		r.begin()
	}
	return r.take()
}

// Message implements stream.Framing.
func (r *responder) Message(m proto.Message) ([]byte, error) {
	if r.ended {
		return nil, nil
	}
	r.read(m)
	return r.take(), nil
}

// Heartbeat implements stream.Framing.
func (r *responder) Heartbeat() []byte { return []byte(": keep-alive\n\n") }

// Failure implements stream.Framing. A task goes on, so its response has not failed.
func (r *responder) Failure(p problem.Problem) []byte {
	_, e := fromProblem(p)
	if r.task == nil {
		r.Error = &responseError{*e.Code, e.Message}
		r.finish(statusFailed)
	} else {
		r.emit("error", responseEvent{Code: *e.Code, Message: e.Message})
	}
	return r.take()
}

// Stopping implements stream.Framing.
func (r *responder) Stopping(p problem.Problem) []byte { return r.Failure(p) }

// End implements stream.Framing.
func (r *responder) End(stream.Summary) []byte {
	r.finish(statusIncomplete)
	return r.take()
}
