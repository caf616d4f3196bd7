package api

import (
	"bytes"
	"cmp"
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"

	"pawl.dev/executor-svc/internal/flow"
	agentflow "pawl.dev/executor-svc/internal/flow/agent"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// ResumeTask implements ExecutorService.
func (s *Tasks) ResumeTask(ctx context.Context, req *executorv1.ResumeTaskRequest) (*executorv1.Task, error) {
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	c, err := command(req)
	if err != nil {
		return nil, err
	}
	if c.GetUnpause() != nil {
		return s.unpause(ctx, t, c)
	}
	open := openWait(t, req.GetWaitId())
	if open == nil {
		return s.answered(ctx, t, c, req.GetWaitId())
	}
	// Also where it would be queued behind what closes the wait: who answers would not learn that it came to nothing.
	if err := agentflow.Fits(open, c); err != nil {
		return nil, err
	}
	if a := c.GetApprove(); a != nil && a.GetGrant() == shownRisk {
		a.Grant = riskOf(t, open)
	}
	if input := c.GetApprove().GetInputJson(); input != "" {
		if err := s.checkEdit(ctx, t.Head, toolOf(t, open), input); err != nil {
			return nil, err
		}
	}
	if err := checkInput(open, c.GetInput()); err != nil {
		return nil, err
	}
	if err := s.Engine.Send(ctx, t.ID, c); err != nil {
		if errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN {
			return s.answered(ctx, t, c, req.GetWaitId())
		}
		return nil, fault(err, taskNotFound(t.ID))
	}
	return s.get(ctx, t.ID)
}

// CancelTask implements ExecutorService.
func (s *Tasks) CancelTask(ctx context.Context, req *executorv1.CancelTaskRequest) (*executorv1.Task, error) {
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	if !state.Ended(t.Checkpoint.GetStatus()) {
		err := s.Engine.Send(ctx, t.ID, &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{Reason: req.GetReason()}}})
		if err != nil && errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TASK_ENDED {
			return nil, fault(err, taskNotFound(t.ID))
		}
	}
	return s.get(ctx, t.ID)
}

// unpause lets a task go on; one that is not paused is as it should be.
func (s *Tasks) unpause(ctx context.Context, t *journal.Task, c *storagev1.Command) (*executorv1.Task, error) {
	switch {
	case state.Ended(t.Checkpoint.GetStatus()):
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED, "the task has ended; start a new one")
	case t.Checkpoint.GetPauseRequested():
		if err := s.Engine.Send(ctx, t.ID, c); err != nil && errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN {
			return nil, fault(err, taskNotFound(t.ID))
		}
	}
	return s.get(ctx, t.ID)
}

// PauseTask implements ExecutorService.
func (s *Tasks) PauseTask(ctx context.Context, req *executorv1.PauseTaskRequest) (*executorv1.Task, error) {
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	err = s.Engine.Send(ctx, t.ID, &storagev1.Command{Kind: &storagev1.Command_Pause{Pause: &storagev1.Pause{Reason: req.GetReason()}}})
	if err != nil {
		return nil, fault(err, taskNotFound(t.ID))
	}
	return s.get(ctx, t.ID)
}

func command(req *executorv1.ResumeTaskRequest) (*storagev1.Command, error) {
	switch a := req.GetAnswer().(type) {
	case *executorv1.ResumeTaskRequest_Approve:
		input, err := edited(a.Approve.GetInput(), a.Approve.GetInputJson())
		if err != nil {
			return nil, err
		}
		approve := &storagev1.Approve{WaitId: req.GetWaitId(), InputJson: input}
		if g := a.Approve.GetGrant(); g != nil {
			approve.Grant = cmp.Or(g.GetMaxRisk(), shownRisk)
		}
		return &storagev1.Command{Kind: &storagev1.Command_Approve{Approve: approve}}, nil
	case *executorv1.ResumeTaskRequest_Reject:
		return &storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: req.GetWaitId(), Reason: a.Reject.GetReason()}}}, nil
	case *executorv1.ResumeTaskRequest_Params:
		content, err := schema.ExactObject(a.Params.GetContent(), a.Params.GetContentJson())
		if err != nil {
			return nil, err
		}
		if content == "{}" && a.Params.GetDescription() == "" {
			return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
				"params are empty; give values in content, or say them in description").WithViolation("params", "empty")
		}
		return &storagev1.Command{Kind: &storagev1.Command_Params{Params: &storagev1.SupplyParams{
			WaitId:   req.GetWaitId(),
			Supplied: &storagev1.Supplied{ContentJson: content, Description: a.Params.GetDescription()},
		}}}, nil
	case *executorv1.ResumeTaskRequest_Outcome:
		return outcomeCommand(req.GetWaitId(), a.Outcome)
	case *executorv1.ResumeTaskRequest_Input:
		return inputCommand(req.GetWaitId(), a.Input)
	case *executorv1.ResumeTaskRequest_Unpause:
		return &storagev1.Command{Kind: &storagev1.Command_Unpause{Unpause: &storagev1.Unpause{WaitId: req.GetWaitId()}}}, nil
	}
	return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"an answer is required: approve, reject, params, outcome, input or unpause")
}

func outcomeCommand(waitID string, a *executorv1.OutcomeAnswer) (*storagev1.Command, error) {
	settle := &storagev1.SettleOutcome{WaitId: waitID}
	switch k := a.GetAnswer().(type) {
	case *executorv1.OutcomeAnswer_Retry:
		settle.Answer = &storagev1.SettleOutcome_Retry{Retry: true}
	case *executorv1.OutcomeAnswer_Output:
		output, err := schema.ExactObject(k.Output.GetOutput(), k.Output.GetOutputJson())
		if err != nil {
			return nil, err
		}
		settle.Answer = &storagev1.SettleOutcome_OutputJson{OutputJson: output}
	case *executorv1.OutcomeAnswer_Skip:
		settle.Answer = &storagev1.SettleOutcome_Skip{Skip: k.Skip.GetReason()}
	default:
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "say what became of the call: retry, output or skip")
	}
	return &storagev1.Command{Kind: &storagev1.Command_Outcome{Outcome: settle}}, nil
}

// shownRisk stands for the risk that was shown with the wait.
const shownRisk = commonv1.RiskLevel(-1)

func riskOf(t *journal.Task, w *storagev1.Wait) commonv1.RiskLevel {
	for _, s := range t.Checkpoint.GetActiveSteps() {
		if s.GetOrdinal() == w.GetOrdinal() {
			return s.GetRisk().GetLevel()
		}
	}
	return commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED
}

// edited returns the edited input as exact JSON, or nothing where none was given.
func edited(input *structpb.Struct, text string) (string, error) {
	if input == nil && text == "" {
		return "", nil
	}
	return schema.ExactObject(input, text)
}

func openWait(t *journal.Task, id string) *storagev1.Wait {
	for _, w := range t.Checkpoint.GetWaits() {
		if w.GetId() == id {
			return w
		}
	}
	return nil
}

func toolOf(t *journal.Task, w *storagev1.Wait) string {
	for _, s := range t.Checkpoint.GetActiveSteps() {
		if s.GetOrdinal() == w.GetOrdinal() {
			return s.GetToolId()
		}
	}
	return ""
}

// answered says what became of a wait that is not open. Repeating the answer that was given is harmless; another one is
// refused.
func (s *Tasks) answered(ctx context.Context, t *journal.Task, c *storagev1.Command, waitID string) (*executorv1.Task, error) {
	var given *storagev1.Fact
	var asked asked
	err := s.records(ctx, t.ID, func(r journal.Record) {
		for _, f := range r.GetFacts() {
			if f.GetWaitId() != waitID {
				continue
			}
			if w := f.GetStepWaitingForStart(); w != nil {
				asked.input, asked.outcome = w.GetInputJson(), w.GetOutcomeUnknown() != nil
			}
			if given == nil && closes(f) {
				given = f
			}
		}
	})
	switch {
	case err != nil:
		return nil, err
	case given != nil && same(c, given, asked):
		return s.get(ctx, t.ID)
	case given == nil && state.Ended(t.Checkpoint.GetStatus()):
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED,
			"the task has ended; start a new one")
	case given != nil:
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN,
			"%s was answered already, in another way; look at the task for the waits that are open", waitID)
	}
	return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN,
		"%s is not open; look at the task for the waits that are", waitID)
}

func closes(f *storagev1.Fact) bool {
	switch f.GetKind().(type) {
	case *storagev1.Fact_StepInput, *storagev1.Fact_StepCancel, *storagev1.Fact_StatusChanged, *storagev1.Fact_StepOutput, *storagev1.Fact_StepError:
		return true
	}
	return false
}

// asked is what a person was asked: to approve an input, or what became of its call.
type asked struct {
	input   string
	outcome bool
}

// same says whether a command repeats the answer that was given.
func same(c *storagev1.Command, given *storagev1.Fact, q asked) bool {
	switch k := given.GetKind().(type) {
	case *storagev1.Fact_StepInput:
		return q.started(c, flow.InputHash(k.StepInput))
	case *storagev1.Fact_StepCancel:
		return c.GetReject() != nil && (c.GetReject().GetReason() == "" || c.GetReject().GetReason() == k.StepCancel.GetReason())
	case *storagev1.Fact_StatusChanged:
		if k.StatusChanged.GetReason() == agentflow.Approved {
			return q.started(c, k.StatusChanged.GetSuppliedHash())
		}
		if in := c.GetInput(); in != nil {
			return bytes.Equal(k.StatusChanged.GetSuppliedHash(), flow.AnswerHash(in))
		}
		return c.GetParams() != nil && bytes.Equal(k.StatusChanged.GetSuppliedHash(), flow.SuppliedHash(c.GetParams().GetSupplied()))
	case *storagev1.Fact_StepOutput:
		return c.GetOutcome() != nil && c.GetOutcome().GetOutputJson() == k.StepOutput
	case *storagev1.Fact_StepError:
		_, skip := c.GetOutcome().GetAnswer().(*storagev1.SettleOutcome_Skip)
		return skip && k.StepError.GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN
	}
	return false
}

// started says whether a command is the one that let the step run with the input of that hash.
func (q asked) started(c *storagev1.Command, hash []byte) bool {
	if q.outcome {
		return c.GetOutcome().GetRetry()
	}
	return c.GetApprove() != nil && bytes.Equal(hash, flow.InputHash(cmp.Or(c.GetApprove().GetInputJson(), q.input)))
}
