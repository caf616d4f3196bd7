package api_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// An answer is taken, or refused with a clear error, whatever it holds, and the task can be read afterwards (A9, A10).
func FuzzResumeTask(f *testing.F) {
	for kind := range byte(10) {
		for _, content := range []string{
			"", "{}", `{"text":"x"}`, "[]", "null", `{"text":`, `{"text":1e999}`, `{"a":{"a":{"a":1}}}`, `{"text":"\ud800"}`, "\x00", `{"text":"a","text":"b"}`,
			`{"n":12345678901234567890}`,
		} {
			f.Add(kind, "wait-1", content, "said", int32(kind)-1)
		}
	}
	f.Add(byte(0), "", "", "", int32(0))
	f.Add(byte(0), "wait-4294967296", "{}", "", int32(99))
	r := newRig(f)
	f.Fuzz(func(t *testing.T, kind byte, wait, content, said string, level int32) {
		wait, content, said = text(wait), text(content), text(said)
		id := r.task(t, executorv1.WaitKind(1+kind/10%4))
		req := &executorv1.ResumeTaskRequest{Id: id, WaitId: wait}
		switch kind % 10 {
		case 0:
			req.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{InputJson: content}}
		case 1:
			req.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{Input: object(content), Grant: &executorv1.Grant{MaxRisk: commonv1.RiskLevel(level)}}}
		case 2:
			req.Answer = &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: said}}
		case 3:
			req.Answer = &executorv1.ResumeTaskRequest_Params{Params: &executorv1.Params{ContentJson: content, Description: said}}
		case 4:
			req.Answer = &executorv1.ResumeTaskRequest_Params{Params: &executorv1.Params{Content: object(content), ContentJson: content, Description: said}}
		case 5:
			req.Answer = outcome(&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: content}}})
		case 6:
			req.Answer = outcome(&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{Reason: said}}})
		case 7:
			req.Answer = outcome(&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{}})
		case 8:
			req.Answer = outcome(&executorv1.OutcomeAnswer{})
		case 9:
			req.Answer = &executorv1.ResumeTaskRequest_Unpause{}
		}
		_, err := r.tasks.ResumeTask(t.Context(), req)
		succeeded(t, "ResumeTask", err)
		r.readable(t, id)
	})
}

func outcome(a *executorv1.OutcomeAnswer) *executorv1.ResumeTaskRequest_Outcome {
	return &executorv1.ResumeTaskRequest_Outcome{Outcome: a}
}

// object parses content into a Struct; nil if it is not a JSON object.
func object(content string) *structpb.Struct {
	s := &structpb.Struct{}
	if s.UnmarshalJSON([]byte(content)) != nil {
		return nil
	}
	return s
}
