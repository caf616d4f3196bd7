package pipeline

import (
	"testing"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// C12: the client sees the text without markup, however it is split; the next processors see all of it.
func TestSideBandHidesMarkup(t *testing.T) {
	for raw, want := range map[string]string{
		"plain":          "plain",
		"a < b <func":    "a < b <func",
		"1 <function 2>": "1 <function 2>",
		"I look.<function_calls><invoke name=\"a\"></invoke></function_calls>\nYes": "I look.\nYes",
		"<function_calls>x</function_calls>a<function_calls>y</function_calls>":     "a",
		"cut <function_calls><invoke name=\"a\"><parameter name=\"b\">c":            "cut ",
		"the tag <function_calls> begins":                                           "the tag <function_calls> begins",
	} {
		for size := 1; size <= len(raw); size++ {
			var pieces []string
			for at := 0; at < len(raw); at += size {
				pieces = append(pieces, raw[at:min(at+size, len(raw))])
			}
			x := exchange()
			x.Native, x.Reply = false, said(nil, pieces...)
			if err := (SideBand{}).Process(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			if shown, _ := drained(x.Out); shown != want || x.Text != want || x.Raw != raw {
				t.Errorf("%q in pieces of %d: shown %q, text %q, raw %q", raw, size, shown, x.Text, x.Raw)
			}
		}
	}
}

func TestSideBandCollects(t *testing.T) {
	x := exchange()
	x.Reply = said([]*plannerv1.ModelToolCall{modelCall("1", "fs__read", "{}"), modelCall("2", "fs__read", "{}")}, "a", "<function_calls>")
	if err := (SideBand{}).Process(t.Context(), x); err != nil || x.Text != "a<function_calls>" || len(x.Calls) != 2 || x.Response.GetModel() != "m" || x.Response.GetUsage().GetCostNanoUsd() != 3 {
		t.Error(x, err)
	}
	// An error has what all calls of the request have cost; a broken connection says what to do.
	cost := uint64(4)
	x.Reply = &replies[plannerv1.GenerateResponse]{err: errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "gone").WithUsage(&commonv1.Usage{ModelCalls: 1, CostNanoUsd: &cost})}
	err := (SideBand{}).Process(t.Context(), x)
	if e := errs.From(err); e.Reason != commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR || e.Usage.GetCostNanoUsd() != 7 || e.Usage.GetModelCalls() != 2 {
		t.Error(err, e.Usage)
	}
	x.Reply = &replies[plannerv1.GenerateResponse]{}
	if err := (SideBand{}).Process(t.Context(), x); err == nil {
		t.Error("a reply without an end was accepted")
	}
}
