package api

import (
	"cmp"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	accept = executorv1.InputAnswer_ACTION_ACCEPT
	inputs = executorv1.WaitKind_WAIT_KIND_INPUT
)

// inputCommand is a person's answer to a tool's server.
func inputCommand(waitID string, a *executorv1.InputAnswer) (*storagev1.Command, error) {
	supply := &storagev1.SupplyInput{WaitId: waitID, Action: cmp.Or(a.GetAction(), accept)}
	given := a.GetContent() != nil || a.GetContentJson() != ""
	switch {
	case given && supply.GetAction() != accept:
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			"content goes with ACTION_ACCEPT alone; leave it out, or accept").WithViolation("input.content", "only with ACTION_ACCEPT")
	case given:
		content, err := schema.ExactObject(a.GetContent(), a.GetContentJson())
		if err != nil {
			return nil, err
		}
		supply.ContentJson = content
	case supply.GetAction() == accept:
		supply.ContentJson = "{}"
	}
	return &storagev1.Command{Kind: &storagev1.Command_Input{Input: supply}}, nil
}

// checkInput refuses what does not fit what was asked for, while the wait is still open. A schema that cannot be read is left
// to the pool.
func checkInput(open *storagev1.Wait, in *storagev1.SupplyInput) error {
	if in.GetAction() != accept || open.GetKind() != inputs {
		return nil
	}
	if open.GetUrl() != "" {
		if in.GetContentJson() != "{}" {
			return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
				"%s asks to open %s and takes no content: what is entered there does not pass through here", open.GetId(), open.GetUrl()).
				WithViolation("input.content", "must be empty")
		}
		return nil
	}
	compiled, err := schema.Compile(open.GetParamsSchemaJson())
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	if err := compiled.Validate(in.GetContentJson()); err != nil {
		return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			"the content does not fit what %s asks for: %s", open.GetId(), err).WithViolation("input.content", err.Error())
	}
	return nil
}
