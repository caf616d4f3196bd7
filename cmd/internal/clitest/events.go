package clitest

import (
	"time"

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

func step(id, tool string) *executorv1.Flow {
	kind := executorv1.StepType_STEP_TYPE_TOOL
	if tool == "FINAL" {
		kind = executorv1.StepType_STEP_TYPE_FINAL
	}
	return &executorv1.Flow{ExecutorId: "agent", StepId: id, StepName: tool, StepType: kind}
}

// ToolsLoaded lists the skipped servers, as pairs of an id and a message.
func ToolsLoaded(skipped ...string) *executorv1.ExecutorEvent {
	loaded := &executorv1.ToolsLoaded{ToolCount: 3}
	for i := 0; i+1 < len(skipped); i += 2 {
		loaded.Skipped = append(loaded.Skipped, &executorv1.SkippedServer{McpId: skipped[i], Message: skipped[i+1]})
	}
	return &executorv1.ExecutorEvent{
		Type:    executorv1.EventType_EVENT_TYPE_TOOLS_LOADED,
		Payload: &executorv1.ExecutorEvent_ToolsLoaded{ToolsLoaded: loaded},
	}
}

// FlowStart names the flow.
func FlowStart(name string, level commonv1.RiskLevel) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_FLOW_START,
		Payload: &executorv1.ExecutorEvent_FlowStart{FlowStart: &executorv1.FlowStart{
			Name: name, Risk: &commonv1.Risk{Level: level},
		}},
	}
}

// StepInit begins a step.
func StepInit(id, tool string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_STEP_INIT, Flow: step(id, tool),
		Payload: &executorv1.ExecutorEvent_StepInit{StepInit: &executorv1.StepInit{ToolId: tool}},
	}
}

// StepInput starts an attempt.
func StepInput(id, tool, input string, attempt uint32) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_STEP_INPUT, Flow: step(id, tool), Attempt: attempt,
		Payload: &executorv1.ExecutorEvent_StepInput{StepInput: &executorv1.StepInput{InputJson: input}},
	}
}

// Progress reports the progress of a running tool.
func Progress(id, tool string, done, total float64, message string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_TOOL_PROGRESS, Flow: step(id, tool),
		Payload: &executorv1.ExecutorEvent_ToolProgress{ToolProgress: &executorv1.ToolProgress{Progress: done, Total: total, Message: message}},
	}
}

// StepOutput ends an attempt with success.
func StepOutput(id, tool string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_STEP_OUTPUT, Flow: step(id, tool), Attempt: 1,
		Payload: &executorv1.ExecutorEvent_StepOutput{StepOutput: &executorv1.StepOutput{OutputJson: `{"message":"ok"}`}},
	}
}

// StepError ends an attempt with an error.
func StepError(id, tool, message string, outcome commonv1.Outcome) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_STEP_ERROR, Flow: step(id, tool), Attempt: 1,
		Payload: &executorv1.ExecutorEvent_StepError{StepError: &executorv1.StepError{
			Error: &commonv1.ErrorMessage{ErrMsg: message}, Outcome: outcome,
		}},
	}
}

// StepCancel ends a step that was refused.
func StepCancel(id, tool, reason string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_STEP_CANCEL, Flow: step(id, tool),
		Payload: &executorv1.ExecutorEvent_StepCancel{StepCancel: &executorv1.StepCancel{Reason: reason}},
	}
}

// AskApproval makes a step wait for approval. The test opens the wait itself with Tape.Wait.
func AskApproval(id, tool, input string, risk *commonv1.Risk) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START, Flow: step(id, tool), WaitId: "wait-" + id,
		Payload: &executorv1.ExecutorEvent_StepWaitingForStart{StepWaitingForStart: &executorv1.StepWaitingForStart{InputJson: input, Risk: risk}},
	}
}

// AskOutcome makes a step wait for the outcome of its call.
func AskOutcome(id, tool, input, message string) *executorv1.ExecutorEvent {
	ev := AskApproval(id, tool, input, nil)
	ev.Attempt = 1
	ask := ev.GetStepWaitingForStart()
	ask.OutcomeUnknown, ask.Error = true, &commonv1.ErrorMessage{ErrMsg: message}
	return ev
}

// Status changes the status, with a reason.
func Status(reason string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type:    executorv1.EventType_EVENT_TYPE_STATUS_CHANGED,
		Payload: &executorv1.ExecutorEvent_StatusChanged{StatusChanged: &executorv1.StatusChanged{Reason: reason}},
	}
}

// AskParams makes a step wait for parameters.
func AskParams(id, tool, message, schema string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_PARAM, Flow: step(id, tool), WaitId: "wait-" + id,
		Payload: &executorv1.ExecutorEvent_StepWaitingForParam{StepWaitingForParam: &executorv1.StepWaitingForParam{
			Message: message, ParamsSchemaJson: schema,
		}},
	}
}

// AskInput is a server's request for input during a call.
func AskInput(id, tool, wait, message, url string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_INPUT_REQUIRED, Flow: step(id, tool), WaitId: "wait-" + wait, Attempt: 1,
		Payload: &executorv1.ExecutorEvent_InputRequired{InputRequired: &executorv1.InputRequired{Message: message, Url: url}},
	}
}

// Continue reports that a step's call continues after an answer.
func Continue(id, tool, reason string) *executorv1.ExecutorEvent {
	ev := Status(reason)
	ev.Flow = step(id, tool)
	ev.Flow.StepStatus = executorv1.StepStatus_STEP_STATUS_RUNNING
	return ev
}

// InputWait returns the wait of AskInput.
func InputWait(id, tool, wait, message, schema, url string) *executorv1.Wait {
	return &executorv1.Wait{
		Id: "wait-" + wait, Kind: executorv1.WaitKind_WAIT_KIND_INPUT, StepId: id, ToolId: tool, InputJson: `{"to":"ann"}`,
		Message: message, ParamsSchemaJson: schema, Url: url, CreateTime: timestamppb.New(Epoch),
	}
}

// Stop stops the task until the waits of these steps are answered.
func Stop(steps ...string) *executorv1.ExecutorEvent {
	stop := &executorv1.FlowStop{}
	for _, id := range steps {
		stop.WaitIds = append(stop.WaitIds, "wait-"+id)
	}
	return &executorv1.ExecutorEvent{
		Type:    executorv1.EventType_EVENT_TYPE_FLOW_STOP,
		Payload: &executorv1.ExecutorEvent_FlowStop{FlowStop: stop},
	}
}

// Text is a piece of the answer.
func Text(answer, text string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type:    executorv1.EventType_EVENT_TYPE_TEXT_ADD,
		Payload: &executorv1.ExecutorEvent_TextAdd{TextAdd: &executorv1.TextAdd{AnswerId: answer, Text: text}},
	}
}

// Success ends the task with its answer.
func Success(full string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type:    executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS,
		Payload: &executorv1.ExecutorEvent_FlowSuccess{FlowSuccess: &executorv1.FlowSuccess{FullAnswer: full}},
	}
}

// Failed ends the task with an error.
func Failed(message string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type: executorv1.EventType_EVENT_TYPE_FLOW_FAILED,
		Payload: &executorv1.ExecutorEvent_FlowFailed{FlowFailed: &executorv1.FlowFailed{
			Error: &commonv1.ErrorMessage{ErrMsg: message},
		}},
	}
}

// Cancelled ends the task as cancelled.
func Cancelled(reason string) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{
		Type:    executorv1.EventType_EVENT_TYPE_FLOW_CANCEL,
		Payload: &executorv1.ExecutorEvent_FlowCancel{FlowCancel: &executorv1.FlowCancel{Reason: reason}},
	}
}

// ApprovalWait returns the wait of AskApproval.
func ApprovalWait(id, tool, input string, level commonv1.RiskLevel) *executorv1.Wait {
	return &executorv1.Wait{
		Id: "wait-" + id, Kind: executorv1.WaitKind_WAIT_KIND_APPROVAL, StepId: id, ToolId: tool, InputJson: input,
		Risk: &commonv1.Risk{Level: level, Reason: "because"}, CreateTime: timestamppb.New(Epoch),
	}
}

// ParamsWait returns the wait of AskParams.
func ParamsWait(id, tool, message, schema string) *executorv1.Wait {
	return &executorv1.Wait{
		Id: "wait-" + id, Kind: executorv1.WaitKind_WAIT_KIND_PARAMS, StepId: id, ToolId: tool,
		Message: message, ParamsSchemaJson: schema, CreateTime: timestamppb.New(Epoch),
	}
}

// OutcomeWait returns the wait of AskOutcome.
func OutcomeWait(id, tool, input, message string) *executorv1.Wait {
	return &executorv1.Wait{
		Id: "wait-" + id, Kind: executorv1.WaitKind_WAIT_KIND_OUTCOME, StepId: id, ToolId: tool, InputJson: input,
		Message: message, CreateTime: timestamppb.New(Epoch),
	}
}

// PauseWait returns the wait of a pause, for Stop("pause").
func PauseWait(reason string) *executorv1.Wait {
	return &executorv1.Wait{Id: "wait-pause", Kind: executorv1.WaitKind_WAIT_KIND_PAUSE, Message: reason, CreateTime: timestamppb.New(Epoch)}
}

// Wait opens waits. Call it before playing Stop.
func (t *Tape) Wait(waits ...*executorv1.Wait) *Tape {
	return t.Update(func(task *executorv1.Task) { task.Waits = waits })
}

// Resume closes the waits, so that the task runs again.
func (t *Tape) Resume() *Tape {
	return t.Update(func(task *executorv1.Task) {
		task.Waits, task.Status = nil, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	})
}
