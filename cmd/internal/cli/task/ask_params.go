package task

import (
	"context"
	"encoding/json"
	"strings"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// params asks for each parameter that is missing. An empty line leaves one as it is; if all are left, the person may say
// it in words, or leave the wait open.
func (p Asker) params(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	fields, err := ui.Fields(wait.GetParamsSchemaJson())
	if err != nil {
		return leave, err
	}
	if in := wait.GetInputJson(); in != "" && in != "{}" {
		p.Print("    %s\n%s\n", p.Style.Dim(p.Tool(wait.GetToolId())+" has so far"), ui.PrettyJSON(in, "    "))
	}
	p.Lapses(wait.GetDeadline())
	if len(fields) > 0 {
		p.Print("    %s\n", p.Style.Dim("an empty line leaves a parameter as it is; Ctrl-D leaves the task waiting"))
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
			object = append(object, ui.Member(f.Name, value))
		}
	}
	return p.supply(ctx, wait, object)
}

// supply makes the answer of the values that were given.
func (p Asker) supply(ctx context.Context, wait *executorv1.Wait, object []string) (Answer, error) {
	params := &executorv1.Params{}
	if len(object) > 0 {
		params.ContentJson = "{" + strings.Join(object, ",") + "}"
	} else {
		words, err := p.Read(ctx, "  "+p.Style.Yellow("?")+" in your own words (empty: leave the task waiting): ")
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
func (p Asker) field(ctx context.Context, f ui.Field, required bool) (json.RawMessage, error) {
	if required {
		f.Description = strings.TrimSpace(f.Description + " [required]")
	}
	value, err := p.Value(ctx, f, "")
	if err != nil || value != nil || !required {
		return value, err
	}
	p.Complain("%s is required; an empty line once more leaves it out", ui.Line(f.Name))
	return p.Value(ctx, f, "")
}
