package openai

import (
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/gateway/internal/stream"
)

// source reads the messages of a call.
type source interface {
	// read returns what a message adds to the answer.
	read(m proto.Message) piece
}

// piece is a part of an answer. Its fields are empty if there is nothing of the kind.
type piece struct {
	text      string
	reasoning string // what Pawl does, such as calls of tools
	call      *plannerv1.ModelToolCall
	finish    string // why the answer ended
	model     string
	usage     *commonv1.Usage
	pawl      []byte // JSON of what the OpenAI API has no member for
	err       error  // the answer failed
}

// completionSource reads an answer of CompletionService.
type completionSource struct {
	single bool // only one call of the client's tools is wanted
	called bool // there was one
	wrote  bool // there was text
	broken bool // tools were called since
}

func (s *completionSource) read(m proto.Message) piece {
	response, _ := m.(*pipelinev1.StreamCompleteResponse)
	switch e := response.GetEvent().(type) {
	case *pipelinev1.StreamCompleteResponse_Text:
		return piece{text: s.write(e.Text)}
	case *pipelinev1.StreamCompleteResponse_ToolCallStarted:
		s.broken = s.wrote
		return piece{reasoning: "Calls " + e.ToolCallStarted.GetToolId() + " " + e.ToolCallStarted.GetInputJson() + "\n"}
	case *pipelinev1.StreamCompleteResponse_ToolCallEnded:
		if e.ToolCallEnded.GetError() != nil {
			return piece{reasoning: e.ToolCallEnded.GetToolId() + " failed: " + e.ToolCallEnded.GetError().GetErrMsg() + "\n"}
		}
	case *pipelinev1.StreamCompleteResponse_Note:
		return piece{reasoning: e.Note.GetText() + "\n"}
	case *pipelinev1.StreamCompleteResponse_ToolCall:
		if s.single && s.called {
			return piece{}
		}
		s.called = true
		return piece{call: e.ToolCall}
	case *pipelinev1.StreamCompleteResponse_Response:
		return s.end(e.Response)
	}
	return piece{}
}

// write returns the text to add: the replies of two rounds are separated.
func (s *completionSource) write(text string) string {
	if s.broken {
		text = "\n\n" + text
	}
	s.wrote, s.broken = true, false
	return text
}

func (s *completionSource) end(end *pipelinev1.CompleteResponse) piece {
	p := piece{finish: finishes[end.GetStopReason()], model: end.GetModel(), usage: end.GetUsage()}
	if id := end.GetTaskId(); id != "" {
		p.text = s.write("The task " + id + " continues this request and asks for the approval: `pawl show " + id + "`, or GET /v1/tasks/" + id + ".")
		p.finish = "stop"
	}
	extra := &pipelinev1.CompleteResponse{ToolCalls: end.GetToolCalls(), Notes: end.GetNotes(), TaskId: end.GetTaskId(), LimitReached: end.GetLimitReached()}
	if proto.Size(extra) > 0 {
		p.pawl, p.err = stream.JSON(extra)
	}
	return p
}

// finishes maps reasons to those of the OpenAI API. Reasons that are not listed are "stop".
var finishes = map[plannerv1.StopReason]string{
	plannerv1.StopReason_STOP_REASON_END: "stop", plannerv1.StopReason_STOP_REASON_STOP_SEQUENCE: "stop",
	plannerv1.StopReason_STOP_REASON_MAX_TOKENS: "length", plannerv1.StopReason_STOP_REASON_REFUSED: "content_filter",
	plannerv1.StopReason_STOP_REASON_TOOL_CALLS: "tool_calls",
}
