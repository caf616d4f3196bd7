package offline

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/rank"
	"pawl.dev/planner-svc/internal/result"
)

// write returns the answer and the goal result. If emit is not nil, it emits the answer paragraph by paragraph.
func (w *work) write(cutShort string, emit func(string) error) (answer string, goalResult plannerv1.GoalResult, err error) {
	paragraphs, fulfilled := w.answer(cutShort)
	answer, err = w.sign(paragraphs, emit)
	if goalResult = plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED; fulfilled {
		goalResult = plannerv1.GoalResult_GOAL_RESULT_FULFILLED
	}
	return answer, goalResult, err
}

// sign joins paragraphs and says who wrote them. If emit is not nil, it emits them one by one.
func (w *work) sign(paragraphs []string, emit func(string) error) (answer string, err error) {
	paragraphs = append(paragraphs, w.l.Pick("(Written by the offline planner, without a language model.)", "（由离线规划器生成，未使用语言模型。）"))
	for i, text := range paragraphs {
		if i > 0 {
			text = "\n\n" + text
		}
		answer += text
		if emit != nil && err == nil {
			err = emit(text)
		}
	}
	return answer, err
}

// answer writes the results, the failures and the parts of the goal that were not understood, in paragraphs. fulfilled is false if a part of the
// goal is missing.
func (w *work) answer(cutShort string) (paragraphs []string, fulfilled bool) {
	fulfilled = cutShort == "" && len(w.notUnderstood) == 0 && w.next == nil
	if cutShort != "" {
		paragraphs = append(paragraphs, w.l.Say("The task ended early: %s", "任务提前结束：%s", cutShort))
	}
	if len(w.notUnderstood) > 0 && len(w.extras) == 0 {
		return append(paragraphs, w.refusal()...), false
	}
	for _, d := range w.demands {
		for _, res := range d.done {
			text, ok := w.resultText(res, d.text, &d.choice)
			paragraphs, fulfilled = append(paragraphs, text...), fulfilled && ok
		}
		if len(d.done) == 0 && len(w.notUnderstood) == 0 {
			fulfilled = false
			paragraphs = append(paragraphs, w.l.Say("Not reached: %q.", "未执行到：“%s”。", d.text))
		}
	}
	for _, r := range w.extras {
		text, _ := w.resultText(r, "", nil)
		text[0] = r.GetToolId() + ": " + text[0]
		paragraphs = append(paragraphs, text...)
	}
	if len(w.notUnderstood) > 0 {
		paragraphs = append(paragraphs, w.l.Say("Nothing else was called, because the offline planner, which uses no language model, did not understand: %s.",
			"没有调用其他工具，因为离线规划器不使用语言模型，没有理解：%s。", w.quoted()))
	}
	return paragraphs, fulfilled
}

// resultText renders the result of a demand's call and reports whether it answers the demand.
func (w *work) resultText(res *result.Result, demand string, ch *choice) ([]string, bool) {
	if !res.OK() {
		return []string{w.failureText(res.HistoryEntry)}, false
	}
	shown := render(w.l, res, demand)
	what, noun := countOf(demand)
	if what == "" {
		return shown, true
	}
	n, ok := count(res, noun)
	summary := w.l.Say("There are %d %s.", "共有 %d 个 %s。", n, what)
	if ok = ok && rank.Has(ch.Terms, noun); !ok {
		summary = w.l.Say("How many %s there are is not in the result of %s:", "结果（%[2]s）中没有“%[1]s”的数量：", what, res.GetToolId())
	} else if n == 1 {
		summary = w.l.Say("There is 1 %s.", "共有 1 个 %s。", strings.TrimSuffix(what, "s"))
	}
	if ok && n > maxInline {
		return []string{summary}, true
	}
	return append([]string{summary}, shown...), ok
}

func (w *work) failureText(e *plannerv1.HistoryEntry) string {
	what := e.GetDescription() + w.l.Say(" (%s)", "（%s）", e.GetToolId())
	switch {
	case e.GetResult() == plannerv1.StepResult_STEP_RESULT_CANCELLED:
		return w.l.Say("%s was cancelled.", "%s 已取消。", what)
	case e.GetResult() == plannerv1.StepResult_STEP_RESULT_SKIPPED:
		return w.l.Say("%s was skipped: %s", "%s 已跳过：%s", what, e.GetError())
	case e.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN:
		return w.l.Say("%s: it is not known whether the call took effect. %s", "%s：无法确定调用是否生效。%s", what, e.GetError())
	}
	return w.l.Say("%s failed: %s", "%s 失败：%s", what, e.GetError())
}

// counting finds the counted thing in a question: "Go files" in "how many Go files are there".
var counting = regexp.MustCompile(`(?i)\bhow many (.+?)(?: (?:are|is|do|does|did|were|was|have|has|can|mention|contain|in|under)\b|[?.]|$)|\bcount (?:all )?(?:the )?(.+?)(?: (?:in|of|under)\b|[?.]|$)|(?:有多少|几)个?\s*(.+?)\s*(?:提到|包含|含有|[？?。]|$)|统计\s*(?:.*下的)?\s*(.+?)\s*(?:的?数量|个数)`)

// countOf returns the words for the things that a text asks to count, and the term of their noun: "Go files" and "file".
func countOf(text string) (what, noun string) {
	if m := counting.FindStringSubmatch(text); m != nil {
		what = strings.TrimSpace(m[1] + m[2] + m[3] + m[4])
		terms := rank.Terms(what)
		noun = append([]string{""}, terms...)[len(terms)]
	}
	return what, noun
}

// quoted lists the parts of the goal that were not understood.
func (w *work) quoted() string {
	var quoted []string
	for _, n := range w.notUnderstood {
		quoted = append(quoted, fmt.Sprintf("%q", n))
	}
	return w.l.List(quoted)
}

// refusal renders the parts of the goal that were not understood, and what the user can do.
func (w *work) refusal() []string {
	if strings.TrimSpace(w.tc.GetGoal()) == "" {
		return []string{w.l.Pick("There is no goal, so nothing was done.", "没有目标，所以什么都没有做。")}
	}
	head := w.l.Say("The offline planner, which uses no language model, could not match this goal to a tool, so nothing was called. It did not understand: %s.",
		"离线规划器不使用语言模型，无法为该目标找到合适的工具，因此没有调用任何工具。没有理解的部分：%s。", w.quoted())
	if len(w.tc.GetTools()) == 0 {
		return []string{head, w.l.Pick("There are no tools: activate an MCP server.", "没有可用的工具：请先启用一个 MCP 服务器。")}
	}
	var tools []string
	for _, t := range w.tc.GetTools() {
		line, _, _ := strings.Cut(strings.TrimSpace(t.GetDescription()), "\n")
		tools = append(tools, t.GetId()+": "+lang.Clip(cmp.Or(t.GetTitle(), line), 100))
	}
	return []string{head,
		w.l.Pick("A language model understands more: `--model openai:MODEL`, `anthropic:MODEL` or `ollama:MODEL` (field `model` of a task or an agent). Or word the goal as a tool's description does, or write the steps as a playbook (`--playbook`).",
			"语言模型能理解更多：`--model openai:MODEL`、`anthropic:MODEL` 或 `ollama:MODEL`（任务或智能体的字段 `model`）。也可以用工具的用词重述，或把步骤写成 playbook（`--playbook`）。"),
		w.l.Pick("The tools are:", "可用的工具：") + "\n\n" + bullets(w.l, tools)}
}
