package task

import (
	"cmp"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	waitApproval = executorv1.WaitKind_WAIT_KIND_APPROVAL
	waitParams   = executorv1.WaitKind_WAIT_KIND_PARAMS
	waitOutcome  = executorv1.WaitKind_WAIT_KIND_OUTCOME
	waitPause    = executorv1.WaitKind_WAIT_KIND_PAUSE
	waitInput    = executorv1.WaitKind_WAIT_KIND_INPUT
)

// waitsTo completes the phrase "task X waits …".
func waitsTo(kind executorv1.WaitKind) string {
	return cmp.Or(map[executorv1.WaitKind]string{
		waitParams: "for parameters", waitOutcome: "for a decision on a call whose outcome is unknown", waitPause: "to be unpaused", waitInput: "for what its server asks",
	}[kind], "for approval")
}

// ways are the commands that answer a wait; flags reach the same server.
func ways(taskID string, wait *executorv1.Wait, flags string) []way {
	to := func(command, args, means string) way {
		return way{command: "pawl " + command + " " + taskID + args + flags, means: means}
	}
	named := " " + wait.GetId()
	switch wait.GetKind() {
	case waitParams:
		return []way{to("params", paramsHint(wait), "")}
	case waitOutcome:
		return []way{
			to("outcome", named+" --retry", "call it again; its effect may happen twice"),
			to("outcome", named+" --output JSON", "it ran, and gave this"),
			to("outcome", named+" --skip REASON", "go on without it"),
			to("reject", named, "cancel the task"),
		}
	case waitPause:
		return []way{to("unpause", "", "")}
	case waitInput:
		if wait.GetUrl() != "" {
			return []way{to("input", " --done", "you opened it, and did what it asks"), to("input", " --decline", "say no; the tool goes on without")}
		}
		return []way{to("input", paramsHint(wait), ""), to("input", " --decline", "say no; the tool goes on without")}
	}
	return []way{to("approve", named, ""), to("reject", named, "")}
}

// which returns the flag --wait ID if several input waits are open.
func which(task *executorv1.Task, wait *executorv1.Wait) string {
	if wait.GetKind() != waitInput || !slices.ContainsFunc(task.GetWaits(), func(w *executorv1.Wait) bool {
		return w.GetKind() == waitInput && w.GetId() != wait.GetId()
	}) {
		return ""
	}
	return " --wait " + wait.GetId()
}

// asksFor is a wait in a line, for those who did not see it with the events.
func asksFor(wait *executorv1.Wait) string {
	if wait.GetKind() == waitPause {
		return "the task waits to be unpaused"
	}
	text := wait.GetToolId() + " waits " + waitsTo(wait.GetKind())
	if wait.GetMessage() != "" {
		text += ": " + wait.GetMessage()
	}
	if wait.GetUrl() != "" {
		text += " (" + wait.GetUrl() + ")"
	}
	return text
}

// howToGoOn says which commands answer what a task waits for. What it waits for was shown with the events; where those
// went to a program as JSON, it is said here.
func howToGoOn(u *ui.UI, s *discover.Session, task *executorv1.Task) {
	st := u.ErrStyle()
	lost := false
	for _, wait := range waits(task) {
		if u.JSON {
			u.Eprintf("%s %s\n", st.Yellow("⏸"), ui.Line(asksFor(wait)))
		}
		if goesAway(wait, s.Embedded()) {
			lost = true
			continue
		}
		if input := wait.GetInputJson(); input != "" && input != "{}" && wait.GetKind() != waitInput {
			u.Eprintf("    input:\n%s\n", ui.PrettyJSON(input, "    "))
		}
		u.Eprintf("%s", waysText(st, ways(task.GetId(), wait, which(task, wait)+s.Flags())))
	}
	if lost {
		u.Note(tooLate)
	}
}

// tooLate says why a server's question cannot be answered later, and what to do.
const tooLate = "the question ends with this command, because the server that asks runs in it: it cannot be answered later; " +
	"start pawl up in another terminal, and run the task again there"

// goesAway says whether a question ends with this process: its call, and the server that asks, run in it.
func goesAway(wait *executorv1.Wait, embedded bool) bool {
	return embedded && wait.GetKind() == waitInput
}

// laterHint says how to come back to a wait that was left open.
func laterHint(u *ui.UI, s *discover.Session, taskID string, wait *executorv1.Wait) {
	if goesAway(wait, s.Embedded()) {
		u.Note(tooLate)
		return
	}
	id := ui.ShortID(taskID)
	u.Note("the task waits; go on with %s, or see pawl show %s%s", ways(id, wait, s.Flags())[0].command, id, s.Flags())
}

// way is a command that goes on from where a task stands.
type way struct {
	command string
	means   string // what it does, where the command does not say so itself
}

// waysText lists commands under each other, what they mean beside them.
func waysText(st ui.Style, ways []way) string {
	widest := 0
	for _, w := range ways {
		if w.means != "" {
			widest = max(widest, ui.Width(w.command))
		}
	}
	var b strings.Builder
	for i, w := range ways {
		head := "        "
		if i == 0 {
			head = "  " + st.Dim("next:") + " "
		}
		b.WriteString(head + w.command)
		if w.means != "" {
			b.WriteString(strings.Repeat(" ", widest-ui.Width(w.command)) + "  " + st.Dim(w.means))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// waits are what a task waits for. A pause that was asked for beside a question has no wait of its own; it is one here.
func waits(task *executorv1.Task) []*executorv1.Wait {
	waits := task.GetWaits()
	pause := func(w *executorv1.Wait) bool { return w.GetKind() == executorv1.WaitKind_WAIT_KIND_PAUSE }
	if task.GetPauseRequested() && len(waits) > 0 && !slices.ContainsFunc(waits, pause) {
		return append(slices.Clone(waits), &executorv1.Wait{Kind: executorv1.WaitKind_WAIT_KIND_PAUSE})
	}
	return waits
}

// paramsHint is what `pawl params` is given for a wait: each name that is asked for, in brackets where others are required and it
// is not.
func paramsHint(wait *executorv1.Wait) string {
	fields, err := ui.Fields(wait.GetParamsSchemaJson())
	if err != nil || len(fields) == 0 {
		return " NAME=VALUE"
	}
	some := slices.ContainsFunc(fields, func(f ui.Field) bool { return f.Required })
	var b strings.Builder
	for _, f := range fields {
		pair := ui.Line(f.Name) + "=…"
		if !f.Required && (some || wait.GetKind() == waitInput) {
			pair = "[" + pair + "]"
		}
		b.WriteString(" " + pair)
	}
	return b.String()
}

// asked is what a wait asks for, a line for each parameter.
func asked(wait *executorv1.Wait) []string {
	fields, err := ui.Fields(wait.GetParamsSchemaJson())
	if err != nil || len(fields) == 0 {
		return []string{ui.Line(wait.GetParamsSchemaJson())}
	}
	lines := make([]string, len(fields))
	for i, f := range fields {
		kind := f.Kind()
		if f.Required {
			kind = strings.TrimPrefix(kind+"; required", "; ")
		}
		lines[i] = strings.TrimSpace(ui.Line(f.Name + " (" + kind + ") " + f.Description))
	}
	return lines
}
