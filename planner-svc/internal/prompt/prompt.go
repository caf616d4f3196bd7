// Package prompt renders prompts from embedded templates, in English and Chinese: instructions, tasks, tools, steps and questions. It also holds the
// schemas of answers. Text from tools and other systems is fenced as data. It knows no model and decides nothing.
package prompt

import (
	"embed"
	"fmt"
	"strings"
	"sync"
	"text/template"
	"unicode/utf8"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/result"
)

//go:embed templates schemas
var files embed.FS

// Thought is the data of the page `think`.
type Thought struct {
	*plannerv1.ThinkRequest
	Failures []*plannerv1.HistoryEntry // calls that are not to be made again
}

// maxAnswer is how many bytes of an earlier answer are shown. Like all limits here, it does not depend on later parts of the prompt, so that each
// prompt is the beginning of the next.
const maxAnswer = 4000

// templates parses the embedded templates once. It panics if a template is wrong.
var templates = sync.OnceValue(func() map[lang.Lang]*template.Template {
	parsed := map[lang.Lang]*template.Template{}
	funcs := template.FuncMap{"fence": Fence, "line": Line, "clip": clip, "short": short, "tool": tool, "definition": Definition, "recent": recent,
		"text": func(e *plannerv1.HistoryEntry) string { return result.Of(e).Text() }}
	for _, l := range []lang.Lang{lang.EN, lang.ZH} {
		funcs["fenced"] = func(name string, data any) (string, error) {
			var b strings.Builder
			err := parsed[l].ExecuteTemplate(&b, name+".tmpl", data)
			return Fence(b.String()), err
		}
		parsed[l] = template.Must(template.New(string(l)).Funcs(funcs).Option("missingkey=error").ParseFS(files, "templates/"+string(l)+"/*.tmpl"))
	}
	return parsed
})

// Render renders the template of that name for a task. The template reads the fields of tc and data as .Task and .Data.
func Render(name string, tc *plannerv1.TaskContext, data any) string {
	var b strings.Builder
	page := struct {
		Task *plannerv1.TaskContext
		Data any
	}{tc, data}
	if err := templates()[LangOf(tc)].ExecuteTemplate(&b, name+".tmpl", page); err != nil {
		panic(fmt.Errorf("render the prompt %s: %w", name, err))
	}
	return strings.TrimSpace(b.String())
}

// Schema returns the JSON Schema of the answers to the page of that name, or of the input of the planner's own tool of that name.
func Schema(name string) string {
	raw, err := files.ReadFile("schemas/" + name + ".json")
	if err != nil {
		panic(fmt.Errorf("the schema of %s: %w", name, err))
	}
	return strictjson.Compact(strings.TrimSpace(string(raw)))
}

// tool renders the definition of a task's tool.
func tool(tc *plannerv1.TaskContext, id string) string {
	t := catalog.Find(tc.GetTools(), id)
	return Line(id) + "\n" + Fence(Definition(t)+"\ninput schema: "+strictjson.Compact(t.GetInputSchemaJson()))
}

// short puts texts on one line and cuts it.
func short(texts ...string) string { return lang.Clip(Line(strings.Join(texts, " ")), 160) }

// recent returns the last texts of people, of which a thought takes 10 into account (D4).
func recent(inputs []string) []string { return inputs[max(0, len(inputs)-10):] }

// Definition returns the title and the description of a tool, as its server wrote them.
func Definition(t *commonv1.Tool) string {
	return strings.TrimSpace(t.GetTitle() + "\n" + t.GetDescription())
}

func clip(text string) string {
	if len(text) <= maxAnswer {
		return text
	}
	return strings.ToValidUTF8(text[:maxAnswer], "") + " […]"
}

// Result renders the result of a step. It cuts a text that is longer than limit bytes, and tells the model how to read on.
func Result(tc *plannerv1.TaskContext, e *plannerv1.HistoryEntry, limit int) string {
	r := result.Of(e)
	var media []string
	for _, m := range r.Media {
		media = append(media, Line(m.Type+" "+m.MIME+" "+m.URI))
	}
	text, cut := r.Text(), ""
	if len(text) > limit {
		end := limit
		for !utf8.RuneStart(text[end]) {
			end--
		}
		cut = LangOf(tc).Say("[cut: %d of %d bytes are left; read_output {\"step\": %s, \"offset\": %d} reads on]",
			"［已截断：共 %[2]d 字节，还剩 %[1]d 字节；用 read_output {\"step\": %[3]s, \"offset\": %[4]d} 继续读取］",
			len(text)-end, len(text), strictjson.Quote(r.GetStepId()), end)
		text = text[:end]
	}
	return Render("result", tc, struct {
		Step, Result, Text, Cut, Media string
		Unknown                        bool
	}{Line(e.GetStepId()), e.GetResult().String(), text, cut, strings.Join(media, "\n"), e.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN})
}

// LangOf returns the language of a task's prompts.
func LangOf(tc *plannerv1.TaskContext) lang.Lang { return lang.Of(tc.GetLanguage(), tc.GetGoal()) }
