package llm

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"io"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// maxText bounds the text and the arguments of an answer, in bytes.
const maxText = 4 << 20

// answer collects the answer to one request while its events arrive. The decoder of a format fills it.
type answer struct {
	reply        Reply
	hasStop      bool // the stop reason has arrived; else the answer may be incomplete
	reported     bool // the final token counts have arrived
	isForcedCall bool // the reply's text is the arguments of the forced tool call
	refused      bool // some of the text is a refusal

	onDelta func(Delta) error
	started bool  // onDelta got a part of the reply
	failure error // from onDelta, or because the answer is too long
	size    int   // bytes of text and arguments
	text    strings.Builder
	calls   map[int]int        // index in reply.Calls by the provider's index
	args    []*strings.Builder // by index in reply.Calls
}

// addText adds text and passes it to onDelta.
func (a *answer) addText(text string) error {
	if text == "" || !a.addSize(text) {
		return a.failure
	}
	a.text.WriteString(text)
	return a.emit(Delta{Text: text})
}

// addCall adds a piece of the tool call at the provider's index. A new index begins a call, and so does a new id, because some servers send
// the same index for all calls. A call without an id gets a random id.
func (a *answer) addCall(at int, id, name, arguments string) error {
	if a.isForcedCall {
		return a.addText(arguments)
	}
	index, known := a.calls[at]
	if !known || id != "" && id != a.reply.Calls[index].GetId() {
		if name == "" {
			return errorf(Broken, "its tool call %d has no name", len(a.reply.Calls)+1)
		}
		if id == "" {
			id = "call_" + rand.Text()
		}
		index = len(a.reply.Calls)
		a.calls[at] = index
		a.reply.Calls = append(a.reply.Calls, &plannerv1.ModelToolCall{Id: id, Name: name})
		a.args = append(a.args, &strings.Builder{})
		if err := a.emit(Delta{Call: true}); err != nil {
			return err
		}
	}
	if a.addSize(arguments) {
		a.args[index].WriteString(arguments)
	}
	return a.failure
}

// addSize adds the length of a text, and sets a.failure if the total is too long. It reports false if a.failure is set.
func (a *answer) addSize(text string) bool {
	if a.size += len(text); a.size > maxText {
		a.failure = errorf(Broken, "its answer has more than 4 MiB")
	}
	return a.failure == nil
}

func (a *answer) emit(d Delta) error {
	if a.onDelta != nil {
		a.started = true
		a.failure = a.onDelta(d)
	}
	return a.failure
}

// stop ends the answer. A refusal overrides the reason; an unspecified reason is derived from the answer.
func (a *answer) stop(reason plannerv1.StopReason) {
	a.hasStop = true
	switch {
	case a.refused:
		reason = plannerv1.StopReason_STOP_REASON_REFUSED
	case reason != plannerv1.StopReason_STOP_REASON_UNSPECIFIED:
	case len(a.reply.Calls) > 0:
		reason = plannerv1.StopReason_STOP_REASON_TOOL_CALLS
	default:
		reason = plannerv1.StopReason_STOP_REASON_END
	}
	a.reply.Stop = reason
}

// finish completes the reply after the events, which ended with err, and returns the error of the answer.
func (a *answer) finish(err error) error {
	a.reply.Text = a.text.String()
	for i, call := range a.reply.Calls {
		call.InputJson = a.args[i].String()
		if a.hasStop && strings.TrimSpace(call.InputJson) == "" {
			call.InputJson = "{}"
		}
	}
	a.reply.Usage.Unreported = a.reply.Usage.Unreported && !a.reported
	switch {
	case a.failure != nil:
		return a.failure
	case a.hasStop: // a later failure does not matter
		return nil
	case err == nil:
		return errCutOff
	}
	return err
}

// readEvents passes the data of each server-sent event of r to handle, and calls alive for each line. It reads r to the end, so that the
// connection can serve the next request. The last event may lack its empty line.
func readEvents(r io.Reader, contentType string, alive func(), handle func(data []byte) error) error {
	lines := bufio.NewReaderSize(r, 16<<10)
	var data []byte
	for {
		line, readErr := lines.ReadBytes('\n')
		if readErr != nil && readErr != io.EOF {
			return readErr
		}
		alive()
		line = bytes.TrimRight(line, "\r\n")
		// No line of a stream begins with {, [ or <. The content type is not checked, because some servers send a wrong one.
		if start := bytes.TrimSpace(line); len(start) > 0 && bytes.IndexByte([]byte("{[<"), start[0]) >= 0 {
			return notEvents(contentType, line, lines)
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		if (len(line) == 0 || readErr == io.EOF) && len(data) > 0 {
			if err := handle(data); err != nil {
				return err
			}
			data = nil
		}
		if readErr == io.EOF {
			return nil
		}
	}
}

// notEvents returns the error for a web page or JSON instead of a stream.
func notEvents(contentType string, first []byte, rest *bufio.Reader) error {
	more, _ := rest.Peek(rest.Buffered())
	e := errorf(Broken, "%.60s came instead of a stream of events: %#.120q", cmp.Or(contentType, "something of no type"), bytes.TrimSpace(bytes.Join([][]byte{first, more}, []byte(" "))))
	e.Advice = "the server there has no such model or does not stream; an operator has to check `baseUrl` (it usually ends with /v1)"
	return e
}
