package openai

import (
	"cmp"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// task returns the request for a task of an agent. Its goal is the last message; the messages before it, which a task does not have, precede it there.
func (q *chatRequest) task(agent string, header http.Header) (*executorv1.RunTaskRequest, error) {
	switch last := &q.Messages[len(q.Messages)-1]; {
	case len(q.Tools) > 0:
		return nil, invalid("tools", "an agent calls the tools of its MCP servers only; leave out `tools`, or choose a model")
	case q.ResponseFormat.Type != "" && q.ResponseFormat.Type != "text":
		return nil, invalid("response_format", "an agent answers in text; leave out `response_format`, or choose a model")
	case last.Role != "user":
		return nil, invalid("messages", "the last message is the agent's goal, so it has to have the role \"user\"")
	}
	var before strings.Builder
	for i, m := range q.Messages {
		parts, err := m.parts(i)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			if p.GetImage() != nil || p.GetAudio() != nil {
				return nil, invalid(at("messages", i, "content"), "`messages[%d].content` has a picture or sound; an agent's goal is text", i)
			}
		}
		if text := m.Content.text(); text != "" && i < len(q.Messages)-1 {
			before.WriteString(m.Role + ": " + text + "\n\n")
		}
	}
	goal := q.Messages[len(q.Messages)-1].Content.text()
	if before.Len() > 0 {
		goal = "The conversation so far:\n\n" + before.String() + "The newest message, which is to be answered:\n\n" + goal
	}
	return &executorv1.RunTaskRequest{Task: &executorv1.CreateTaskRequest{
		Goal: goal, AgentId: agent, McpIds: q.Pawl.McpIDs, AutoExecute: q.Pawl.AutoExecute, RequestId: header.Get("Idempotency-Key"),
	}}, nil
}

// taskSource reads the events of a task until it ends or waits for a person.
type taskSource struct {
	base     string // of links
	answerID string
	wrote    bool
}

func (s *taskSource) read(m proto.Message) piece {
	e, _ := m.(*executorv1.ExecutorEvent)
	p := piece{usage: e.GetUsage()}
	tool := e.GetFlow().GetStepName()
	switch data := e.GetPayload().(type) {
	case *executorv1.ExecutorEvent_PlanCreated:
		for _, t := range data.PlanCreated.GetPlan().GetSubtasks() {
			p.reasoning += "Plans: " + t.GetTitle() + "\n"
		}
	case *executorv1.ExecutorEvent_Thought:
		p.reasoning = data.Thought.GetText()
	case *executorv1.ExecutorEvent_StepInput:
		p.reasoning = "Calls " + tool + " " + data.StepInput.GetInputJson() + "\n"
	case *executorv1.ExecutorEvent_StepError:
		p.reasoning = tool + " failed: " + data.StepError.GetError().GetErrMsg() + "\n"
	case *executorv1.ExecutorEvent_TextAdd:
		p.text = s.write(data.TextAdd.GetAnswerId(), data.TextAdd.GetText())
	case *executorv1.ExecutorEvent_FlowSuccess:
		p.finish = "stop"
		if s.answerID != data.FlowSuccess.GetAnswerId() {
			p.text = s.write(data.FlowSuccess.GetAnswerId(), data.FlowSuccess.GetFullAnswer())
		}
	case *executorv1.ExecutorEvent_FlowFailed:
		p.finish = "stop"
		switch failed := data.FlowFailed; {
		case failed.GetFullAnswer() == "":
			p.err = errs.New(codes.FailedPrecondition, failed.GetError().GetReason(), "the task %s failed: %s", e.GetTaskId(), failed.GetError().GetErrMsg())
		case s.answerID != failed.GetAnswerId():
			p.text = s.write(failed.GetAnswerId(), failed.GetFullAnswer())
		}
	case *executorv1.ExecutorEvent_FlowCancel:
		p.err = errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "the task %s was cancelled: %s", e.GetTaskId(), data.FlowCancel.GetReason())
	}
	if what := question(e); what != "" {
		p.text = s.wait(e, what)
	}
	return p
}

// question returns what an event asks a person; "" if nothing.
func question(e *executorv1.ExecutorEvent) string {
	switch data := e.GetPayload().(type) {
	case *executorv1.ExecutorEvent_PlanCreated:
		if e.GetWaitId() != "" {
			return "The plan needs to be confirmed."
		}
	case *executorv1.ExecutorEvent_StepWaitingForStart:
		what := " needs approval"
		if data.StepWaitingForStart.GetOutcomeUnknown() {
			what = " was called, and it is not known whether it ran"
		}
		return e.GetFlow().GetStepName() + what + ", with the input `" + data.StepWaitingForStart.GetInputJson() + "`. " + data.StepWaitingForStart.GetRisk().GetReason()
	case *executorv1.ExecutorEvent_StepWaitingForParam:
		return data.StepWaitingForParam.GetMessage()
	case *executorv1.ExecutorEvent_InputRequired:
		return data.InputRequired.GetMessage() + " " + data.InputRequired.GetUrl()
	}
	return ""
}

// write returns the text to add. After a crash of the executor an answer begins again with another id.
func (s *taskSource) write(answerID, text string) string {
	if s.wrote && s.answerID != answerID {
		text = "\n\n" + text
	}
	s.answerID, s.wrote = cmp.Or(answerID, s.answerID), true
	return text
}

// wait returns the text for an event that opens a wait. The stream ends then.
func (s *taskSource) wait(e *executorv1.ExecutorEvent, what string) string {
	id := e.GetTaskId()
	return s.write(s.answerID, strings.TrimSpace(what)+"\n\nThe task waits for you: answer with `pawl approve "+id+"` or `pawl reject "+id+"`, or by POST to "+
		s.base+"/v1/tasks/"+id+":resume with the wait "+e.GetWaitId()+". ["+s.base+"/v1/tasks/"+id+"]("+s.base+"/v1/tasks/"+id+") shows the task.\n\n")
}
