package render

import (
	"fmt"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Cost is what a task has cost: 3 tool calls, 4 model calls, 512 tokens; "" where it was nothing.
func Cost(u *commonv1.Usage) string {
	return amounts(uint64(u.GetToolCalls()), uint64(u.GetModelCalls()), u.GetInputTokens()+u.GetOutputTokens())
}

// Budget is what a task may cost; "" where nothing bounds it.
func Budget(b *executorv1.Budget) string {
	text := amounts(uint64(b.GetMaxToolCalls()), uint64(b.GetMaxModelCalls()), b.GetMaxTokens())
	if b.GetMaxRunTime().AsDuration() > 0 {
		text = strings.TrimPrefix(text+", "+Duration(b.GetMaxRunTime().AsDuration())+" of running", ", ")
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
			parts = append(parts, plural(int(min(a.n, 1<<53)), a.noun))
		}
	}
	return strings.Join(parts, ", ")
}

// bounds are what ends a task's waiting and its doubts, where that is not the usual.
func bounds(task *executorv1.Task) string {
	var parts []string
	if t := task.GetWaitTimeout().AsDuration(); t > 0 {
		parts = append(parts, fmt.Sprintf("waits lapse after %s", Duration(t)))
	}
	if name := OnUnknownName(task.GetOnUnknownOutcome()); name != "ask" {
		parts = append(parts, name+" where an outcome is not known")
	}
	return strings.Join(parts, ", ")
}
