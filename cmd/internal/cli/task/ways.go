package task

import (
	"slices"
	"strings"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Way is a command that goes on from where a task stands.
type Way struct {
	Command string
	Means   string // what it does, where the command does not say so itself
}

// Ways lists commands under each other, what they mean beside them.
func Ways(st ui.Style, ways []Way) string {
	widest := 0
	for _, w := range ways {
		if w.Means != "" {
			widest = max(widest, ui.Width(w.Command))
		}
	}
	var b strings.Builder
	for i, w := range ways {
		head := "        "
		if i == 0 {
			head = "  " + st.Dim("next:") + " "
		}
		b.WriteString(head + w.Command)
		if w.Means != "" {
			b.WriteString(strings.Repeat(" ", widest-ui.Width(w.Command)) + "  " + st.Dim(w.Means))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Waits are what a task waits for. A pause that was asked for beside a question has no wait of its own; it is one here.
func Waits(task *executorv1.Task) []*executorv1.Wait {
	waits := task.GetWaits()
	pause := func(w *executorv1.Wait) bool { return w.GetKind() == executorv1.WaitKind_WAIT_KIND_PAUSE }
	if task.GetPauseRequested() && len(waits) > 0 && !slices.ContainsFunc(waits, pause) {
		return append(slices.Clone(waits), &executorv1.Wait{Kind: executorv1.WaitKind_WAIT_KIND_PAUSE})
	}
	return waits
}
