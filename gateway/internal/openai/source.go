package openai

import (
	"cmp"

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
	text    string
	begins  bool   // the text is not a continuation of the one before
	note    string // what Pawl does, for people
	started *toolCall
	ended   *toolCall
	call    *plannerv1.ModelToolCall // of a tool of the client
	asks    *question
	stops   []string // the task waits for answers to these waits
	finish  string   // why the answer ended; also with err, if the answer says what is missing to reach the goal
	model   string
	usage   *commonv1.Usage
	pawl    []byte // JSON of what the OpenAI API has no member for
	err     error  // the answer failed
}

// toolCall is a call of a tool of an MCP server.
type toolCall struct {
	id, tool, input string
	wait            string // the wait that allowed it; "": none
	output, failure string // of a call that has ended; a call with a failure has failed
	notRun          bool   // the tool was not called: its input cannot be used, or its server cannot be reached
}

// question is what a task asks a person.
type question struct {
	wait        string
	text        string // says what is asked and how to answer
	approval    bool   // the answer is yes or no
	tool, input string // what is to be approved
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
		p := piece{text: e.Text, begins: s.broken}
		s.wrote, s.broken = true, false
		return p
	case *pipelinev1.StreamCompleteResponse_ToolCallStarted:
		s.broken = s.wrote
		c := e.ToolCallStarted
		return piece{started: &toolCall{id: c.GetId(), tool: c.GetToolId(), input: c.GetInputJson()}}
	case *pipelinev1.StreamCompleteResponse_ToolCallEnded:
		c := e.ToolCallEnded
		return piece{ended: &toolCall{id: c.GetId(), tool: c.GetToolId(), output: c.GetResult(), failure: c.GetError().GetErrMsg()}}
	case *pipelinev1.StreamCompleteResponse_Note:
		return piece{note: e.Note.GetText() + "\n"}
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

func (s *completionSource) end(end *pipelinev1.CompleteResponse) piece {
	p := piece{finish: cmp.Or(finishes[end.GetStopReason()], "stop"), model: end.GetModel(), usage: end.GetUsage()}
	if id := end.GetTaskId(); id != "" {
		p.text, p.finish = " Answer with `pawl approve "+id+"` or `pawl reject "+id+"`, or by POST to /v1/tasks/"+id+":resume.", "stop" // the text before names the task
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
