package api

import (
	"cmp"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// shownRisk is a placeholder for the risk that the wait shows; checkAnswer replaces it.
const shownRisk = commonv1.RiskLevel(-1)

// command converts the answer in a request to a command.
func command(req *executorv1.ResumeTaskRequest) (*storagev1.Command, error) {
	waitID := req.GetWaitId()
	switch a := req.GetAnswer().(type) {
	case *executorv1.ResumeTaskRequest_Approve:
		approve := &storagev1.Approve{WaitId: waitID}
		if g := a.Approve.GetGrant(); g != nil {
			approve.Grant = cmp.Or(g.GetMaxRisk(), shownRisk)
		}
		var err error
		if a.Approve.GetInput() != nil || a.Approve.GetInputJson() != "" {
			approve.InputJson, err = schema.ExactObject(a.Approve.GetInput(), a.Approve.GetInputJson())
		}
		approve.Plan = storedPlan(a.Approve.GetPlan())
		return &storagev1.Command{Kind: &storagev1.Command_Approve{Approve: approve}}, err
	case *executorv1.ResumeTaskRequest_Reject:
		return &storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: waitID, Reason: a.Reject.GetReason()}}}, nil
	case *executorv1.ResumeTaskRequest_Params:
		content, err := schema.ExactObject(a.Params.GetContent(), a.Params.GetContentJson())
		if err == nil && content == "{}" && a.Params.GetDescription() == "" {
			err = invalidField("params", "empty", "params are empty; give values in content, or describe them in description")
		}
		return &storagev1.Command{Kind: &storagev1.Command_Params{Params: &storagev1.SupplyParams{
			WaitId: waitID, Supplied: &storagev1.Supplied{ContentJson: content, Description: a.Params.GetDescription()},
		}}}, err
	case *executorv1.ResumeTaskRequest_Outcome:
		return outcomeCommand(waitID, a.Outcome)
	case *executorv1.ResumeTaskRequest_Input:
		return elicitationCommand(waitID, a.Input)
	case *executorv1.ResumeTaskRequest_Unpause:
		return &storagev1.Command{Kind: &storagev1.Command_Unpause{Unpause: &storagev1.Unpause{WaitId: waitID}}}, nil
	}
	return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"an answer is required: approve, reject, params, outcome, input or unpause")
}

// storedPlan converts an edited plan; nil if there is none.
func storedPlan(p *executorv1.Plan) *storagev1.PlanCreated {
	if p == nil {
		return nil
	}
	out := &storagev1.PlanCreated{MainTask: p.GetMainTask()}
	for _, st := range p.GetSubtasks() {
		out.Subtasks = append(out.Subtasks, &storagev1.PlannedSubtask{
			Id: st.GetId(), Title: st.GetTitle(), Description: st.GetDescription(), Acceptance: st.GetAcceptance(),
			DependsOn: st.GetDependsOn(), ToolIds: st.GetToolIds(),
		})
	}
	return out
}

func outcomeCommand(waitID string, a *executorv1.OutcomeAnswer) (*storagev1.Command, error) {
	settle := &storagev1.SettleOutcome{WaitId: waitID}
	switch k := a.GetAnswer().(type) {
	case *executorv1.OutcomeAnswer_Retry:
		settle.Answer = &storagev1.SettleOutcome_Retry{Retry: true}
	case *executorv1.OutcomeAnswer_Output:
		output, err := stepOutput(k.Output.GetOutput(), k.Output.GetOutputJson())
		if err != nil {
			return nil, err
		}
		settle.Answer = &storagev1.SettleOutcome_OutputJson{OutputJson: output}
	case *executorv1.OutcomeAnswer_Skip:
		settle.Answer = &storagev1.SettleOutcome_Skip{Skip: k.Skip.GetReason()}
	default:
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the answer is missing: set retry, output or skip")
	}
	return &storagev1.Command{Kind: &storagev1.Command_Outcome{Outcome: settle}}, nil
}

// outputSchema is the shape of a step's output.
const outputSchema = `{"type": "object", "properties": {"message": {"type": "string"}, "structured": {}, "media": {"type": "array"}},
	"additionalProperties": false, "anyOf": [{"required": ["message"]}, {"required": ["structured"]}]}`

// stepOutput returns a supplied output as exact JSON, or an error if it does not have the shape of a step's output.
func stepOutput(output *structpb.Struct, text string) (string, error) {
	exact, err := schema.ExactObject(output, text)
	if err != nil {
		return "", err
	}
	if err := validate(outputSchema, exact); err != nil {
		return "", invalidField("outcome.output", err.Error(), "the output does not have the shape of a step's output: %s; it must look like "+
			`{"message": "text", "structured": …, "media": […]}, with message or structured at least`, err)
	}
	return exact, nil
}

func elicitationCommand(waitID string, a *executorv1.InputAnswer) (*storagev1.Command, error) {
	const accept = executorv1.InputAnswer_ACTION_ACCEPT
	supply := &storagev1.SupplyInput{WaitId: waitID, Action: cmp.Or(a.GetAction(), accept)}
	var err error
	switch hasContent := a.GetContent() != nil || a.GetContentJson() != ""; {
	case hasContent && supply.GetAction() != accept:
		err = invalidField("input.content", "only with ACTION_ACCEPT", "content is allowed only with ACTION_ACCEPT; omit it, or accept")
	case hasContent:
		supply.ContentJson, err = schema.ExactObject(a.GetContent(), a.GetContentJson())
	case supply.GetAction() == accept:
		supply.ContentJson = "{}"
	}
	return &storagev1.Command{Kind: &storagev1.Command_Input{Input: supply}}, err
}

// invalidField returns an error about one field of a request.
func invalidField(field, violation, format string, args ...any) error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...).WithViolation(field, violation)
}
