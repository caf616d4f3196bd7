package step

import (
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// refusal returns how a person refused one of the call's questions: "declined", "dismissed", or "" if no question was refused.
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

// refusedError returns the error of a call that is not repeated because a person refused its question.
func refusedError(e *storagev1.ErrorNote, refusal string) *storagev1.ErrorNote {
	return &storagev1.ErrorNote{
		ErrMsg:   "the tool's question was " + refusal + ", so the tool is not called again: " + e.GetErrMsg(),
		DataJson: e.GetDataJson(), Reason: e.GetReason(),
	}
}

// serverLostAnswers reports whether a call failed because its server became unavailable after a person had answered the server's questions. The
// pool does not repeat the call, because the server would ask again. The flow makes another attempt, which reuses the answers.
func serverLostAnswers(e *storagev1.ErrorNote, answers []*storagev1.InputAnswer) bool {
	return e.GetReason() == commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE &&
		slices.ContainsFunc(answers, func(a *storagev1.InputAnswer) bool { return !a.GetGivenUp() })
}
