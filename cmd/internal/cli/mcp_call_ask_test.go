package cli_test

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// asking makes the pool's calls ask one question and give the answer, which it returns, as their result. Content with "bad" is refused.
func asking(w *world) chan<- *mcppoolv1.AnswerCallRequest {
	answers := make(chan *mcppoolv1.AnswerCallRequest, 1)
	clitest.On(w.pool.Script, func(req *mcppoolv1.AnswerCallRequest, _ func() (*mcppoolv1.AnswerCallResponse, error)) (*mcppoolv1.AnswerCallResponse, error) {
		if strings.Contains(req.GetAnswer().GetContentJson(), "bad") {
			return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the city is not known")
		}
		answers <- req
		return &mcppoolv1.AnswerCallResponse{}, nil
	})
	w.pool.OnCall = func(req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		err := send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_InputRequired{InputRequired: &mcppoolv1.CallInputRequired{
			InputId: "q1", Message: "where to?", SchemaJson: `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`,
		}}})
		if err != nil {
			return err
		}
		got := <-answers
		text := strings.TrimPrefix(got.GetAnswer().GetAction().String(), "ACTION_") + got.GetAnswer().GetContentJson()
		if got.GetCallId() != req.GetCallId() || got.GetAnswer().GetInputId() != "q1" || req.GetCallId() == "" {
			text = "another call's answer"
		}
		return send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{
			Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: text}}},
		}}})
	}
	return answers
}

// A5: what a tool's server asks in the middle of a call without a task is answered by the person, or by the command line.
func TestMCPCallThatAsks(t *testing.T) {
	w := newWorld(t)
	toolsOf(w)
	asking(w)
	w.serveElsewhere()
	w.pawl("mcp", "call", "files/read_file", "--answer", `{"city": "Bern"}`).expect(t, 0, `ACCEPT{"city":"Bern"}`, "files asks: where to?")
	w.pawl("mcp", "call", "files/read_file", "--decline").expect(t, 0, "DECLINE", "")
	w.pawl("mcp", "call", "files/read_file").expect(t, 1, "CANCEL", "files asked for something and got no answer: where to?")
	w.pawl("mcp", "call", "files/read_file", "--json").expect(t, 1, "inputRequired", "--answer")
	w.pawl("mcp", "call", "files/read_file", "--answer", `{"city": "bad"}`).expect(t, 1, "CANCEL", "not taken: the city is not known")
	w.pawl("mcp", "call", "files/read_file", "--answer", "x").expect(t, 64, "", "must be one JSON object")
	w.tty = true
	w.typed = strings.NewReader("a\nbad\na\nBern\n")
	w.pawl("mcp", "call", "files/read_file").expect(t, 0, `ACCEPT{"city":"Bern"}`, "not taken: the city is not known")
	w.typed = strings.NewReader("n\n")
	w.pawl("mcp", "call", "files/read_file").expect(t, 0, "DECLINE", "")
}

// Leaving in the middle of a call cancels the call, which has an id and would go on otherwise.
func TestMCPCallLeft(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		interrupt   bool
		lost        bool
		exit        int
	}{
		{name: "cancel", typed: "c\n", exit: ui.Stopped},
		{name: "end of the input", exit: ui.Stopped},
		{name: "end of the input in the answer", typed: "a\n", exit: ui.Stopped},
		{name: "interrupt", interrupt: true, exit: ui.Stopped},
		{name: "pool stops", lost: true, exit: ui.Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			toolsOf(w)
			answers := asking(w)
			cancelled := make(chan string, 2)
			ended := make(chan struct{})
			clitest.On(w.pool.Script, func(req *mcppoolv1.CancelCallRequest, _ func() (*mcppoolv1.CancelCallResponse, error)) (*mcppoolv1.CancelCallResponse, error) {
				cancelled <- req.GetCallId()
				return &mcppoolv1.CancelCallResponse{}, nil
			})
			called := make(chan string, 1)
			ask := w.pool.OnCall
			w.pool.OnCall = func(req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
				called <- req.GetCallId()
				if tc.lost {
					return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "the pool stops")
				}
				if tc.interrupt {
					w.signals <- os.Interrupt
					<-ended
					return nil
				}
				return ask(req, send)
			}
			w.serveElsewhere()
			defer func() { answers <- &mcppoolv1.AnswerCallRequest{} }() // lets the scripted call end
			defer close(ended)
			w.tty = true
			w.typed = strings.NewReader(tc.typed)
			got := w.pawl("mcp", "call", "files/read_file")
			got.expect(t, tc.exit, "", "")
			select {
			case id := <-cancelled:
				if call := <-called; id == "" || call != id {
					t.Errorf("cancelled %q of %q", id, call)
				}
			default:
				t.Errorf("the call goes on: %s", got.whole())
			}
		})
	}
}
