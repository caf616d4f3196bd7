// Package prompt renders prompts from embedded templates, in English and Chinese: instructions, tasks, tools, steps and questions. Text from tools
// and other systems is fenced as data. It knows no model and decides nothing.
package prompt

import (
	"bytes"
	"embed"
	"fmt"
	"strings"
	"text/template"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
)

//go:embed templates
var files embed.FS

// maxAnswer is how many bytes of an earlier answer are shown. Like all limits here it does not depend on what follows, so that each prompt is
// the beginning of the next.
const maxAnswer = 4000

// Prompts holds the parsed templates. It is safe for concurrent use.
type Prompts struct {
	templates map[lang.Lang]*template.Template
}

// New parses the embedded templates.
func New() (*Prompts, error) {
	p := &Prompts{templates: map[lang.Lang]*template.Template{}}
	funcs := template.FuncMap{"fence": Fence, "line": Line, "definition": Definition, "clip": clip, "tool": tool}
	for _, l := range []lang.Lang{lang.EN, lang.ZH} {
		t, err := template.New(string(l)).Funcs(funcs).Option("missingkey=error").ParseFS(files, "templates/"+string(l)+"/*.tmpl")
		if err != nil {
			return nil, fmt.Errorf("parse the prompts in %s: %w", l, err)
		}
		p.templates[l] = t
	}
	return p, nil
}

// page renders a page. Templates are embedded and tests render each of them, so that an error is a bug: it panics.
func (p *Prompts) page(l lang.Lang, name string, data any) string {
	var b bytes.Buffer
	if err := p.templates[l].ExecuteTemplate(&b, name+".tmpl", data); err != nil {
		panic(fmt.Errorf("render the prompt %s: %w", name, err))
	}
	return strings.TrimSpace(b.String())
}

// Render renders the page of that name for a task. The page reads the context's and the data's fields as .Task and .Data.
func (p *Prompts) Render(name string, tc *plannerv1.TaskContext, data any) string {
	return p.page(LangOf(tc), name, struct {
		Task *plannerv1.TaskContext
		Data any
	}{tc, data})
}

// tool renders the definition of a task's tool.
func tool(tc *plannerv1.TaskContext, id string) string {
	t := catalog.Find(tc.GetTools(), id)
	return Line(id) + "\n" + Fence(Definition(t)+"\ninput schema: "+Schema(t))
}

// Definition renders what a tool's server wrote about it, without its schema.
func Definition(t *commonv1.Tool) string {
	return strings.TrimSpace(t.GetTitle() + "\n" + t.GetDescription())
}

// Schema renders a tool's input schema.
func Schema(t *commonv1.Tool) string { return strictjson.Compact(t.GetInputSchemaJson()) }

func clip(text string) string {
	if len(text) <= maxAnswer {
		return text
	}
	return strings.ToValidUTF8(text[:maxAnswer], "") + " […]"
}
