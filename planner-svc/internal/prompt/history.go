package prompt

import (
	"strings"
	"unicode/utf8"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/result"
)

// Result renders the result of a step. A text longer than most bytes is cut there, and a mark tells the model how to read on.
func Result(tc *plannerv1.TaskContext, e *plannerv1.HistoryEntry, most int) string {
	r := result.Of(e)
	var media []string
	for _, m := range r.Media {
		media = append(media, Line(m.Type+" "+m.MIME+" "+m.URI))
	}
	text, mark := r.Text(), ""
	if len(text) > most {
		end := most
		for !utf8.RuneStart(text[end]) {
			end--
		}
		mark = LangOf(tc).Say("[cut: %d of %d bytes are left; read_output {\"step\": %s, \"offset\": %d} reads on]",
			"［已截断：共 %[2]d 字节，还剩 %[1]d 字节；用 read_output {\"step\": %[3]s, \"offset\": %[4]d} 继续读取］",
			len(text)-end, len(text), strictjson.Quote(r.GetStepId()), end)
		text = text[:end]
	}
	return Render("result", tc, struct {
		Step, Result, Text, Cut, Media string
		Unknown                        bool
	}{Line(e.GetStepId()), e.GetResult().String(), text, mark, strings.Join(media, "\n"), e.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN})
}

// LangOf returns the language of a task's prompts.
func LangOf(tc *plannerv1.TaskContext) lang.Lang { return lang.Of(tc.GetLanguage(), tc.GetGoal()) }
