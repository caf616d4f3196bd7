package playbook

import (
	"fmt"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/result"
)

// answer is the playbook's own, or a summary of its steps. A playbook that ended early is always summed up: its answer was
// written for one that went through.
func (r *run) answer(cutShort string) (string, error) {
	l := r.lang
	done := r.tc.GetHistory()
	if cutShort != "" {
		return l.Say("The playbook ended early: %s", "playbook 提前结束：%s", strings.TrimSpace(cutShort)) + "\n\n" + r.summary(), nil
	}
	if err := r.verify(); err != nil {
		return "", err
	}
	if r.Answer == "" || len(done) < len(r.Steps) {
		return r.summary(), nil
	}
	text, err := r.text(r.Answer, len(r.Steps))
	if err != nil {
		return "", unusable(r.Steps[0].Line, "the answer cannot be made: %w", err)
	}
	return text, nil
}

// summary lists the result of each step.
func (r *run) summary() string {
	l := r.lang
	title := r.flowName()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", title)
	for i := range r.Steps {
		if i >= len(r.tc.GetHistory()) {
			fmt.Fprintf(&b, "\n%d. %s — %s", i+1, r.Steps[i].Tool, l.Pick("not reached", "未执行"))
			continue
		}
		e := r.tc.GetHistory()[i]
		what := e.GetDescription()
		if what == "" {
			what = r.defaultDescription(i)
		}
		fmt.Fprintf(&b, "\n%d. %s (%s) — %s", i+1, what, e.GetToolId(), r.outcome(e))
	}
	return b.String()
}

func (r *run) outcome(e *plannerv1.HistoryEntry) string {
	l := r.lang
	switch e.GetResult() {
	case plannerv1.StepResult_STEP_RESULT_SUCCESS:
		res := result.Of(e)
		text := strings.Join(strings.Fields(res.Message), " ")
		if text == "" {
			text = res.Structured()
		}
		if text == "" {
			return l.Pick("done", "完成")
		}
		return l.Say("done: %s", "完成：%s", lang.Clip(text, 200))
	case plannerv1.StepResult_STEP_RESULT_CANCELLED:
		return l.Pick("cancelled", "已取消")
	case plannerv1.StepResult_STEP_RESULT_SKIPPED:
		return l.Say("skipped: %s", "已跳过：%s", lang.Clip(reasonOf(e), 200))
	}
	return l.Say("failed: %s", "失败：%s", lang.Clip(reasonOf(e), 200))
}
