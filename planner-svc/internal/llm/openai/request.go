package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/llm"
)

type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Tools               []tool          `json:"tools,omitempty"`
	ToolChoice          string          `json:"tool_choice,omitempty"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	PromptCacheKey      string          `json:"prompt_cache_key,omitempty"`
	Stream              bool            `json:"stream"`
	StreamOptions       map[string]bool `json:"stream_options"`
}

var withUsage = map[string]bool{"include_usage": true}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type responseFormat struct {
	Type       string     `json:"type"`
	JSONSchema jsonSchema `json:"json_schema"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict,omitempty"`
}

// maxDescription is how many characters the provider takes of a tool's description. One longer fails the whole request.
const maxDescription = 1024

var toolChoices = map[plannerv1.ModelToolChoice]string{
	plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE: "none", plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED: "required",
}

// encode returns r as chat completions have it.
func encode(info *llm.Info, own bool, r *llm.Request) (*request, error) {
	q := &request{Model: info.ProviderModel, Temperature: r.Temperature, Stop: r.Stop, Stream: true, StreamOptions: withUsage}
	// OpenAI's newer models reject the older name, and many compatible servers do not know the newer one.
	if own {
		q.MaxCompletionTokens, q.PromptCacheKey = r.MaxTokens, r.CacheKey
	} else {
		q.MaxTokens = r.MaxTokens
	}
	if r.System != "" {
		q.Messages = append(q.Messages, message{Role: "system", Content: r.System})
	}
	for _, one := range r.Messages {
		turns, err := messages(one)
		if err != nil {
			return nil, err
		}
		q.Messages = append(q.Messages, turns...)
	}
	if o := r.Output; o != nil && info.Schema == llm.SchemaNative {
		schema, strict, err := schemaOf(o.Name, o.Schema, true)
		if err != nil {
			return nil, err
		}
		q.ResponseFormat = &responseFormat{Type: "json_schema", JSONSchema: jsonSchema{Name: o.Name, Schema: schema, Strict: strict}}
	}
	for _, t := range r.Tools {
		schema, _, err := schemaOf(t.GetName(), t.GetInputSchemaJson(), false)
		if err != nil {
			return nil, err
		}
		description := t.GetDescription()
		if runes := []rune(description); len(runes) > maxDescription {
			description = string(runes[:maxDescription-1]) + "…"
		}
		q.Tools = append(q.Tools, tool{"function", function{Name: t.GetName(), Description: description, Parameters: schema}})
	}
	if len(r.Tools) > 0 {
		q.ToolChoice = toolChoices[r.ToolChoice]
	}
	return q, nil
}

type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"` // a text, or a list of content
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type content struct {
	Type  string            `json:"type"`
	Text  string            `json:"text,omitempty"`
	Image map[string]string `json:"image_url,omitempty"`
	Audio map[string]string `json:"input_audio,omitempty"`
}

// messages returns a message as chat completions have it: tool results are messages of their own, before what else the user says.
func messages(m *plannerv1.ModelMessage) ([]message, error) {
	var out []message
	rest := message{Role: "user"}
	assistant := m.GetRole() == plannerv1.ModelRole_MODEL_ROLE_ASSISTANT
	if assistant {
		rest.Role = "assistant"
	}
	var parts []content
	var texts []string
	for _, p := range m.GetParts() {
		switch part := p.GetPart().(type) {
		case *plannerv1.ModelPart_ToolResult:
			out = append(out, message{Role: "tool", ToolCallID: part.ToolResult.GetCallId(), Content: part.ToolResult.GetText()})
		case *plannerv1.ModelPart_ToolCall:
			c := part.ToolCall
			rest.ToolCalls = append(rest.ToolCalls, toolCall{c.GetId(), "function", functionCall{c.GetName(), c.GetInputJson()}})
		case *plannerv1.ModelPart_Image:
			data := base64.StdEncoding.EncodeToString(part.Image.GetData())
			parts = append(parts, content{Type: "image_url", Image: map[string]string{"url": "data:" + part.Image.GetMimeType() + ";base64," + data}})
		case *plannerv1.ModelPart_Audio:
			format := audioFormats[part.Audio.GetMimeType()]
			if format == "" {
				return nil, &llm.Error{Class: llm.BadRequest,
					Message: fmt.Sprintf("sound of the type %.60q is not taken here; send audio/wav or audio/mpeg", part.Audio.GetMimeType())}
			}
			data := base64.StdEncoding.EncodeToString(part.Audio.GetData())
			parts = append(parts, content{Type: "input_audio", Audio: map[string]string{"data": data, "format": format}})
		default:
			texts = append(texts, p.GetText())
			parts = append(parts, content{Type: "text", Text: p.GetText()})
		}
	}
	switch plain := len(texts) == len(parts); {
	case !plain && assistant:
		return nil, &llm.Error{Class: llm.BadRequest,
			Message: "a message of the assistant holds a picture or sound, which this provider takes from users alone"}
	case !plain:
		rest.Content = parts
	case len(parts) > 0:
		rest.Content = strings.Join(texts, "\n") // not all compatible servers read lists
	case len(rest.ToolCalls) == 0:
		return out, nil
	}
	return append(out, rest), nil
}

// audioFormats are those of chat completions, by MIME type.
var audioFormats = map[string]string{
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3",
}
