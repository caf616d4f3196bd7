package openai

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/gateway/internal/stream"
)

// task returns the request for a task of an agent. Its goal is the last message; the messages before it, which a task does not have, precede it there.
func (q *chatRequest) task(agent string, header http.Header) (*executorv1.RunTaskRequest, error) {
	who, instead := "an agent", "choose a model"
	if agent == "" {
		who, instead = "a response in the background", "leave out `background`"
	}
	last := &q.Messages[len(q.Messages)-1]
	switch {
	case len(q.Tools) > 0:
		return nil, invalid("tools", "%s calls the tools of MCP servers only; leave out the functions in `tools`, or %s", who, instead)
	case q.ResponseFormat.Type != "" && q.ResponseFormat.Type != "text":
		return nil, invalid("response_format", "%s answers in text; leave out `response_format`, or %s", who, instead)
	case last.Role != "user":
		return nil, invalid("messages", "the last message is the task's goal, so it has to have the role \"user\"")
	}
	var before strings.Builder
	for i, m := range q.Messages {
		parts, err := m.parts()
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			if p.GetImage() != nil || p.GetAudio() != nil {
				return nil, invalid(m.path+".content", "`%s.content` has a picture or sound; an agent's goal is text", m.path)
			}
		}
		if text := m.Content.text(); text != "" && i < len(q.Messages)-1 {
			before.WriteString(m.Role + ": " + text + "\n\n")
		}
	}
	goal := last.Content.text()
	if strings.TrimSpace(goal) == "" {
		return nil, last.empty()
	}
	if before.Len() > 0 {
		goal = "The conversation so far:\n\n" + before.String() + "The newest message, which is to be answered:\n\n" + goal
	}
	return &executorv1.RunTaskRequest{Task: &executorv1.CreateTaskRequest{
		Goal: goal, AgentId: agent, McpIds: q.Pawl.McpIDs, AutoExecute: q.Pawl.AutoExecute, RequestId: header.Get("Idempotency-Key"),
	}}, nil
}

// taskSource reads the events of a task.
type taskSource struct {
	base     string // of links
	answerID string
	wrote    bool
}

func (s *taskSource) read(m proto.Message) piece {
	e, _ := m.(*executorv1.ExecutorEvent)
	p := piece{usage: e.GetUsage()}
	step := &toolCall{id: e.GetFlow().GetStepId(), tool: e.GetFlow().GetStepName(), wait: e.GetWaitId()}
	switch data := e.GetPayload().(type) {
	case *executorv1.ExecutorEvent_PlanCreated:
		for _, t := range data.PlanCreated.GetPlan().GetSubtasks() {
			p.note += "Plans: " + t.GetTitle() + "\n"
		}
	case *executorv1.ExecutorEvent_Thought:
		p.note = data.Thought.GetText()
	case *executorv1.ExecutorEvent_StepInput:
		step.input, p.started = data.StepInput.GetInputJson(), step
	case *executorv1.ExecutorEvent_StepOutput:
		step.output, p.ended = outputText(data.StepOutput.GetOutputJson()), step
	case *executorv1.ExecutorEvent_StepError:
		step.failure, p.ended = data.StepError.GetError().GetErrMsg(), step
		step.notRun = data.StepError.GetOutcome() == commonv1.Outcome_OUTCOME_NOT_EXECUTED
	case *executorv1.ExecutorEvent_TextAdd:
		s.write(&p, data.TextAdd.GetAnswerId(), data.TextAdd.GetText())
	case *executorv1.ExecutorEvent_FlowStop:
		p.stops = data.FlowStop.GetWaitIds()
	default:
		s.end(&p, e)
	}
	p.asks = s.question(e)
	return p
}

// end reads an event that ends the task.
func (s *taskSource) end(p *piece, e *executorv1.ExecutorEvent) {
	switch data := e.GetPayload().(type) {
	case *executorv1.ExecutorEvent_FlowSuccess:
		p.finish = "stop"
		if s.answerID != data.FlowSuccess.GetAnswerId() {
			s.write(p, data.FlowSuccess.GetAnswerId(), data.FlowSuccess.GetFullAnswer())
		}
	case *executorv1.ExecutorEvent_FlowFailed:
		failed := data.FlowFailed
		p.err = errs.New(codes.FailedPrecondition, failed.GetError().GetReason(), "the task %s failed: %s", e.GetTaskId(), failed.GetError().GetErrMsg())
		if failed.GetFullAnswer() == "" {
			break
		}
		if p.finish = "stop"; s.answerID != failed.GetAnswerId() {
			s.write(p, failed.GetAnswerId(), failed.GetFullAnswer())
		}
	case *executorv1.ExecutorEvent_FlowCancel:
		p.err = errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "the task %s was cancelled: %s", e.GetTaskId(), data.FlowCancel.GetReason())
	}
}

// outputText returns the text of a step's output, or its JSON if it has none.
func outputText(outputJSON string) string {
	var output struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(outputJSON), &output); err != nil || output.Message == "" {
		return outputJSON
	}
	return output.Message
}

// isAnswer reports whether an event closes a wait for a person.
func isAnswer(e *executorv1.ExecutorEvent) bool {
	switch e.GetPayload().(type) {
	case *executorv1.ExecutorEvent_PlanCreated, *executorv1.ExecutorEvent_StepWaitingForStart, *executorv1.ExecutorEvent_StepWaitingForParam, *executorv1.ExecutorEvent_InputRequired:
		return false
	}
	return e.GetWaitId() != ""
}

// question returns what an event asks a person, or nil.
func (s *taskSource) question(e *executorv1.ExecutorEvent) *question {
	q := &question{wait: e.GetWaitId(), tool: e.GetFlow().GetStepName()}
	var what string
	how := "`pawl approve TASK WAIT` or `pawl reject TASK WAIT`"
	switch data := e.GetPayload().(type) {
	case *executorv1.ExecutorEvent_PlanCreated:
		if q.wait == "" {
			return nil
		}
		what, q.approval, q.tool = "The plan needs to be confirmed.", true, "pawl/plan"
		if plan, err := stream.JSON(data.PlanCreated.GetPlan()); err == nil {
			q.input = string(plan)
		}
	case *executorv1.ExecutorEvent_StepWaitingForStart:
		q.approval, q.input = !data.StepWaitingForStart.GetOutcomeUnknown(), data.StepWaitingForStart.GetInputJson()
		what = " needs approval"
		if !q.approval {
			what, how = " was called, and it is not known whether it ran", "`pawl outcome TASK WAIT` and `--retry`, `--output JSON` or `--skip REASON`"
		}
		what = q.tool + what + ", with the input `" + q.input + "`. " + data.StepWaitingForStart.GetRisk().GetReason()
	case *executorv1.ExecutorEvent_StepWaitingForParam:
		what, how = data.StepWaitingForParam.GetMessage(), "`pawl params TASK --wait WAIT NAME=VALUE`"
	case *executorv1.ExecutorEvent_InputRequired:
		what, how = data.InputRequired.GetMessage(), "`pawl input TASK --wait WAIT NAME=VALUE` (or `--decline`)"
		if url := data.InputRequired.GetUrl(); url != "" {
			what, how = what+" "+url, "`pawl input TASK --wait WAIT --done` (or `--decline`)"
		}
	default:
		return nil
	}
	id := e.GetTaskId()
	q.text = strings.TrimSpace(what) + "\n\nThe task waits for you: answer with " + strings.NewReplacer("TASK", id, "WAIT", q.wait).Replace(how) + ", or by POST to " +
		s.base + "/v1/tasks/" + id + ":resume with the wait " + q.wait + ". [" + s.base + "/v1/tasks/" + id + "](" + s.base + "/v1/tasks/" + id + ") shows the task.\n\n"
	s.wrote = true
	return q
}

// write sets the text to add. After a crash of the executor an answer begins again with another id.
func (s *taskSource) write(p *piece, answerID, text string) {
	p.text, p.begins = text, s.wrote && s.answerID != answerID
	s.answerID, s.wrote = cmp.Or(answerID, s.answerID), true
}
