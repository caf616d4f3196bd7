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
	var object []string
	for _, f := range fields {
		value, err := p.field(ctx, f)
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

// field asks for one value until it fits; nil where the person left it out.
func (p *Prompter) field(ctx context.Context, f values.Field) (json.RawMessage, error) {
	return p.value(ctx, f, false)
}

// value asks for one value until it fits. What is required is asked for again where the line is empty, except for a text,
// which may be.
func (p *Prompter) value(ctx context.Context, f values.Field, required bool) (json.RawMessage, error) {
	question := "  " + p.Style.Yellow("?") + " " + p.Style.Bold(render.Line(f.Name))
	if kind := f.Kind(); kind != "" {
		question += " (" + render.Line(kind) + ")"
	}
	if f.Description != "" {
		question += p.Style.Dim(" " + render.Line(f.Description))
	}
	for {
		text, err := p.read(ctx, question+": ")
		if err != nil || text == "" && !required {
			return nil, err
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

func quote(name string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(name) // a string can always be encoded
	return strings.TrimSpace(out.String())
}
