package api

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/schema"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/step"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// ResumeTask implements ExecutorService.
func (s *Tasks) ResumeTask(ctx context.Context, req *executorv1.ResumeTaskRequest) (*executorv1.Task, error) {
	t, own, err := s.answerable(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	c, err := command(req)
	if err != nil {
		return nil, err
	}
	if c.GetUnpause() != nil {
		switch {
		case !own:
			return nil, taskNotFound(t.ID)
		case !t.Checkpoint.GetPauseRequested() && !state.Ended(t.Checkpoint.GetStatus()):
			return s.get(ctx, t.ID) // it is not paused
		}
		return s.send(ctx, t, c, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN)
	}
	if err := s.answer(ctx, t, c, req.GetWaitId()); err != nil {
		return nil, err
	}
	if err := s.recordAnswer(ctx, t, req.GetWaitId(), c); err != nil {
		return nil, err
	}
	if !own {
		return &executorv1.Task{Id: t.ID, ConversationId: t.Head.GetConversationId(), AgentId: t.Head.GetAgentId()}, nil
	}
	return s.get(ctx, t.ID)
}

// answer answers a wait. The same answer may be sent again.
func (s *Tasks) answer(ctx context.Context, t *journal.Task, c *storagev1.Command, waitID string) error {
	i := slices.IndexFunc(t.Checkpoint.GetWaits(), func(w *storagev1.Wait) bool { return w.GetId() == waitID })
	if i < 0 {
		return s.repeatAnswer(ctx, t, c, waitID)
	}
	if err := s.checkAnswer(ctx, t, t.Checkpoint.GetWaits()[i], c); err != nil {
		return err
	}
	err := s.Engine.Send(ctx, t.ID, c)
	if errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN {
		return s.repeatAnswer(ctx, t, c, waitID)
	}
	return apiError(err, taskNotFound(t.ID))
}

// CancelTask implements ExecutorService.
func (s *Tasks) CancelTask(ctx context.Context, req *executorv1.CancelTaskRequest) (*executorv1.Task, error) {
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	tolerated := commonv1.ErrorReason_ERROR_REASON_TASK_ENDED
	switch {
	case req.GetSubtaskId() != "":
		tolerated = 0
	case state.Ended(t.Checkpoint.GetStatus()):
		return s.get(ctx, t.ID)
	}
	cancel := &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{Reason: req.GetReason(), SubtaskId: req.GetSubtaskId()}}}
	return s.send(ctx, t, cancel, tolerated)
}

// PauseTask implements ExecutorService.
func (s *Tasks) PauseTask(ctx context.Context, req *executorv1.PauseTaskRequest) (*executorv1.Task, error) {
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return s.send(ctx, t, &storagev1.Command{Kind: &storagev1.Command_Pause{Pause: &storagev1.Pause{Reason: req.GetReason()}}}, 0)
}

// send sends a command and returns the task. An error with the tolerated reason counts as success.
func (s *Tasks) send(ctx context.Context, t *journal.Task, c *storagev1.Command, tolerated commonv1.ErrorReason) (*executorv1.Task, error) {
	if err := s.Engine.Send(ctx, t.ID, c); err != nil && (tolerated == 0 || errs.Reason(err) != tolerated) {
		return nil, apiError(err, taskNotFound(t.ID))
	}
	return s.get(ctx, t.ID)
}

// checkAnswer checks an answer before it is sent, because Send may return before the command is applied. It also replaces shownRisk in a grant
// with the step's risk.
func (s *Tasks) checkAnswer(ctx context.Context, t *journal.Task, wait *storagev1.Wait, c *storagev1.Command) error {
	if err := step.CheckWaitKind(wait, c); err != nil {
		return err
	}
	active := flow.ActiveStep(t.Checkpoint, wait.GetOrdinal())
	if a := c.GetApprove(); a != nil {
		if isPlan := wait.GetKind() == executorv1.WaitKind_WAIT_KIND_PLAN; isPlan && a.GetInputJson() != "" {
			return invalidField("approve.input", "not for a plan", "%s asks about the plan, which has no input; edit the plan in approve.plan", wait.GetId())
		} else if !isPlan && a.GetPlan() != nil {
			return invalidField("approve.plan", "not for a step", "%s asks about a step, not about a plan", wait.GetId())
		}
		if a.GetGrant() == shownRisk {
			a.Grant = active.GetRisk().GetLevel()
		}
		if a.GetInputJson() != "" {
			return s.checkEdit(ctx, t.Head.GetUserSub(), active.GetToolId(), a.GetInputJson())
		}
	}
	if in := c.GetInput(); in.GetAction() == executorv1.InputAnswer_ACTION_ACCEPT {
		return checkContent(wait, in.GetContentJson())
	}
	return nil
}

// checkEdit refuses an edited input that does not fit the tool's schema. If the tool cannot be looked up, only the
// pool checks the input, before it calls the tool.
func (s *Tasks) checkEdit(ctx context.Context, user, toolID, input string) error {
	mcpID, name := flow.ToolName(toolID)
	ctx = serve.WithAffinity(identity.OnBehalfOf(ctx, user), mcpID, user)
	req := &mcppoolv1.ListToolsRequest{McpId: mcpID, PageSize: 1000, Query: name}
	for {
		page, err := s.Pool.ListTools(ctx, req)
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		for _, tool := range page.GetTools() {
			if tool.GetName() != name {
				continue
			}
			if err := validate(tool.GetInputSchemaJson(), input); err != nil {
				return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
					"the edited input does not fit %s: %s", tool.GetId(), err).WithViolation("approve.input", err.Error())
			}
			return nil
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

// checkContent refuses content that does not fit a question of a tool's server.
func checkContent(wait *storagev1.Wait, content string) error {
	if wait.GetUrl() != "" {
		if content != "{}" {
			return invalidField("input.content", "must be empty",
				"%s takes no content: open %s and answer there", wait.GetId(), wait.GetUrl())
		}
		return nil
	}
	if err := validate(wait.GetParamsSchemaJson(), content); err != nil {
		return invalidField("input.content", err.Error(), "the content does not fit the form of %s: %s", wait.GetId(), err)
	}
	return nil
}

// validate checks JSON against a schema. It accepts any JSON if the schema cannot be read, because the pool reports the tool's fault.
func validate(schemaJSON, text string) error {
	compiled, err := schema.Compile(schemaJSON)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return compiled.Validate(text)
}

// repeatAnswer handles an answer to a wait that is not open. It returns nil if the same answer closed the wait, else an error.
func (s *Tasks) repeatAnswer(ctx context.Context, t *journal.Task, c *storagev1.Command, waitID string) error {
	var answer *storagev1.Fact
	var question approvalQuestion
	err := s.records(ctx, t.ID, func(r journal.Record) {
		for _, f := range r.GetFacts() {
			if f.GetWaitId() != waitID {
				continue
			}
			if w := f.GetStepWaitingForStart(); w != nil {
				question = approvalQuestion{input: w.GetInputJson(), outcome: w.GetOutcomeUnknown() != nil}
			}
			if answer == nil && isAnswer(f) {
				answer = f
			}
		}
	})
	switch {
	case err != nil:
		return err
	case answer != nil && repeats(c, answer, question):
		return nil
	case answer == nil && state.Ended(t.Checkpoint.GetStatus()):
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED,
			"the task has ended; start a new one")
	case answer != nil:
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN,
			"%s already has another answer; the task lists its open waits", waitID)
	}
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN,
		"%s is not open; the task lists its open waits", waitID)
}

// isAnswer reports whether a fact about a wait records the wait's answer.
func isAnswer(f *storagev1.Fact) bool {
	switch f.GetKind().(type) {
	case *storagev1.Fact_StepInput, *storagev1.Fact_StepCancel, *storagev1.Fact_StatusChanged, *storagev1.Fact_StepOutput, *storagev1.Fact_StepError,
		*storagev1.Fact_FlowCancel:
		return true
	}
	return false
}

// approvalQuestion is the question of a wait for an approval or an outcome.
type approvalQuestion struct {
	input string
	// outcome reports that the wait asks for the outcome of a call with the input.
	outcome bool
}

// repeats reports whether a command repeats the answer that a fact records.
func repeats(c *storagev1.Command, answer *storagev1.Fact, q approvalQuestion) bool {
	switch k := answer.GetKind().(type) {
	case *storagev1.Fact_StepInput:
		return q.approves(c, flow.InputHash(k.StepInput))
	case *storagev1.Fact_StepCancel:
		return rejects(c, k.StepCancel.GetReason())
	case *storagev1.Fact_FlowCancel: // a plan was rejected
		return rejects(c, k.FlowCancel)
	case *storagev1.Fact_StatusChanged:
		if k.StatusChanged.GetReason() == step.Approved {
			return q.approves(c, k.StatusChanged.GetSuppliedHash())
		}
		if in := c.GetInput(); in != nil {
			return bytes.Equal(k.StatusChanged.GetSuppliedHash(), flow.ElicitationAnswerHash(in))
		}
		return c.GetParams() != nil && bytes.Equal(k.StatusChanged.GetSuppliedHash(), flow.SuppliedHash(c.GetParams().GetSupplied()))
	case *storagev1.Fact_StepOutput:
		return c.GetOutcome() != nil && c.GetOutcome().GetOutputJson() == k.StepOutput
	case *storagev1.Fact_StepError:
		if e := k.StepError.GetError(); e.GetReason() == commonv1.ErrorReason_ERROR_REASON_REJECTED {
			return rejects(c, strings.TrimPrefix(e.GetErrMsg(), step.CancelledByUser+": "))
		}
		_, skip := c.GetOutcome().GetAnswer().(*storagev1.SettleOutcome_Skip)
		return skip && k.StepError.GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN
	}
	return false
}

// rejects reports whether a command rejects for this reason, or for none.
func rejects(c *storagev1.Command, reason string) bool {
	return c.GetReject() != nil && (c.GetReject().GetReason() == "" || c.GetReject().GetReason() == reason)
}

// approves reports whether a command starts the step with the input that has this hash.
func (q approvalQuestion) approves(c *storagev1.Command, hash []byte) bool {
	if q.outcome {
		return c.GetOutcome().GetRetry()
	}
	return c.GetApprove() != nil && bytes.Equal(hash, flow.ApprovalHash(c.GetApprove(), q.input))
}
