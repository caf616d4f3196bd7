package wire

import (
	"crypto/rand"
	"strings"

	"pawl.dev/planner-svc/internal/llm"
)

// Answer collects the answer to one request while its events arrive. A decoder fills it.
type Answer struct {
	Reply *llm.Reply
	// Whole is set once the reason to stop has arrived: the end of the events alone does not tell a whole answer from a cut one.
	Whole bool
	// Reported is set once the final token counts have arrived.
	Reported bool

	onDelta func(llm.Delta) error
	started bool  // onDelta was called
	failed  error // of onDelta
	text    strings.Builder
	args    []strings.Builder // by position in Reply.Calls
}

// Text adds text.
func (a *Answer) Text(text string) error {
	if text == "" {
		return nil
	}
	a.text.WriteString(text)
	return a.emit(llm.Delta{Text: text})
}

// Call begins a tool call and returns its index. A call without an id gets one: results refer to it.
func (a *Answer) Call(id, name string) (int, error) {
	if id == "" {
		id = "call_" + rand.Text()
	}
	index := len(a.Reply.Calls)
	a.Reply.Calls = append(a.Reply.Calls, llm.ToolCall{ID: id, Name: name})
	a.args = append(a.args, strings.Builder{})
	return index, a.emit(llm.Delta{Call: &llm.CallDelta{Index: index, ID: id, Name: name}})
}

// Arguments adds to the arguments of a tool call.
func (a *Answer) Arguments(index int, text string) error {
	if text == "" {
		return nil
	}
	a.args[index].WriteString(text)
	return a.emit(llm.Delta{Call: &llm.CallDelta{Index: index, Arguments: text}})
}

func (a *Answer) emit(d llm.Delta) error {
	a.started = true
	if a.onDelta != nil {
		a.failed = a.onDelta(d)
	}
	return a.failed
}

// finish puts what was collected into the reply.
func (a *Answer) finish() {
	a.Reply.Text = a.text.String()
	for i := range a.Reply.Calls {
		a.Reply.Calls[i].Arguments = a.args[i].String()
		if a.Whole && strings.TrimSpace(a.Reply.Calls[i].Arguments) == "" {
			a.Reply.Calls[i].Arguments = "{}"
		}
	}
}
