package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

const (
	// maxTemperature is the highest here; other providers go to 2.
	maxTemperature = 1
	// maxCachedMessages is how many messages can end a cached prefix: the provider takes 4 breakpoints, of which the prefix of tools
	// and system text has one.
	maxCachedMessages = 3
)

type request struct {
	Model         string      `json:"model"`
	MaxTokens     int         `json:"max_tokens"`
	System        []block     `json:"system,omitempty"`
	Messages      []message   `json:"messages"`
	Tools         []tool      `json:"tools,omitempty"`
	ToolChoice    *toolChoice `json:"tool_choice,omitempty"`
	StopSequences []string    `json:"stop_sequences,omitempty"`
	Temperature   *float64    `json:"temperature,omitempty"`
	Stream        bool        `json:"stream"`
}

type cacheControl struct {
	Type string `json:"type"`
}

var ephemeral = &cacheControl{"ephemeral"}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type toolChoice struct {
	Type       string `json:"type"`
	Name       string `json:"name,omitempty"`
	Sequential bool   `json:"disable_parallel_tool_use,omitempty"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a content block: text, image, tool_use or tool_result.
type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	Source       *source         `json:"source,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	Content      string          `json:"content,omitempty"`
	IsError      bool            `json:"is_error,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

// encode returns r as the messages API has it.
func encode(info *llm.Info, r *llm.Request) (*request, error) {
	q := &request{Model: info.ProviderModel, MaxTokens: r.MaxTokens, StopSequences: slices.DeleteFunc(slices.Clone(r.Stop), blank), Stream: true}
	if r.Temperature != nil {
		t := min(*r.Temperature, maxTemperature)
		q.Temperature = &t
	}
	if r.System != "" {
		q.System = []block{{Type: "text", Text: r.System}}
	}
	if err := q.setTools(r); err != nil {
		return nil, err
	}
	if r.CachePrefix {
		switch {
		case len(q.System) > 0:
			q.System[0].CacheControl = ephemeral
		case len(q.Tools) > 0:
			q.Tools[len(q.Tools)-1].CacheControl = ephemeral
		}
	}
	return q, q.setMessages(r)
}

var toolChoices = map[plannerv1.ModelToolChoice]*toolChoice{
	plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE: {Type: "none"}, plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED: {Type: "any"},
}

func (q *request) setTools(r *llm.Request) error {
	tools := r.Tools
	if o := r.Output; o != nil { // the reply's schema is the only tool, whose call is forced
		if len(tools) > 0 {
			return &llm.Error{Class: llm.BadRequest, Message: "a request to this provider has either tools or a schema of its reply"}
		}
		tools = []*plannerv1.ModelTool{{Name: o.Name, Description: "Gives the answer.", InputSchemaJson: o.Schema}}
		q.ToolChoice = &toolChoice{Type: "tool", Name: o.Name, Sequential: true}
	} else if len(tools) > 0 {
		q.ToolChoice = toolChoices[r.ToolChoice]
	}
	for _, t := range tools {
		schema, err := schemaOf(t)
		if err != nil {
			return err
		}
		q.Tools = append(q.Tools, tool{Name: t.GetName(), Description: t.GetDescription(), InputSchema: schema})
	}
	return nil
}

// propertyName is the form of property names that the provider takes. One other name fails the whole request.
var propertyName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// schemaOf returns a tool's schema as the provider takes it. Properties whose names it rejects are left out.
func schemaOf(t *plannerv1.ModelTool) (json.RawMessage, error) {
	o, props, err := wire.Parameters(t.GetName(), t.GetInputSchemaJson())
	if err != nil {
		return nil, err
	}
	required, _ := o.Get("required")
	names := slices.Collect(strictjson.Items(required))
	before := len(props.Keys())
	for _, key := range slices.Clone(props.Keys()) {
		if !propertyName.MatchString(key) {
			props.Delete(key)
			names = slices.DeleteFunc(names, func(n string) bool { return n == strictjson.Quote(key) })
		}
	}
	if len(props.Keys()) < before {
		o.Set("properties", props.String())
		o.Set("required", strictjson.Array(names))
	}
	return json.RawMessage(o.String()), nil
}

// setMessages sets the messages, with consecutive ones of a role as one: tool results must be in the message after their calls.
func (q *request) setMessages(r *llm.Request) error {
	type position struct{ message, block int }
	var cached []position // ends of cached prefixes
	for i, m := range r.Messages {
		role := "user"
		if m.GetRole() == plannerv1.ModelRole_MODEL_ROLE_ASSISTANT {
			role = "assistant"
		}
		blocks, err := blocksOf(m)
		if err != nil {
			return err
		}
		if len(blocks) == 0 {
			continue
		}
		if n := len(q.Messages); n == 0 || q.Messages[n-1].Role != role {
			q.Messages = append(q.Messages, message{Role: role})
		}
		last := &q.Messages[len(q.Messages)-1]
		last.Content = append(last.Content, blocks...)
		if slices.Contains(r.CacheHere, i) {
			cached = append(cached, position{len(q.Messages) - 1, len(last.Content) - 1})
		}
	}
	for _, at := range cached[max(0, len(cached)-maxCachedMessages):] {
		q.Messages[at.message].Content[at.block].CacheControl = ephemeral
	}
	return nil
}

// blocksOf returns a message's content, tool results first and without empty texts, which the provider rejects.
func blocksOf(m *plannerv1.ModelMessage) ([]block, error) {
	var results, others []block
	for _, p := range m.GetParts() {
		switch part := p.GetPart().(type) {
		case *plannerv1.ModelPart_ToolResult:
			r := part.ToolResult
			results = append(results, block{Type: "tool_result", ToolUseID: r.GetCallId(), Content: r.GetText(), IsError: r.GetIsError()})
		case *plannerv1.ModelPart_ToolCall:
			c := part.ToolCall
			others = append(others, block{Type: "tool_use", ID: c.GetId(), Name: c.GetName(), Input: inputOf(c.GetInputJson())})
		case *plannerv1.ModelPart_Audio:
			return nil, &llm.Error{Class: llm.BadRequest, Message: "this provider takes no sound; choose another model, or send text"}
		case *plannerv1.ModelPart_Image:
			kind := part.Image.GetMimeType()
			if !slices.Contains(imageTypes, kind) {
				return nil, &llm.Error{Class: llm.BadRequest,
					Message: fmt.Sprintf("pictures of the type %.60q are not taken here; send one of %s", kind, strings.Join(imageTypes, ", "))}
			}
			others = append(others, block{Type: "image", Source: &source{"base64", kind, base64.StdEncoding.EncodeToString(part.Image.GetData())}})
		default:
			if !blank(p.GetText()) {
				others = append(others, block{Type: "text", Text: p.GetText()})
			}
		}
	}
	return append(results, others...), nil
}

var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// inputOf returns the arguments of a call, which must be an object here. What the model wrote instead of one is kept as a member.
func inputOf(arguments string) json.RawMessage {
	o, err := strictjson.ParseObject(arguments)
	if err != nil {
		o = &strictjson.Object{}
		o.Set("arguments", strictjson.Quote(arguments))
	}
	return json.RawMessage(o.String())
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }
