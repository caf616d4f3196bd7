package view

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Events derives the events of a record. The same record always gives the same events. The events share messages and must not be changed.
func Events(t *journal.Task, r journal.Record) []*executorv1.ExecutorEvent {
	at, u := timestamp(r.GetTime()), usage(r.GetUsage(), r.GetTime()-t.Head.GetCreateTime())
	events := make([]*executorv1.ExecutorEvent, 0, len(r.GetFacts()))
	for i, f := range r.GetFacts() {
		seq := r.FirstSeq + uint64(i)
		e := &executorv1.ExecutorEvent{
			TaskId: t.ID, Seq: seq, Time: at, Usage: u, Flow: flowOf(t, f, seq),
			SubtaskId: f.GetSubtaskId(), Attempt: f.GetAttempt(), WaitId: f.GetWaitId(),
		}
		if !flowPayload(e, t, f) && !planPayload(e, f) {
			stepPayload(e, t, f)
		}
		events = append(events, e)
	}
	return events
}

func flowOf(t *journal.Task, f *storagev1.Fact, seq uint64) *executorv1.Flow {
	out := &executorv1.Flow{
		ExecutorId: t.Head.GetFlow(), ExecutorStatus: f.GetStatus(), StepName: f.GetToolId(), StepStatus: f.GetStepStatus(),
	}
	if start := t.Checkpoint.GetFlowStartSeq(); start != 0 && seq >= start {
		out.ExecutorName = t.Checkpoint.GetName()
	}
	switch {
	case f.GetOrdinal() != 0:
		out.StepId, out.StepType = flow.StepID(f.GetOrdinal()), executorv1.StepType_STEP_TYPE_TOOL
	case f.GetToolId() == flow.Final:
		out.StepType = executorv1.StepType_STEP_TYPE_FINAL
	}
	return out
}

func flowPayload(e *executorv1.ExecutorEvent, t *journal.Task, f *storagev1.Fact) bool {
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_FlowStart:
		e.Type = executorv1.EventType_EVENT_TYPE_FLOW_START
		e.Payload = &executorv1.ExecutorEvent_FlowStart{FlowStart: &executorv1.FlowStart{Name: k.FlowStart.GetName(), Risk: risk(k.FlowStart.GetRisk())}}
	case *storagev1.Fact_FlowStop:
		e.Type = executorv1.EventType_EVENT_TYPE_FLOW_STOP
		e.Payload = &executorv1.ExecutorEvent_FlowStop{FlowStop: &executorv1.FlowStop{WaitIds: k.FlowStop.GetWaitIds()}}
	case *storagev1.Fact_FlowSuccess:
		e.Type = executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS
		e.Payload = &executorv1.ExecutorEvent_FlowSuccess{FlowSuccess: &executorv1.FlowSuccess{
			FullAnswer: k.FlowSuccess.GetFullAnswer(), AnswerId: flow.AnswerID(k.FlowSuccess.GetAnswer()),
		}}
	case *storagev1.Fact_GoalNotReached:
		e.Type = executorv1.EventType_EVENT_TYPE_FLOW_FAILED
		e.Payload = &executorv1.ExecutorEvent_FlowFailed{FlowFailed: &executorv1.FlowFailed{
			Error:      errorMessage(t.Checkpoint.GetError()), // this is the last event, so the checkpoint is the final one
			FullAnswer: k.GoalNotReached.GetFullAnswer(), AnswerId: flow.AnswerID(k.GoalNotReached.GetAnswer()),
		}}
	case *storagev1.Fact_FlowFailed:
		e.Type = executorv1.EventType_EVENT_TYPE_FLOW_FAILED
		e.Payload = &executorv1.ExecutorEvent_FlowFailed{FlowFailed: &executorv1.FlowFailed{Error: errorMessage(k.FlowFailed)}}
	case *storagev1.Fact_FlowCancel:
		e.Type = executorv1.EventType_EVENT_TYPE_FLOW_CANCEL
		e.Payload = &executorv1.ExecutorEvent_FlowCancel{FlowCancel: &executorv1.FlowCancel{Reason: k.FlowCancel}}
	case *storagev1.Fact_TextAdd:
		e.Type = executorv1.EventType_EVENT_TYPE_TEXT_ADD
		e.Payload = &executorv1.ExecutorEvent_TextAdd{TextAdd: &executorv1.TextAdd{
			AnswerId: flow.AnswerID(k.TextAdd.GetAnswer()), Offset: k.TextAdd.GetOffset(), Text: k.TextAdd.GetText(),
		}}
	case *storagev1.Fact_StatusChanged:
		e.Type = executorv1.EventType_EVENT_TYPE_STATUS_CHANGED
		e.Payload = &executorv1.ExecutorEvent_StatusChanged{StatusChanged: &executorv1.StatusChanged{
			From: k.StatusChanged.GetFrom(), To: f.GetStatus(), Reason: k.StatusChanged.GetReason(),
		}}
	case *storagev1.Fact_ToolsLoaded:
		e.Type = executorv1.EventType_EVENT_TYPE_TOOLS_LOADED
		e.Payload = &executorv1.ExecutorEvent_ToolsLoaded{ToolsLoaded: toolsLoaded(k.ToolsLoaded)}
	default:
		return false
	}
	return true
}

func stepPayload(e *executorv1.ExecutorEvent, t *journal.Task, f *storagev1.Fact) {
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_StepInit:
		e.Type = executorv1.EventType_EVENT_TYPE_STEP_INIT
		e.Payload = &executorv1.ExecutorEvent_StepInit{StepInit: &executorv1.StepInit{ToolId: f.GetToolId(), Description: k.StepInit}}
	case *storagev1.Fact_StepInput:
		e.Type = executorv1.EventType_EVENT_TYPE_STEP_INPUT
		e.Payload = &executorv1.ExecutorEvent_StepInput{StepInput: &executorv1.StepInput{
			InputJson: k.StepInput, Input: toStruct(k.StepInput), CallId: flow.AttemptID(taskIDOf(t, e.GetSeq()), f.GetOrdinal(), f.GetAttempt()),
		}}
	case *storagev1.Fact_StepOutput:
		e.Type = executorv1.EventType_EVENT_TYPE_STEP_OUTPUT
		e.Payload = &executorv1.ExecutorEvent_StepOutput{StepOutput: &executorv1.StepOutput{OutputJson: k.StepOutput, Output: toStruct(k.StepOutput)}}
	case *storagev1.Fact_StepError:
		e.Type = executorv1.EventType_EVENT_TYPE_STEP_ERROR
		e.Payload = &executorv1.ExecutorEvent_StepError{StepError: &executorv1.StepError{
			Error: errorMessage(k.StepError.GetError()), Outcome: k.StepError.GetOutcome(),
			ErrorClass: k.StepError.GetErrorClass(), Recovery: k.StepError.GetRecovery(),
		}}
	case *storagev1.Fact_StepCancel:
		e.Type = executorv1.EventType_EVENT_TYPE_STEP_CANCEL
		e.Payload = &executorv1.ExecutorEvent_StepCancel{StepCancel: &executorv1.StepCancel{Reason: k.StepCancel.GetReason(), Outcome: k.StepCancel.GetOutcome()}}
	case *storagev1.Fact_StepWaitingForStart:
		w := k.StepWaitingForStart
		e.Type = executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START
		e.Payload = &executorv1.ExecutorEvent_StepWaitingForStart{StepWaitingForStart: &executorv1.StepWaitingForStart{
			InputJson: w.GetInputJson(), Input: toStruct(w.GetInputJson()), Risk: risk(w.GetRisk()), Deadline: timestamp(w.GetDeadline()),
			OutcomeUnknown: w.GetOutcomeUnknown() != nil, Error: errorMessage(w.GetOutcomeUnknown()),
		}}
	case *storagev1.Fact_StepWaitingForParam:
		w := k.StepWaitingForParam
		e.Type = executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_PARAM
		e.Payload = &executorv1.ExecutorEvent_StepWaitingForParam{StepWaitingForParam: &executorv1.StepWaitingForParam{
			Message: w.GetMessage(), ParamsSchemaJson: w.GetParamsSchemaJson(), Params: toStruct(w.GetParamsSchemaJson()), Deadline: timestamp(w.GetDeadline()),
		}}
	case *storagev1.Fact_InputRequired:
		in := k.InputRequired
		e.Type = executorv1.EventType_EVENT_TYPE_INPUT_REQUIRED
		e.Payload = &executorv1.ExecutorEvent_InputRequired{InputRequired: &executorv1.InputRequired{
			Message: in.GetMessage(), SchemaJson: in.GetSchemaJson(), Schema: toStruct(in.GetSchemaJson()), Url: in.GetUrl(), Deadline: timestamp(in.GetDeadline()),
		}}
	case *storagev1.Fact_ToolProgress:
		w := k.ToolProgress
		e.Type = executorv1.EventType_EVENT_TYPE_TOOL_PROGRESS
		e.Payload = &executorv1.ExecutorEvent_ToolProgress{ToolProgress: &executorv1.ToolProgress{Progress: w.GetProgress(), Total: w.GetTotal(), Message: w.GetMessage()}}
	}
}

func toolsLoaded(l *storagev1.ToolsLoaded) *executorv1.ToolsLoaded {
	out := &executorv1.ToolsLoaded{ToolCount: l.GetToolCount(), McpIds: l.GetMcpIds()}
	for _, s := range l.GetSkipped() {
		out.Skipped = append(out.Skipped, &executorv1.SkippedServer{McpId: s.GetMcpId(), Reason: s.GetReason(), Message: s.GetMessage()})
	}
	return out
}

func risk(r *storagev1.RiskNote) *commonv1.Risk {
	if r == nil {
		return nil
	}
	return &commonv1.Risk{Level: r.GetLevel(), Reason: r.GetReason()}
}

func errorMessage(e *storagev1.ErrorNote) *commonv1.ErrorMessage {
	if e == nil {
		return nil
	}
	return &commonv1.ErrorMessage{ErrMsg: e.GetErrMsg(), DataJson: e.GetDataJson(), Reason: e.GetReason()}
}

func usage(u *storagev1.Usage, elapsed int64) *commonv1.Usage {
	out := &commonv1.Usage{
		Elapsed: durationpb.New(time.Duration(elapsed)), InputTokens: u.GetInputTokens(), OutputTokens: u.GetOutputTokens(),
		ModelCalls: u.GetModelCalls(), ToolCalls: u.GetToolCalls(), CachedInputTokens: u.GetCachedInputTokens(),
	}
	if u.GetModelCalls() > 0 && !u.GetCostUnknown() {
		out.CostNanoUsd = proto.Uint64(u.GetCostNanoUsd())
	}
	return out
}

// Duration converts nanoseconds; nil for 0.
func Duration(nanos int64) *durationpb.Duration {
	if nanos == 0 {
		return nil
	}
	return durationpb.New(time.Duration(nanos))
}

// taskIDOf returns the id of the task in which an event happened: a fork shares the events of earlier tasks.
func taskIDOf(t *journal.Task, seq uint64) string {
	for _, f := range t.Head.GetForks() {
		if seq <= f.GetSeq() {
			return f.GetTaskId()
		}
	}
	return t.ID
}

func timestamp(nanos int64) *timestamppb.Timestamp {
	if nanos == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, nanos))
}
