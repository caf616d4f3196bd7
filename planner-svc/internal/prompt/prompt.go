package prompt

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"text/template"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/model"
	"pawl.dev/services/strictjson"
)

//go:embed templates
var files embed.FS

// What is shown of long texts, in characters. The limits do not depend on what comes later, so that what was shown once is
// shown the same in the next prompt.
const (
	mostOutput = 12000
	mostAnswer = 2000
)

// Renderer renders prompts. It may be used by several goroutines.
type Renderer struct {
	templates map[lang.Lang]*template.Template
}

// New parses the embedded templates.
func New() (*Renderer, error) {
	r := &Renderer{templates: map[lang.Lang]*template.Template{}}
	for _, l := range []lang.Lang{lang.EN, lang.ZH} {
		funcs := template.FuncMap{
			"fence": fence, "line": line, "effect": effect, "definition": definition,
			"clip": func(s string) string { return clip(l, s, mostAnswer) },
		}
		t, err := template.New(string(l)).Funcs(funcs).Option("missingkey=error").ParseFS(files, "templates/"+string(l)+"/*.tmpl")
		if err != nil {
			return nil, fmt.Errorf("parse the prompts in %s: %w", l, err)
		}
		r.templates[l] = t
	}
	return r, nil
}

// system is what the first part of a prompt shows.
type system struct {
	Final            string
	AgentDescription string
	Tools            []*commonv1.Tool
}

// outcome is what a step's turn shows.
type outcome struct {
	Result  string // success, error, cancelled
	Output  string
	Error   string
	Unknown bool
}

// question is what the last turn shows.
type question struct {
	model.Facts
	Final string
}

// Render makes the prompt for a purpose. Corrections are turns of their own, behind the question.
func (r *Renderer) Render(purpose model.Purpose, f model.Facts, corrections []model.Correction) (model.Prompt, error) {
	tc := f.Context
	l := lang.Of(tc.GetLanguage(), tc.GetGoal())
	p := &pages{t: r.templates[l]}
	out := model.Prompt{
		System: p.page("system", system{Final: model.Final, AgentDescription: tc.GetAgentDescription(), Tools: tc.GetTools()}),
		Tools:  tc.GetTools(),
	}
	say := func(role model.Role, text string) {
		out.Messages = append(out.Messages, model.Message{Role: role, Text: text})
	}
	say(model.User, p.page("goal", tc))
	for _, e := range tc.GetHistory() {
		say(model.Assistant, call(e))
		say(model.User, p.page("result", outcomeOf(l, e)))
	}
	if f.InputJSON == "" {
		f.InputJSON = "{}"
	}
	say(model.User, p.page(string(purpose), question{Facts: f, Final: model.Final}))
	for _, c := range corrections {
		say(model.Assistant, c.Answer)
		say(model.User, p.page("correction", c))
	}
	return out, p.err
}

// pages executes templates until one fails.
type pages struct {
	t   *template.Template
	err error
}

func (p *pages) page(name string, data any) string {
	if p.err != nil {
		return ""
	}
	var b bytes.Buffer
	if err := p.t.ExecuteTemplate(&b, name+".tmpl", data); err != nil {
		p.err = fmt.Errorf("render the prompt %s: %w", name, err)
	}
	return strings.TrimSpace(b.String())
}

// call writes a step as the model itself would have answered it.
func call(e *plannerv1.HistoryEntry) string {
	o := &strictjson.Object{}
	o.Set("tool_id", strictjson.Quote(e.GetToolId()))
	o.Set("description", strictjson.Quote(e.GetDescription()))
	if in := e.GetInputJson(); in != "" {
		o.Set("input", strictjson.Compact(in))
	}
	return o.String()
}

func outcomeOf(l lang.Lang, e *plannerv1.HistoryEntry) outcome {
	o := outcome{Result: "success", Output: clip(l, e.GetOutputJson(), mostOutput), Error: clip(l, e.GetError(), mostOutput)}
	o.Unknown = e.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN
	switch e.GetResult() {
	case plannerv1.StepResult_STEP_RESULT_ERROR:
		o.Result = "error"
	case plannerv1.StepResult_STEP_RESULT_CANCELLED:
		o.Result = "cancelled"
	case plannerv1.StepResult_STEP_RESULT_SKIPPED:
		o.Result = "skipped"
	}
	return o
}

// fence marks a text as data. The mark names the text's hash, so that no text can contain its own end.
func fence(text string) string {
	sum := sha256.Sum256([]byte(text))
	mark := hex.EncodeToString(sum[:4])
	return "<<<DATA " + mark + "\n" + strings.TrimRight(text, "\n") + "\nDATA " + mark + ">>>"
}

// line puts a text on one line, so that it cannot pose as a paragraph of the prompt.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }

func clip(l lang.Lang, s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most]) + l.Say("\n[cut: %d more characters]", "\n［已截断，另有 %d 个字符］", len(runes)-most)
}

// effect names what a tool does to the world, in one word.
func effect(t *commonv1.Tool) string {
	switch t.GetEffect() {
	case commonv1.Effect_EFFECT_READ:
		return "READ"
	case commonv1.Effect_EFFECT_DESTRUCTIVE:
		return "DESTRUCTIVE"
	}
	return "WRITE"
}

// definition is all of a tool that its server wrote.
func definition(t *commonv1.Tool) string {
	var parts []string
	for _, part := range []string{t.GetTitle(), t.GetDescription()} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(append(parts, "input schema: "+strictjson.Compact(t.GetInputSchemaJson())), "\n")
}
