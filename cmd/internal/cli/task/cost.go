package task

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// costText is what a task has cost: 3 tool calls, 4 model calls, 512 tokens; "" if it was nothing.
func costText(u *commonv1.Usage) string {
	text := amounts(uint64(u.GetToolCalls()), uint64(u.GetModelCalls()), u.GetInputTokens()+u.GetOutputTokens())
	if u.GetCostNanoUsd() > 0 {
		text += ", " + dollars(u.GetCostNanoUsd())
	}
	return text
}

// dollars shows a price with at most four significant digits.
func dollars(nanoUSD uint64) string {
	return "$" + strconv.FormatFloat(float64(nanoUSD)/1e9, 'g', 4, 64)
}

// budgetText is what a task may cost; "" if nothing bounds it.
func budgetText(b *executorv1.Budget) string {
	text := amounts(uint64(b.GetMaxToolCalls()), uint64(b.GetMaxModelCalls()), b.GetMaxTokens())
	if b.GetMaxCostNanoUsd() > 0 {
		text = strings.TrimPrefix(text+", "+dollars(b.GetMaxCostNanoUsd())+" for models", ", ")
	}
	if b.GetMaxRunTime().AsDuration() > 0 {
		text = strings.TrimPrefix(text+", "+ui.Duration(b.GetMaxRunTime().AsDuration())+" of running", ", ")
	}
	return text
}

func amounts(tools, models, tokens uint64) string {
	var parts []string
	for _, a := range []struct {
		n    uint64
		noun string
	}{{tools, "tool call"}, {models, "model call"}, {tokens, "token"}} {
		if a.n > 0 {
			parts = append(parts, ui.Plural(int(min(a.n, 1<<53)), a.noun))
		}
	}
	return strings.Join(parts, ", ")
}

// bounds are what ends a task's waiting and its doubts, where that is not the usual.
func bounds(task *executorv1.Task) string {
	var parts []string
	if t := task.GetWaitTimeout().AsDuration(); t > 0 {
		parts = append(parts, fmt.Sprintf("waits lapse after %s", ui.Duration(t)))
	}
	if name := onUnknownName(task.GetOnUnknownOutcome()); name != "ask" {
		parts = append(parts, name+" where an outcome is not known")
	}
	return strings.Join(parts, ", ")
}

// onUnknownName is ask, retry or fail.
func onUnknownName(o executorv1.OnUnknownOutcome) string { return cmp.Or(ui.EnumName(o), "ask") }
