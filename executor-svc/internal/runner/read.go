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
)

// readBytes bounds the part of an output that one call of flow.ReadOutput returns.
const readBytes = 16_000

// readOutput returns the Run of a call of flow.ReadOutput, with the output read from the task's history.
func readOutput(log *history.Log, st *storagev1.ActiveStep, attempt uint32) Run {
	out := flow.Called{Ordinal: st.GetOrdinal(), Attempt: attempt, Outcome: commonv1.Outcome_OUTCOME_KNOWN}
	text, err := readPart(log, st.GetInputJson())
	if err != nil {
		out.Err = &storagev1.ErrorNote{
			ErrMsg: err.Error(), DataJson: st.GetInputJson(), Reason: commonv1.ErrorReason_ERROR_REASON_RESOURCE_NOT_FOUND,
		}
	}
	out.Output = text
	return func(_ context.Context, emit func(flow.Input)) { emit(out) }
}

// readPart returns the output of a call with this input, as plannerv1.PlannedStep.from_history defines it.
func readPart(log *history.Log, input string) (string, error) {
	var in struct {
		Step   string `json:"step"`
		Offset int    `json:"offset"`
		Limit  int    `json:"limit"`
	}
	if err := json.Unmarshal([]byte(input), &in); err != nil {
		return "", fmt.Errorf("the input must have a step and an offset: %w", err)
	}
	for _, e := range log.Entries {
		_, ended := results[e.Status]
		if flow.StepID(e.Ordinal) != in.Step || !ended {
			continue
		}
		text := textOf(e)
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
	return "", fmt.Errorf("no step %q has ended", in.Step)
}

// textOf returns the text of a step: its error, or its message followed by its structured output. If the message is JSON, it is the whole text.
func textOf(e *history.Entry) string {
	if e.Status != executorv1.StepStatus_STEP_STATUS_SUCCESS {
		return e.Error.GetErrMsg()
	}
	var out stepOutput
	if err := json.Unmarshal([]byte(e.OutputJSON), &out); err != nil {
		return e.OutputJSON
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
