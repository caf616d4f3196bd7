package prompt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"pawl.dev/cmd/internal/render"
	"pawl.dev/cmd/internal/values"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// params asks for each parameter that is missing. An empty line leaves one as it is; if all are left, the person may say
// it in words, or leave the wait open.
func (p *Prompter) params(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	fields, err := values.Fields(wait.GetParamsSchemaJson())
	if err != nil {
		return leave, err
	}
	if in := wait.GetInputJson(); in != "" && in != "{}" {
		p.print("    %s\n%s\n", p.Style.Dim(p.tool(wait.GetToolId())+" has so far"), render.PrettyJSON(in, "    "))
	}
	p.lapses(wait)
	if len(fields) > 0 {
		p.print("    %s\n", p.Style.Dim("an empty line leaves a parameter as it is; Ctrl-D leaves the task waiting"))
	}
	var have map[string]json.RawMessage
	_ = json.Unmarshal([]byte(wait.GetInputJson()), &have) // an input that is no object has nothing of what is asked for
	var object []string
	for _, f := range fields {
		_, there := have[f.Name]
		value, err := p.field(ctx, f, f.Required && !there)
		if err != nil {
			return leave, err
		}
		if value != nil {
			object = append(object, quote(f.Name)+":"+string(value))
		}
	}
	return p.supply(ctx, wait, object)
}

// supply makes the answer of the values that were given.
func (p *Prompter) supply(ctx context.Context, wait *executorv1.Wait, object []string) (Answer, error) {
	params := &executorv1.Params{}
	if len(object) > 0 {
		params.ContentJson = "{" + strings.Join(object, ",") + "}"
	} else {
		words, err := p.read(ctx, "  "+p.Style.Yellow("?")+" in your own words (empty: leave the task waiting): ")
		if err != nil || words == "" {
			return leave, err
		}
		params.Description = words
	}
	return Answer{Resume: &executorv1.ResumeTaskRequest{
		WaitId: wait.GetId(),
		Answer: &executorv1.ResumeTaskRequest_Params{Params: params},
	}}, nil
}

// field asks for one value until it fits; nil where the person left it out. What is required is left out only by a second empty
// line, for those who want to say it in their own words.
func (p *Prompter) field(ctx context.Context, f values.Field, required bool) (json.RawMessage, error) {
	if required {
		f.Description = strings.TrimSpace(f.Description + " [required]")
	}
	value, err := p.value(ctx, f, "")
	if err != nil || value != nil || !required {
		return value, err
	}
	p.complain("%s is required; an empty line once more leaves it out", render.Line(f.Name))
	return p.value(ctx, f, "")
}

// value asks for one value until it fits; nil where the line is empty. insist is said to that instead, where the value must be there.
func (p *Prompter) value(ctx context.Context, f values.Field, insist string) (json.RawMessage, error) {
	question := "  " + p.Style.Yellow("?") + " " + p.Style.Bold(render.Line(f.Name))
	if kind := f.Kind(); kind != "" {
		question += " (" + render.Line(kind) + ")"
	}
	if f.Description != "" {
		question += p.Style.Dim(" " + render.Line(f.Description))
	}
	for {
		text, err := p.read(ctx, question+": ")
		switch {
		case err != nil || text == "" && insist == "":
			return nil, err
		case text == "":
			p.complain("%s", insist)
			continue
		case text == emptyText && f.Text():
			text = ""
		}
		value, err := f.Parse(text)
		if err == nil {
			err = f.Check(value)
		}
		if err == nil {
			return value, nil
		}
		p.complain("%s", render.Line(fmt.Sprint(err)))
	}
}

// emptyText is how a person gives an empty text on purpose.
const emptyText = `""`

func quote(name string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(name) // a string can always be encoded
	return strings.TrimSpace(out.String())
}
