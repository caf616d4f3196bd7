package task

import (
	"io"
	"slices"
	"strings"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// attend prepares to stay with a task from a seq on. Steps go to steps, the answer to standard output.
func attend(u *ui.UI, s *discover.Session, taskID string, after uint64, steps io.Writer, alias func(string) string) *attendance {
	t := &attendance{u: u, s: s, task: taskID, after: after}
	if u.JSON {
		t.view = jsonView{u.Out}
		return t
	}
	t.view = eventsView(u, steps, alias)
	if u.CanAsk() {
		prompter := u.Prompter()
		prompter.Alias = alias
		t.ask = &Asker{prompter}
	}
	return t
}

func eventsView(u *ui.UI, steps io.Writer, alias func(string) string) *Events {
	style, tty := u.ErrStyle(), u.ErrTTY
	if steps == u.Out {
		style, tty = u.OutStyle(), u.OutTTY
	}
	cfg := EventsConfig{Log: steps, Out: u.Out, Style: style, Alias: alias, Live: u.Live && tty, Apart: u.OutTTY}
	if tty {
		cfg.Columns = u.Columns
	}
	return NewEvents(cfg)
}

// jsonView writes each event as a line of JSON.
type jsonView struct{ w io.Writer }

func (v jsonView) Event(ev *executorv1.ExecutorEvent) { _ = ui.JSONLine(v.w, ev) }
func (jsonView) Tick(time.Time)                       {}
func (jsonView) Suspend()                             {}

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
