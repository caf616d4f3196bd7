package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// readBytes bounds the part of an output that one call of flow.ReadOutput returns.
const readBytes = 16_000

// part is the input of a call of flow.ReadOutput.
type part struct {
	Step   string `json:"step"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

// callReadOutput returns the Run of a call of flow.ReadOutput, which reads the output from the task's history or the journal.
func (s *Session) callReadOutput(log *history.Log, st *storagev1.ActiveStep, attempt uint32) Run {
	var in part
	err := json.Unmarshal([]byte(st.GetInputJson()), &in)
	var of history.Entry
	for _, e := range log.Entries {
		if e.Ended() && flow.StepID(e.Ordinal) == in.Step {
			of = *e
		}
	}
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.Called{Ordinal: st.GetOrdinal(), Attempt: attempt, Outcome: commonv1.Outcome_OUTCOME_KNOWN}
		switch {
		case err != nil:
			err = fmt.Errorf("the input must have a step and an offset: %w", err)
		case of.Ordinal == 0:
			err = fmt.Errorf("no step %q has ended", in.Step)
		default:
			out.Output, err = s.readPart(ctx, &of, in)
		}
		if ctx.Err() != nil {
			return // the task's next owner reads again
		}
		if err != nil {
			out.Err = &storagev1.ErrorNote{
				ErrMsg: err.Error(), DataJson: st.GetInputJson(), Reason: commonv1.ErrorReason_ERROR_REASON_RESOURCE_NOT_FOUND,
			}
		}
		emit(out)
	}
}

// readPart returns a part of a step's text, as plannerv1.PlannedStep.from_history defines it.
func (s *Session) readPart(ctx context.Context, e *history.Entry, in part) (string, error) {
	reader := &outputReader{s: s}
	defer reader.done()
	text, err := reader.text(ctx, e)
	if err != nil {
		return "", err
	}
	if in.Offset < 0 || in.Offset > len(text) {
		return "", fmt.Errorf("%s has %d bytes; offset %d is not among them", in.Step, len(text), in.Offset)
	}
	from := in.Offset
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	size := readBytes
	if in.Limit > 0 {
		size = min(in.Limit, readBytes)
	}
	to := min(from+size, len(text))
	for to < len(text) && to > from && !utf8.RuneStart(text[to]) {
		to--
	}
	part := map[string]any{"step": in.Step, "offset": from, "total": len(text)}
	if to < len(text) {
		part["next_offset"] = to
	}
	raw, err := json.Marshal(map[string]any{"message": text[from:to], "structured": part})
	return string(raw), err
}

// text returns the text of a step: that of its error or of its output.
func (r *outputReader) text(ctx context.Context, e *history.Entry) (string, error) {
	if e.Status != executorv1.StepStatus_STEP_STATUS_SUCCESS {
		return e.Error.GetErrMsg(), nil
	}
	raw, err := r.output(ctx, e)
	if err != nil {
		return "", err
	}
	return outputText(raw), nil
}

// outputText returns the text of an output: its message, followed by its structured part unless the message is JSON itself.
func outputText(raw string) string {
	var out toolcall.Result
	if json.Unmarshal([]byte(raw), &out) != nil {
		return raw
	}
	var structured bytes.Buffer
	if len(out.Structured) == 0 || string(out.Structured) == "null" || json.Valid([]byte(out.Message)) || json.Compact(&structured, out.Structured) != nil {
		return out.Message
	}
	if out.Message == "" {
		return structured.String()
	}
	return out.Message + "\n" + structured.String()
}
