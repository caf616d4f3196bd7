package api

import (
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func TestAnswerText(t *testing.T) {
	input := func(action executorv1.InputAnswer_Action, content string) *storagev1.Command {
		return &storagev1.Command{Kind: &storagev1.Command_Input{Input: &storagev1.SupplyInput{Action: action, ContentJson: content}}}
	}
	approve := func(a *storagev1.Approve) *storagev1.Command {
		return &storagev1.Command{Kind: &storagev1.Command_Approve{Approve: a}}
	}
	outcome := func(o *storagev1.SettleOutcome) *storagev1.Command {
		return &storagev1.Command{Kind: &storagev1.Command_Outcome{Outcome: o}}
	}
	supplied := &storagev1.SupplyParams{Supplied: &storagev1.Supplied{ContentJson: "{}", Description: "the second one"}}
	w := &storagev1.WaitNote{ToolId: "t/write", InputJson: `{"a":1}`}
	for want, c := range map[string]*storagev1.Command{
		`approved: t/write {"a":1}`:                          approve(&storagev1.Approve{}),
		`approved: t/write {"a":2}`:                          approve(&storagev1.Approve{InputJson: `{"a":2}`}),
		`approved for the rest of the task: t/write {"a":1}`: approve(&storagev1.Approve{Grant: commonv1.RiskLevel_RISK_LEVEL_HIGH}),
		"rejected: not today":                                {Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{Reason: "not today"}}},
		`rejected: t/write {"a":1}`:                          {Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{}}},
		"supplied: the second one":                           {Kind: &storagev1.Command_Params{Params: supplied}},
		`to be called again: t/write {"a":1}`:                outcome(&storagev1.SettleOutcome{Answer: &storagev1.SettleOutcome_Retry{Retry: true}}),
		`it was called, with the output: {"message":"x"}`:    outcome(&storagev1.SettleOutcome{Answer: &storagev1.SettleOutcome_OutputJson{OutputJson: `{"message":"x"}`}}),
		`skipped: t/write {"a":1}`:                           outcome(&storagev1.SettleOutcome{Answer: &storagev1.SettleOutcome_Skip{}}),
		`answered: {"city":"Bern"}`:                          input(executorv1.InputAnswer_ACTION_ACCEPT, `{"city":"Bern"}`),
		"answered":                                           input(executorv1.InputAnswer_ACTION_ACCEPT, "{}"),
		"declined":                                           input(executorv1.InputAnswer_ACTION_DECLINE, ""),
		"cancelled":                                          input(executorv1.InputAnswer_ACTION_CANCEL, ""),
	} {
		if got := answerText(w, c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := answerText(nil, approve(&storagev1.Approve{InputJson: strings.Repeat("ä", maxAnswer)})); len(got) > maxAnswer+len("…") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
