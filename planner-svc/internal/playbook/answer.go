package playbook

import (
	"cmp"
	"fmt"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/result"
	"pawl.dev/planner-svc/internal/risk"
)

// answer returns the playbook's answer, or a summary of its steps if it has none. A playbook that ended early gets a summary, because its answer
// was written for a complete run.
func (r *run) answer(cutShort string) (string, error) {
	err := r.replay()
	if cutShort != "" {
		return r.lang.Say("The playbook ended early: %s", "playbook 提前结束：%s", strings.TrimSpace(cutShort)) + "\n\n" + r.summary(), nil
	}
	if err != nil {
		return "", err
	}
	if r.Answer == "" || r.due.step < len(r.Steps) {
		return r.summary(), nil
	}
	text, err := r.fill(r.Answer, r.due, false)
	if err != nil {
		return "", invalidLine(r.answerLine, "the answer cannot be made: %w", err)
	}
	return strictjson.Content(text), nil
}

// summary lists the result of each step, and of each item of a `foreach`.
func (r *run) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.flowName())
	calls := r.calls
	for i := range r.Steps {
		called := false
		for ; len(calls) > 0 && calls[0].step == i; calls = calls[1:] {
			if called = true; len(calls) > 1 && calls[1].step == i && calls[1].item == calls[0].item {
				continue // the call was tried again
			}
			e := calls[0].entry
			what := e.GetDescription()
			if what == "" {
				what = r.defaultDescription(calls[0].place)
			}
			fmt.Fprintf(&b, "\n%d. %s (%s) — %s", i+1, what, e.GetToolId(), r.outcome(e))
		}
		if called {
			continue
		}
		why := r.lang.Pick("not reached", "未执行")
		switch r.states[i].status {
		case skipped:
			why = r.lang.Pick("skipped: its condition is false", "已跳过：条件不成立")
		case success:
			why = r.lang.Pick("done: the list is empty", "完成：列表为空")
		}
		fmt.Fprintf(&b, "\n%d. %s — %s", i+1, r.Steps[i].Tool, why)
	}
	return b.String()
}

func (r *run) outcome(e *plannerv1.HistoryEntry) string {
	l := r.lang
	switch e.GetResult() {
	case plannerv1.StepResult_STEP_RESULT_SUCCESS:
		res := result.Of(e)
		text := cmp.Or(strings.Join(strings.Fields(res.Message), " "), res.Structured)
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

func (r *run) flowName() string {
	for _, s := range []string{r.Name, r.tc.GetGoal(), r.Goal} {
		if title := lang.Title(s); title != "" {
			return title
		}
	}
	return r.lang.Say("Playbook of %d %[2]s", "%[1]d 步的 playbook", len(r.Steps), lang.Plural(len(r.Steps), "step", "steps"))
}

// flowRisk returns the highest of the tools' risk floors and the steps' `risk`.
func (r *run) flowRisk() *commonv1.Risk {
	var tools []*catalog.Tool
	declared := commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED
	for i := range r.Steps {
		if t := r.tool(r.Steps[i].Tool); t != nil {
			tools = append(tools, t)
		}
		declared = max(declared, r.Steps[i].Risk)
	}
	return r.raised(risk.OfTools(r.lang, tools), declared)
}

// raised returns an assessed risk, raised to the level that the playbook declares.
func (r *run) raised(assessed *commonv1.Risk, declared commonv1.RiskLevel) *commonv1.Risk {
	return risk.Raise(assessed, declared, r.lang.Pick("The playbook declares this risk.", "playbook 中如此声明。"))
}
