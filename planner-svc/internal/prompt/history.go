package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/result"
)

// Result renders how a step ended. Of a text longer than most bytes the beginning is shown, and a mark says how to read on.
func (p *Prompts) Result(tc *plannerv1.TaskContext, e *plannerv1.HistoryEntry, most int) string {
	l, r := LangOf(tc), result.Of(e)
	data := struct {
		Step, Result, Text, Cut, Media string
		Unknown                        bool
	}{Step: Line(e.GetStepId()), Result: "success", Media: media(r), Unknown: e.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN}
	data.Text, data.Cut = cut(l, r, most)
	switch e.GetResult() {
	case plannerv1.StepResult_STEP_RESULT_ERROR:
		data.Result = "error"
	case plannerv1.StepResult_STEP_RESULT_CANCELLED:
		data.Result = "cancelled"
	case plannerv1.StepResult_STEP_RESULT_SKIPPED:
		data.Result = "skipped"
	}
	return p.page(l, "result", data)
}

// cut returns the text of a step up to most bytes, and the mark of what is left out, "" if that is nothing.
func cut(l lang.Lang, r *result.Result, most int) (text, mark string) {
	text = r.Text()
	if len(text) <= most {
		return text, ""
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], l.Say("[cut: %d of %d bytes are left; read_output {\"step\": %s, \"offset\": %d} reads on]",
		"［已截断：共 %[2]d 字节，还剩 %[1]d 字节；用 read_output {\"step\": %[3]s, \"offset\": %[4]d} 继续读取］",
		len(text)-end, len(text), strictjson.Quote(r.GetStepId()), end)
}

// media lists what an output has beside text.
func media(r *result.Result) string {
	var parts []string
	for _, m := range r.Media {
		parts = append(parts, Line(fmt.Sprintf("%s %s %s", m.Type, m.MIME, m.URI)))
	}
	return strings.Join(parts, "\n")
}

// LangOf returns the language of a task's prompts.
func LangOf(tc *plannerv1.TaskContext) lang.Lang { return lang.Of(tc.GetLanguage(), tc.GetGoal()) }
