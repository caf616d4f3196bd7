package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/prompt"
	"pawl.dev/cmd/internal/render"
	"pawl.dev/cmd/internal/values"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// attend prepares to stay with a task from a seq on. Steps go to steps, the answer to standard output.
func (a *App) attend(g *Globals, session *discover.Session, taskID string, after uint64, steps io.Writer, alias func(string) string) *attendance {
	t := &attendance{
		app: a, globals: g, session: session, client: executorv1.NewExecutorServiceClient(session),
		task: taskID, after: after,
	}
	if g.JSON {
		t.view = jsonView{a.Console.Out}
		return t
	}
	t.view = a.eventsView(steps, alias)
	if a.Console.CanAsk() {
		t.ask = &prompt.Prompter{
			Lines: a.lines, Out: a.Console.Err, Style: a.errStyle(), Edit: a.editor(), Alias: alias, Now: a.Now,
		}
	}
	return t
}

func (a *App) eventsView(steps io.Writer, alias func(string) string) *render.Events {
	style, tty := a.errStyle(), a.Console.ErrTTY
	if steps == a.Console.Out {
		style, tty = a.outStyle(), a.Console.OutTTY
	}
	cfg := render.EventsConfig{
		Log: steps, Out: a.Console.Out, Style: style, Alias: alias,
		Live: a.Console.Live && tty, Clean: a.Console.OutTTY,
	}
	if tty {
		cfg.Columns = a.Console.Columns
	}
	return render.NewEvents(cfg)
}

// editor is the person's editor; interrupts are its own while it has the terminal.
func (a *App) editor() func(context.Context, string) (string, error) {
	if a.Edit == nil {
		return nil
	}
	return func(ctx context.Context, text string) (string, error) {
		_, release := a.signals.take()
		defer release()
		return a.Edit(ctx, text)
	}
}

// jsonView writes each event as a line of JSON.
type jsonView struct{ w io.Writer }

func (v jsonView) Event(ev *executorv1.ExecutorEvent) { _ = render.JSONLine(v.w, ev) }
func (jsonView) Tick(time.Time)                       {}
func (jsonView) Suspend()                             {}

// paramsHint is what `pawl params` is given for a wait: each name that is asked for, in brackets where others are required and it
// is not.
func paramsHint(wait *executorv1.Wait) string {
	fields, err := values.Fields(wait.GetParamsSchemaJson())
	if err != nil || len(fields) == 0 {
		return " NAME=VALUE"
	}
	some := slices.ContainsFunc(fields, func(f values.Field) bool { return f.Required })
	var b strings.Builder
	for _, f := range fields {
		pair := render.Line(f.Name) + "=…"
		if !f.Required && (some || wait.GetKind() == waitInput) {
			pair = "[" + pair + "]"
		}
		b.WriteString(" " + pair)
	}
	return b.String()
}

// asked is what a wait asks for, a line for each parameter.
func asked(wait *executorv1.Wait) []string {
	fields, err := values.Fields(wait.GetParamsSchemaJson())
	if err != nil || len(fields) == 0 {
		return []string{render.Line(wait.GetParamsSchemaJson())}
	}
	lines := make([]string, len(fields))
	for i, f := range fields {
		kind := f.Kind()
		if f.Required {
			kind = strings.TrimPrefix(kind+"; required", "; ")
		}
		lines[i] = strings.TrimSpace(render.Line(f.Name + " (" + kind + ") " + f.Description))
	}
	return lines
}
