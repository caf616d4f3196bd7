package agent

import (
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// refusal is how a person said no to what a call asked for; empty where nobody did.
func refusal(answers []*storagev1.InputAnswer) string {
	for _, a := range answers {
		switch {
		case a.GetAction() == executorv1.InputAnswer_ACTION_DECLINE:
			return "declined"
		case a.GetAction() == executorv1.InputAnswer_ACTION_CANCEL && !a.GetGivenUp():
			return "dismissed"
		}
	}
	return ""
}

// refused is the error of a call that was lost after a person had said no: that is why it is not made again.
func refused(e *storagev1.ErrorNote, said string) *storagev1.ErrorNote {
	return &storagev1.ErrorNote{
		ErrMsg:   "what the tool asked for was " + said + ", so it is not called again: " + e.GetErrMsg(),
		DataJson: e.GetDataJson(), Reason: e.GetReason(),
	}
}

// lostAnswers says whether a person answered a call whose server went away. The pool tries no call again that has asked,
// because nobody would see why the same is asked once more: it is for another attempt to do.
func lostAnswers(e *storagev1.ErrorNote, answers []*storagev1.InputAnswer) bool {
	return e.GetReason() == commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE &&
		slices.ContainsFunc(answers, func(a *storagev1.InputAnswer) bool { return !a.GetGivenUp() })
}
