package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Tools               []tool          `json:"tools,omitempty"`
	ToolChoice          any             `json:"tool_choice,omitempty"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls,omitempty"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	PromptCacheKey      string          `json:"prompt_cache_key,omitempty"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
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

// request returns r as chat completions have it.
func (m *Model) request(r *llm.Request) (*request, error) {
	q := &request{
		Model: m.cfg.Info.ProviderModel, Temperature: r.Temperature, Stop: r.Stop, Stream: true, StreamOptions: streamOptions{true},
	}
	// OpenAI's newer models reject the older name, and many compatible servers do not know the newer one.
	if m.own {
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
	if o := r.Output; o != nil && m.cfg.Info.Schema == llm.SchemaNative {
		schema, strict, err := schemaOf(o.Schema, true)
		if err != nil {
			return nil, err
		}
		q.ResponseFormat = &responseFormat{Type: "json_schema", JSONSchema: jsonSchema{Name: o.Name, Schema: schema, Strict: strict}}
	}
	return q, q.setTools(r)
}

func (q *request) setTools(r *llm.Request) error {
	for _, t := range r.Tools {
		schema, strict, err := schemaOf(t.Parameters, t.Strict)
		if err != nil {
			return err
		}
		description := t.Description
		if runes := []rune(description); len(runes) > maxDescription {
			description = string(runes[:maxDescription-1]) + "…"
		}
		q.Tools = append(q.Tools, tool{"function", function{Name: t.Name, Description: description, Parameters: schema, Strict: strict}})
	}
	if len(r.Tools) == 0 {
		return nil
	}
	switch r.ToolChoice.Mode {
	case llm.ToolsNone:
		q.ToolChoice = "none"
	case llm.ToolsRequired:
		q.ToolChoice = "required"
	case llm.ToolsNamed:
		q.ToolChoice = tool{"function", function{Name: r.ToolChoice.Name}}
	}
	if r.Sequential {
		q.ParallelToolCalls = new(bool)
	}
	return nil
}

// schemaOf returns a schema of tools and replies as the provider takes it, and whether it is in the strict subset.
func schemaOf(schema string, wantStrict bool) (json.RawMessage, bool, error) {
	o, err := wire.Parameters(schema)
	if err != nil {
		return nil, false, &llm.Error{Class: llm.BadRequest, Message: "a schema is no JSON object: " + err.Error(), Err: err}
	}
	if wantStrict {
		if s, ok := strictSchema(o.String(), 0); ok {
			return json.RawMessage(s), true, nil
		}
	}
	return json.RawMessage(withItems(o.String())), false, nil
}

// withItems returns a schema in which all arrays have items: the provider rejects one without.
func withItems(raw string) string {
	switch strictjson.Kind(raw) {
	case "array":
		items := slices.Collect(strictjson.Items(raw))
		for i, item := range items {
			items[i] = withItems(item)
		}
		return strictjson.Array(items)
	case "object":
		o, err := strictjson.ParseObject(raw)
		if err != nil {
			return raw
		}
		for _, key := range o.Keys() {
			value, _ := o.Get(key)
			o.Set(key, withItems(value))
		}
		if kind, _ := o.Get("type"); kind == `"array"` && !o.Has("items") {
			o.Set("items", "{}")
		}
		return o.String()
	}
	return raw
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
	Type  string      `json:"type"`
	Text  string      `json:"text,omitempty"`
	Image *imageURL   `json:"image_url,omitempty"`
	Audio *inputAudio `json:"input_audio,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type inputAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

// messages returns a message as chat completions have it: tool results are messages of their own, before what else the user says.
func messages(m llm.Message) ([]message, error) {
	var out []message
	rest := message{Role: "user"}
	if m.Role == llm.Assistant {
		rest.Role = "assistant"
	}
	var parts []content
	for _, p := range m.Parts {
		switch p.Kind {
		case llm.ResultPart:
			out = append(out, message{Role: "tool", ToolCallID: p.Result.CallID, Content: p.Result.Text})
		case llm.CallPart:
			rest.ToolCalls = append(rest.ToolCalls, toolCall{p.Call.ID, "function", functionCall{p.Call.Name, p.Call.Arguments}})
		default:
			c, err := contentOf(p)
			if err != nil {
				return nil, err
			}
			parts = append(parts, c)
		}
	}
	text, plain := plainText(parts)
	switch {
	case !plain && m.Role == llm.Assistant:
		return nil, &llm.Error{Class: llm.BadRequest,
			Message: "a message of the assistant holds a picture or sound, which this provider takes from users alone"}
	case !plain:
		rest.Content = parts
	case len(parts) > 0:
		rest.Content = text // not all compatible servers read lists
	case len(rest.ToolCalls) == 0:
		return out, nil
	}
	return append(out, rest), nil
}

func plainText(parts []content) (string, bool) {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n"), true
}

// audioFormats are those of chat completions, by MIME type.
var audioFormats = map[string]string{
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3",
}

func contentOf(p llm.Part) (content, error) {
	data := base64.StdEncoding.EncodeToString(p.Data)
	switch p.Kind {
	case llm.Image:
		return content{Type: "image_url", Image: &imageURL{"data:" + p.MIME + ";base64," + data}}, nil
	case llm.Audio:
		format, ok := audioFormats[p.MIME]
		if !ok {
			return content{}, &llm.Error{Class: llm.BadRequest,
				Message: fmt.Sprintf("sound of the type %.60q is not taken here; send audio/wav or audio/mpeg", p.MIME)}
		}
		return content{Type: "input_audio", Audio: &inputAudio{data, format}}, nil
	default:
		return content{Type: "text", Text: p.Text}, nil
	}
}
