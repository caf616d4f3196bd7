package modeltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// openaiRequest is the request of a chat completion. It has only the fields that Pawl sends; others are rejected.
type openaiRequest struct {
	Model               string            `json:"model"`
	Messages            []json.RawMessage `json:"messages"`
	Tools               []json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage   `json:"tool_choice"`
	ResponseFormat      json.RawMessage   `json:"response_format"`
	MaxTokens           int               `json:"max_tokens"`
	MaxCompletionTokens int               `json:"max_completion_tokens"`
	Temperature         *float64          `json:"temperature"`
	Stop                []string          `json:"stop"`
	PromptCacheKey      string            `json:"prompt_cache_key"`
	Stream              bool              `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type openaiTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	} `json:"function"`
}

type openaiMessage struct {
	Role       string           `json:"role"`
	Content    json.RawMessage  `json:"content"`
	Refusal    *string          `json:"refusal"`
	ToolCallID string           `json:"tool_call_id"`
	ToolCalls  []openaiToolCall `json:"tool_calls"`
}

type openaiToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

const unknownArgument = "Unrecognized request argument supplied: %s"

// readOpenAI checks a request as OpenAI does, and fills in r.
func (s *Script) readOpenAI(r *Request) {
	auth, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer || auth == "" || s.Key != "" && auth != s.Key {
		panic(&problem{status: 401, kind: "invalid_request_error", code: "invalid_api_key", message: "Incorrect API key provided: " + auth})
	}
	var q openaiRequest
	decode(r.Body, &q, "body", unknownArgument)
	r.Stream, r.maxTokens = q.Stream, max(q.MaxTokens, q.MaxCompletionTokens)
	if q.Model == "" || s.Model != "" && q.Model != s.Model {
		panic(&problem{status: 404, kind: "invalid_request_error", code: "model_not_found", message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", q.Model)})
	}
	checkOpenAIOptions(&q)
	for i, raw := range q.Tools {
		r.addFunction(raw, fmt.Sprintf("tools[%d].function", i))
	}
	readOpenAIFormat(&q, r)
	readOpenAIMessages(&q, r)
}

func checkOpenAIOptions(q *openaiRequest) {
	switch {
	case len(q.Messages) == 0:
		refuse("messages", "Invalid 'messages': empty array. Expected an array with minimum length 1.")
	case len(q.Stop) > 4:
		refuse("stop", "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length %d instead.", len(q.Stop))
	case q.Temperature != nil && (*q.Temperature < 0 || *q.Temperature > 2):
		refuse("temperature", "Invalid 'temperature': decimal out of range.")
	case q.MaxTokens > 0 && q.MaxCompletionTokens > 0:
		refuse("max_tokens", "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	case q.StreamOptions != nil && !q.Stream:
		refuse("stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case len(q.Tools) == 0 && (q.ToolChoice != nil):
		refuse("tool_choice", "'tool_choice' is only allowed when 'tools' are specified.")
	case q.ToolChoice != nil && !slices.Contains([]string{"auto", "none", "required"}, read[string](q.ToolChoice)):
		refuse("tool_choice", "Invalid value: '%s'. Supported values are: 'none', 'auto', and 'required'.", q.ToolChoice)
	case len(q.Tools) > 128:
		refuse("tools", "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length %d instead.", len(q.Tools))
	}
}

// addFunction checks a tool and adds it to the prompt.
func (r *Request) addFunction(raw json.RawMessage, where string) {
	var t openaiTool
	decode(raw, &t, where, unknownArgument)
	f := t.Function
	switch {
	case t.Type != "function":
		refuse(where, "Invalid value: '%s'. Supported values are: 'function'.", t.Type)
	case !toolName.MatchString(f.Name):
		refuse(where+".name", "Invalid '%s.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", where)
	case len([]rune(f.Description)) > 1024:
		refuse(where+".description", "Invalid '%s.description': string too long. Expected a string with maximum length 1024, but got a string with length %d instead.", where, len([]rune(f.Description)))
	}
	s := checkParameters(f.Parameters, where+".parameters")
	s.each("", func(path string, s schema) {
		if slices.Equal(s.kinds(), []string{"array"}) && s["items"] == nil {
			refuse(where+".parameters", "Invalid schema for function '%s': In context=('%s'), array schema missing items.", f.Name, path)
		}
	})
	if f.Strict {
		s.checkStrict(where + ".parameters")
	}
	if r.Tool(f.Name) == f.Name {
		refuse(where+".name", "Tool names must be unique: '%s'.", f.Name)
	}
	r.Tools = append(r.Tools, f.Name)
	r.parts = append(r.parts, compact(raw))
}

func readOpenAIFormat(q *openaiRequest, r *Request) {
	if q.ResponseFormat == nil {
		return
	}
	var f struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		} `json:"json_schema"`
	}
	decode(q.ResponseFormat, &f, "response_format", unknownArgument)
	if f.Type != "json_schema" || !toolName.MatchString(f.JSONSchema.Name) {
		refuse("response_format.json_schema.name", "Invalid 'response_format': a json_schema whose name matches the pattern was expected.")
	}
	r.Format = f.JSONSchema.Name
	if s := checkParameters(f.JSONSchema.Schema, "response_format.json_schema.schema"); f.JSONSchema.Strict {
		s.checkStrict("response_format.json_schema.schema")
	}
}

func readOpenAIMessages(q *openaiRequest, r *Request) {
	open := map[string]bool{} // calls without a result
	made := map[string]MadeCall{}
	const unanswered = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s"
	for i, raw := range q.Messages {
		where := fmt.Sprintf("messages[%d]", i)
		var m openaiMessage
		decode(raw, &m, where, "Additional properties are not allowed ('%s' was unexpected)")
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				refuse(where+".role", "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
			}
			delete(open, m.ToolCallID)
			r.result(made, m.ToolCallID, m.Content)
		} else if len(open) > 0 {
			refuse(where+".role", unanswered, ids(open))
		}
		m.check(where, open)
		for _, c := range m.ToolCalls {
			made[c.ID] = MadeCall{Name: c.Function.Name, Arguments: c.Function.Arguments}
		}
		if m.Role == "system" || m.Role == "developer" {
			r.System += text(m.Content)
		} else {
			r.Texts = append(r.Texts, text(m.Content)+callTexts(m.ToolCalls))
		}
		r.parts = append(r.parts, compact(raw))
	}
	if len(open) > 0 {
		refuse("messages", unanswered, ids(open))
	}
}

// check checks a message by itself, and adds its calls to open.
func (m *openaiMessage) check(where string, open map[string]bool) {
	if !slices.Contains([]string{"system", "developer", "user", "assistant", "tool"}, m.Role) {
		refuse(where+".role", "Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'tool' and 'developer'.", m.Role)
	}
	if len(m.ToolCalls) > 0 && m.Role != "assistant" {
		refuse(where+".tool_calls", "Additional properties are not allowed ('tool_calls' was unexpected)")
	}
	m.checkContent(where + ".content")
	for j, c := range m.ToolCalls {
		switch {
		case c.ID == "" || len(c.ID) > 40:
			refuse(where, "Invalid '%s.tool_calls[%d].id': string too long. Expected a string with maximum length 40.", where, j)
		case c.Type != "function" || !toolName.MatchString(c.Function.Name):
			refuse(where, "Invalid '%s.tool_calls[%d].function.name': string does not match pattern.", where, j)
		case open[c.ID]:
			refuse(where, "Duplicate tool_call_id '%s'.", c.ID)
		}
		open[c.ID] = true
	}
}

func (m *openaiMessage) checkContent(where string) {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		if len(m.ToolCalls) == 0 {
			refuse(where, "Invalid value for 'content': expected a string, got null.")
		}
		return
	}
	if string(m.Content) == "[]" {
		refuse(where, "Invalid '%s': empty array. Expected an array with minimum length 1.", where)
	}
	for _, part := range read[[]struct{ Type string }](m.Content) {
		if part.Type != "text" && m.Role != "user" {
			refuse(where, "Invalid content type. image_url and input_audio are only allowed for messages with role 'user'.")
		}
	}
}

func callTexts(calls []openaiToolCall) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "\n%s(%s)", c.Function.Name, c.Function.Arguments)
	}
	return b.String()
}

// text returns the text of a message's content, which is a string or a list of parts.
func text(content json.RawMessage) string {
	if plain := read[string](content); plain != "" {
		return plain
	}
	var texts []string
	for _, p := range read[[]struct {
		Text, Name     string
		Content, Input json.RawMessage
	}](content) {
		switch {
		case p.Name != "":
			texts = append(texts, p.Name+"("+compact(p.Input)+")")
		case p.Content != nil:
			texts = append(texts, text(p.Content))
		case p.Text != "":
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// openaiError returns the status and the body of an error.
func openaiError(p *problem) (int, any) {
	var code, param any
	if p.code != "" {
		code = p.code
	}
	if p.param != "" {
		param = p.param
	}
	return p.status, map[string]any{"error": map[string]any{"message": p.message, "type": p.kind, "param": param, "code": code}}
}

// openaiEvents returns an answer as a stream of events, and as one body.
func openaiEvents(model string, a *answer) (events []event, whole any) {
	finish := map[string]string{"": "stop", "length": "length", "refusal": "content_filter"}[a.stop]
	calls := make([]any, 0, len(a.calls))
	for _, c := range a.calls {
		calls = append(calls, map[string]any{"id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": c.arguments}})
	}
	if len(calls) > 0 && a.stop == "" {
		finish = "tool_calls"
	}
	usage := map[string]any{"prompt_tokens": a.usage.Input, "completion_tokens": a.usage.Output, "total_tokens": a.usage.Input + a.usage.Output,
		"prompt_tokens_details": map[string]any{"cached_tokens": a.usage.Cached}}
	completion := func(object string, usage any, choices ...any) map[string]any {
		return map[string]any{"id": "chatcmpl-1", "object": object, "created": 1, "model": model, "choices": append([]any{}, choices...), "usage": usage}
	}
	chunk := func(delta map[string]any, finish any) {
		events = append(events, event{"", completion("chat.completion.chunk", nil, map[string]any{"index": 0, "delta": delta, "finish_reason": finish})})
	}
	chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	for _, piece := range pieces(a.text) {
		chunk(map[string]any{"content": piece}, nil)
	}
	for i, c := range a.calls {
		chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": ""}}}}, nil)
		for _, piece := range pieces(c.arguments) {
			chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": piece}}}}, nil)
		}
	}
	chunk(map[string]any{}, finish)
	events = append(events, event{"", completion("chat.completion.chunk", usage)}, event{"", "[DONE]"})
	message := map[string]any{"role": "assistant", "content": a.text, "refusal": nil}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return events, completion("chat.completion", usage, map[string]any{"index": 0, "message": message, "finish_reason": finish})
}
