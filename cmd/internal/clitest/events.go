package clitest

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Epoch is the time of every task's first event.
var Epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Beat is the time between two events.
const Beat = 250 * time.Millisecond

// timeOf returns the time of an event.
func timeOf(seq uint64) time.Time { return Epoch.Add(time.Duration(int64(seq)-1) * Beat) }

// event returns the event with a payload. Its type has the name of the payload's field.
func event(payload proto.Message) *executorv1.ExecutorEvent {
	ev := &executorv1.ExecutorEvent{}
	fields := ev.ProtoReflect().Descriptor().Oneofs().ByName("payload").Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); field.Message() == payload.ProtoReflect().Descriptor() {
			ev.ProtoReflect().Set(field, protoreflect.ValueOfMessage(payload.ProtoReflect()))
			ev.Type = executorv1.EventType(executorv1.EventType_value["EVENT_TYPE_"+strings.ToUpper(string(field.Name()))])
		}
	}
	return ev
}

// stepEvent returns the event of a step, or of one of its attempts.
func stepEvent(id, tool string, attempt uint32, payload proto.Message) *executorv1.ExecutorEvent {
	kind := executorv1.StepType_STEP_TYPE_TOOL
	if tool == "FINAL" {
		kind = executorv1.StepType_STEP_TYPE_FINAL
	}
	ev := event(payload)
	ev.Flow, ev.Attempt = &executorv1.Flow{ExecutorId: "agent", StepId: id, StepName: tool, StepType: kind}, attempt
	return ev
}

// waitEvent returns the event of a step that waits, with the id of the wait. InputWait and its siblings return the wait itself.
func waitEvent(id, tool, wait string, attempt uint32, payload proto.Message) *executorv1.ExecutorEvent {
	ev := stepEvent(id, tool, attempt, payload)
	ev.WaitId = "wait-" + wait
	return ev
}

// ToolsLoaded lists the skipped servers, as pairs of an id and a message.
func ToolsLoaded(skipped ...string) *executorv1.ExecutorEvent {
	loaded := &executorv1.ToolsLoaded{ToolCount: 3}
	for i := 0; i+1 < len(skipped); i += 2 {
		loaded.Skipped = append(loaded.Skipped, &executorv1.SkippedServer{McpId: skipped[i], Message: skipped[i+1]})
	}
	return event(loaded)
}

// FlowStart names the flow.
func FlowStart(name string, level commonv1.RiskLevel) *executorv1.ExecutorEvent {
	return event(&executorv1.FlowStart{Name: name, Risk: &commonv1.Risk{Level: level}})
}

// StepInit begins a step.
func StepInit(id, tool string) *executorv1.ExecutorEvent {
	return stepEvent(id, tool, 0, &executorv1.StepInit{ToolId: tool})
}

// StepInput starts an attempt.
func StepInput(id, tool, input string, attempt uint32) *executorv1.ExecutorEvent {
	return stepEvent(id, tool, attempt, &executorv1.StepInput{InputJson: input})
}

// Progress reports the progress of a running tool.
func Progress(id, tool string, done, total float64, message string) *executorv1.ExecutorEvent {
	return stepEvent(id, tool, 0, &executorv1.ToolProgress{Progress: done, Total: total, Message: message})
}

// StepOutput ends an attempt with success.
func StepOutput(id, tool string) *executorv1.ExecutorEvent {
	return stepEvent(id, tool, 1, &executorv1.StepOutput{OutputJson: `{"message":"ok"}`})
}

// StepError ends an attempt with an error.
func StepError(id, tool, message string, outcome commonv1.Outcome) *executorv1.ExecutorEvent {
	return stepEvent(id, tool, 1, &executorv1.StepError{Error: &commonv1.ErrorMessage{ErrMsg: message}, Outcome: outcome})
}

// StepCancel ends a step as cancelled.
func StepCancel(id, tool, reason string) *executorv1.ExecutorEvent {
	return stepEvent(id, tool, 0, &executorv1.StepCancel{Reason: reason})
}

// AskApproval makes a step wait for approval. The test opens the wait itself with Tape.Wait.
func AskApproval(id, tool, input string, risk *commonv1.Risk) *executorv1.ExecutorEvent {
	return waitEvent(id, tool, id, 0, &executorv1.StepWaitingForStart{InputJson: input, Risk: risk})
}

// AskOutcome makes a step wait for the outcome of its call.
func AskOutcome(id, tool, input, message string) *executorv1.ExecutorEvent {
	return waitEvent(id, tool, id, 1, &executorv1.StepWaitingForStart{InputJson: input, OutcomeUnknown: true, Error: &commonv1.ErrorMessage{ErrMsg: message}})
}

// AskParams makes a step wait for parameters.
func AskParams(id, tool, message, schema string) *executorv1.ExecutorEvent {
	return waitEvent(id, tool, id, 0, &executorv1.StepWaitingForParam{Message: message, ParamsSchemaJson: schema})
}

// AskInput is a server's request for input during a call.
func AskInput(id, tool, wait, message, url string) *executorv1.ExecutorEvent {
	return waitEvent(id, tool, wait, 1, &executorv1.InputRequired{Message: message, Url: url})
}

// Status changes the status, with a reason.
func Status(reason string) *executorv1.ExecutorEvent {
	return event(&executorv1.StatusChanged{Reason: reason})
}

// Continue reports that a step's call continues after an answer.
func Continue(id, tool, reason string) *executorv1.ExecutorEvent {
	ev := stepEvent(id, tool, 0, &executorv1.StatusChanged{Reason: reason})
	ev.Flow.StepStatus = executorv1.StepStatus_STEP_STATUS_RUNNING
	return ev
}

// Stop stops the task until these waits are answered: each is the id of the step that waits, the name of an InputWait, or "pause".
func Stop(waits ...string) *executorv1.ExecutorEvent {
	stop := &executorv1.FlowStop{}
	for _, name := range waits {
		stop.WaitIds = append(stop.WaitIds, "wait-"+name)
	}
	return event(stop)
}

// Text is a piece of the answer.
func Text(answer, text string) *executorv1.ExecutorEvent {
	return event(&executorv1.TextAdd{AnswerId: answer, Text: text})
}

// Success ends the task with its answer.
func Success(full string) *executorv1.ExecutorEvent {
	return event(&executorv1.FlowSuccess{FullAnswer: full})
}

// Failed ends the task with an error.
func Failed(message string) *executorv1.ExecutorEvent {
	return event(&executorv1.FlowFailed{Error: &commonv1.ErrorMessage{ErrMsg: message}})
}

// Cancelled ends the task as cancelled.
func Cancelled(reason string) *executorv1.ExecutorEvent {
	return event(&executorv1.FlowCancel{Reason: reason})
}

// ApprovalWait returns the wait of AskApproval.
func ApprovalWait(id, tool, input string, level commonv1.RiskLevel) *executorv1.Wait {
	return wait(id, &executorv1.Wait{
		Kind: executorv1.WaitKind_WAIT_KIND_APPROVAL, StepId: id, ToolId: tool, InputJson: input, Risk: &commonv1.Risk{Level: level, Reason: "because"},
	})
}

// ParamsWait returns the wait of AskParams.
func ParamsWait(id, tool, message, schema string) *executorv1.Wait {
	return wait(id, &executorv1.Wait{
		Kind: executorv1.WaitKind_WAIT_KIND_PARAMS, StepId: id, ToolId: tool, Message: message, ParamsSchemaJson: schema,
	})
}

// OutcomeWait returns the wait of AskOutcome.
func OutcomeWait(id, tool, input, message string) *executorv1.Wait {
	return wait(id, &executorv1.Wait{Kind: executorv1.WaitKind_WAIT_KIND_OUTCOME, StepId: id, ToolId: tool, InputJson: input, Message: message})
}

// InputWait returns the wait of AskInput.
func InputWait(id, tool, name, message, schema, url string) *executorv1.Wait {
	return wait(name, &executorv1.Wait{
		Kind: executorv1.WaitKind_WAIT_KIND_INPUT, StepId: id, ToolId: tool, InputJson: `{"to":"ann"}`, Message: message, ParamsSchemaJson: schema, Url: url,
	})
}

// PauseWait returns the wait of a pause, for Stop("pause").
func PauseWait(reason string) *executorv1.Wait {
	return wait("pause", &executorv1.Wait{Kind: executorv1.WaitKind_WAIT_KIND_PAUSE, Message: reason})
}

func wait(name string, w *executorv1.Wait) *executorv1.Wait {
	w.Id, w.CreateTime = "wait-"+name, timestamppb.New(Epoch)
	return w
}
