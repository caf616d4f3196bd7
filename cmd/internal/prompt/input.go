package prompt

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/render"
	"pawl.dev/cmd/internal/values"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	accept  = executorv1.InputAnswer_ACTION_ACCEPT
	decline = executorv1.InputAnswer_ACTION_DECLINE
)

// input asks for what a tool's server wants to know in the middle of a call. Who asks is said: what is answered goes there.
func (p *Prompter) input(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	server, _, _ := strings.Cut(p.tool(wait.GetToolId()), "/")
	menu, first := "[a]nswer", "answer"
	if wait.GetUrl() != "" {
		menu, first = "[y]es, done", "yes"
		p.print("    %s\n    %s\n", p.Style.Dim("the server "+server+" asks you to open this in a browser, if you trust it:"), p.Style.Bold(render.Line(wait.GetUrl())))
	} else {
		p.print("    %s\n", p.Style.Dim("what you answer goes to the server "+server))
	}
	p.lapses(wait)
	third, last, away := "[d]etach", "detach", leave
	if p.OwnCall {
		third, last, away = "[c]ancel the call", "cancel", Answer{Cancel: true}
	}
	for {
		text, err := p.read(ctx, "  "+p.Style.Yellow("?")+" "+menu+", [n]o, "+third+": ")
		if err != nil {
			return leave, err
		}
		switch {
		case says(text, first) && wait.GetUrl() != "":
			return supplied(wait, accept, ""), nil
		case says(text, first):
			return p.form(ctx, wait)
		case says(text, "no"):
			return supplied(wait, decline, ""), nil
		case says(text, last):
			return away, nil
		}
		p.complain("answer %c, n or %c", first[0], last[0])
	}
}

// says tells whether somebody typed a word, or its first letter.
func says(text, word string) bool {
	text = strings.ToLower(text)
	return text == word || text == word[:1]
}

// entered is what was entered for a wait, in case that it is asked for again: because the answer was refused, or because
// something came in between.
type entered struct {
	wait   string
	values map[string]json.RawMessage
}

// form asks for each field, first for those that must be there. An empty line leaves one out that may be left out, and keeps
// what was entered before.
func (p *Prompter) form(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	fields, err := values.Fields(wait.GetParamsSchemaJson())
	if err != nil {
		return leave, err
	}
	slices.SortStableFunc(fields, func(a, b values.Field) int { return rank(a) - rank(b) })
	if p.entered.wait != wait.GetId() {
		p.entered = entered{wait: wait.GetId(), values: map[string]json.RawMessage{}}
	}
	var object []string
	for _, f := range fields {
		if before, ok := p.entered.values[f.Name]; ok {
			f.Default = before
		}
		f.Description = strings.TrimSpace(f.Description + hint(f))
		value, err := p.value(ctx, f, insistence(f))
		if err != nil {
			return leave, err
		}
		if value == nil {
			value = f.Default
		}
		if value != nil {
			p.entered.values[f.Name] = value
			object = append(object, quote(f.Name)+":"+string(value))
		}
	}
	return supplied(wait, accept, "{"+strings.Join(object, ",")+"}"), nil
}

// insistence is what an empty line is told where the field must be there, and how nothing is said on purpose where that fits; "" where
// the line may be empty.
func insistence(f values.Field) string {
	text := render.Line(f.Name) + " is required"
	switch {
	case !f.Required || f.Default != nil:
		return ""
	case f.Text() && f.Check(json.RawMessage(emptyText)) == nil:
		return text + "; " + emptyText + " is an empty text"
	case f.Many && f.Check(json.RawMessage("[]")) == nil:
		return text + "; [] is none of them"
	}
	return text
}

// rank puts what must be there first.
func rank(f values.Field) int {
	if f.Required {
		return 0
	}
	return 1
}

// hint says what an empty line means.
func hint(f values.Field) string {
	switch {
	case f.Default != nil:
		return " [empty: " + render.CompactJSON(string(f.Default)) + "]"
	case !f.Required:
		return " [may be empty]"
	}
	return ""
}

func supplied(wait *executorv1.Wait, action executorv1.InputAnswer_Action, content string) Answer {
	return Answer{Resume: &executorv1.ResumeTaskRequest{
		WaitId: wait.GetId(), Answer: &executorv1.ResumeTaskRequest_Input{Input: &executorv1.InputAnswer{Action: action, ContentJson: content}},
	}}
}
