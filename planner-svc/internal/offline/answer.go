package offline

import (
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/result"
)

// answer writes what was found out: a paragraph per clause, in their order, and who wrote it.
func (p *work) answer(cutShort string) []string {
	var out []string
	if cutShort != "" {
		out = append(out, p.l.Say("The task ended early: %s", "任务提前结束：%s", strings.TrimSpace(cutShort)))
	}
	matched := false
	for i := range p.sections {
		s := &p.sections[i]
		matched = matched || s.matched
		out = append(out, p.section(s)...)
	}
	for _, r := range p.extras {
		out = append(out, p.anything(r)...)
		matched = true
	}
	for _, c := range p.clauses[len(p.sections):] {
		out = append(out, p.l.Say("Not reached: %q.", "未执行：“%s”。", lang.Clip(c.Text, 120)))
	}
	if p.next != nil && len(p.sections) > 0 && len(p.sections[len(p.sections)-1].done) == 0 {
		out = append(out, p.l.Say("Not reached: %q.", "未执行：“%s”。", lang.Clip(p.sections[len(p.sections)-1].clause.Text, 120)))
	}
	if !matched {
		out = append(out, p.noMatch()...)
	}
	return append(out, p.l.Pick("(Written by the offline planner, without a language model.)", "（由离线规划器生成，未使用语言模型。）"))
}

// section tells what came of one clause.
func (p *work) section(s *section) []string {
	what := lang.Clip(s.clause.Text, 120)
	if !s.matched {
		if len(p.sections) == 1 {
			return nil // then nothing was matched, which is told at length
		}
		return []string{p.l.Say("I could not match %q to a tool.", "无法为“%s”找到合适的工具。", what)}
	}
	var out []string
	for i := range s.done {
		out = append(out, p.tell(s, i)...)
	}
	switch {
	case s.skipped != nil:
		out = append(out, p.l.Say("%q was not attempted, since a step before it failed and %s may change something.",
			"未尝试“%s”：前面的步骤失败，而 %s 可能会更改内容。", what, s.skipped.GetId()))
	case len(s.done) == 0 && p.next == nil:
		out = append(out, p.l.Say("%q: nothing was found before that this could go on with.", "“%s”：之前没有找到可用的内容。", what))
	}
	return out
}

// tell reports one step of a clause. Steps that only prepare others, or that another one stands in for, are passed over.
func (p *work) tell(s *section, i int) []string {
	d, last := s.done[i], i == len(s.done)-1
	ended := last && p.next == nil
	if d.again {
		return nil
	}
	if !d.res.OK() {
		if d.part == mainPart && foundElsewhere(s.done[i:]) {
			return nil
		}
		return []string{p.failure(d)}
	}
	switch {
	case d.part == preparation && ended && d.item.intent == goal.ListFolder:
		return p.report(d, s.clause) // what was looked for is not there; this is what is
	case d.part == preparation, d.part == lookAround && !ended, d.part == mainPart && !last && standsIn(s.done[i+1].part):
		return nil
	case d.part == lookAround:
		return []string{p.l.Say("There is no file named %s.", "没有名为 %s 的文件。", d.item.kind.Label)}
	}
	return p.report(d, s.clause)
}

// foundElsewhere tells whether a file that was not where it should be was found and read.
func foundElsewhere(ds []done) bool {
	end := ds[len(ds)-1]
	return end.part == elsewhere && end.res.OK()
}

// standsIn tells whether a step reports in place of the main one before it.
func standsIn(x part) bool { return x == insideWords || x == looseName || x == plainSearch }

// report tells the result of a step by what was asked.
func (p *work) report(d done, c goal.Clause) []string {
	switch d.item.intent {
	case goal.SearchText, goal.FindDefinition:
		if s, ok := d.res.Search(); ok {
			return p.found(d, s, c)
		}
	case goal.CountFiles, goal.FindFiles:
		return p.filesFound(d, d.res.Files())
	case goal.ListFolder, goal.CountFolders:
		if l, ok := d.res.Listing(); ok {
			return p.listing(d, l, c)
		}
	case goal.ReadFile:
		return p.content(d, d.res.Content())
	case goal.About:
		return p.about(d, d.res.Content())
	case goal.DescribeFile:
		if i, ok := d.res.Info(); ok {
			return p.info(d, i)
		}
	}
	return p.anything(d.res)
}

// anything tells the result of any tool in the tool's words.
func (p *work) anything(r *result.Result) []string {
	if !r.OK() {
		return []string{p.failure(done{step: &step{}, res: r})}
	}
	var out []string
	text := strings.TrimSpace(r.Message)
	if text == "" {
		text = r.Structured()
	}
	switch {
	case text == "":
	case !strings.Contains(text, "\n") && len(text) <= 300:
		out = append(out, p.l.Say("%s: %s", "%s：%s", r.GetToolId(), text))
	default:
		out = append(out, p.l.Say("%s returned:", "%s 返回：", r.GetToolId()), p.fenced(text, ""))
	}
	for _, m := range r.Media {
		out = append(out, p.media(r.GetToolId(), m))
	}
	if len(out) == 0 {
		out = append(out, p.l.Say("%s succeeded and returned nothing.", "%s 执行成功，没有返回内容。", r.GetToolId()))
	}
	return out
}

// media names what was returned beside text; it is in the step's output.
func (p *work) media(toolID string, m result.Media) string {
	what := m.Type
	for _, more := range []string{m.MIME, m.Name, m.URI} {
		if more != "" {
			what += " " + more
		}
	}
	return p.l.Say("%s also returned: %s", "%s 还返回了：%s", toolID, strings.ReplaceAll(what, "_", " "))
}

// failure tells why a step failed, and what is not known of it.
func (p *work) failure(d done) string {
	what := d.res.GetDescription()
	if what == "" {
		what = d.res.GetToolId()
	}
	why := strings.TrimSpace(d.res.GetError())
	if why == "" {
		why = p.l.Pick("no reason was given", "未给出原因")
	}
	why = lang.Clip(why, 600)
	switch {
	case d.res.GetResult() == plannerv1.StepResult_STEP_RESULT_CANCELLED:
		return p.l.Say("%s (%s) was cancelled.", "%s（%s）已取消。", what, d.res.GetToolId())
	case d.res.GetResult() == plannerv1.StepResult_STEP_RESULT_SKIPPED:
		return p.l.Say("%s (%s) was skipped: %s", "%s（%s）已跳过：%s", what, d.res.GetToolId(), why)
	case d.res.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN:
		return p.l.Say("%s (%s): it is not known whether the call took effect. %s", "%s（%s）：不清楚该调用是否已生效。%s", what, d.res.GetToolId(), why)
	}
	return p.l.Say("%s (%s) failed: %s", "%s（%s）失败：%s", what, d.res.GetToolId(), why)
}

// noMatch says honestly that nothing was done, what could be, and how to get further.
func (p *work) noMatch() []string {
	out := []string{p.l.Pick(
		"The offline planner, which is deterministic and has no language model, could not match this goal to a tool, so nothing was done.",
		"离线规划器是确定性的，没有语言模型，无法为该目标找到合适的工具，因此没有执行任何操作。")}
	if len(p.catalog.Tools) == 0 {
		out = append(out, p.l.Pick("There are no tools: activate an MCP server for the task.", "没有可用的工具：请为任务启用 MCP 服务器。"))
	} else {
		out = append(out, p.l.Pick("Tools it can use:", "可用的工具："))
		for i, t := range p.catalog.Tools {
			if i == 8 {
				out = append(out, p.l.Say("- … and %d more", "- ……另有 %d 个", len(p.catalog.Tools)-i))
				break
			}
			out = append(out, "- "+t.GetId()+toolPurpose(t.GetTitle(), t.GetDescription()))
		}
	}
	return append(out, p.l.Pick(
		"To go on, name the tool and its inputs in the goal (such as `call SERVER/TOOL with key=value`), or write the steps as a playbook. A model is chosen with `model`; clients for real models come in a later release.",
		"要继续，请在目标中写明工具和输入（例如“调用 SERVER/TOOL key=value”），或把步骤写成 playbook。模型通过 `model` 选择；真实模型的客户端将在后续版本提供。"))
}

func toolPurpose(title, description string) string {
	text := title
	if text == "" {
		text, _, _ = strings.Cut(description, "\n")
		if first, _, ok := strings.Cut(text, ". "); ok {
			text = first
		}
	}
	if text == "" {
		return ""
	}
	return ": " + lang.Clip(text, 80)
}
