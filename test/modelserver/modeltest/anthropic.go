package modeltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// anthropicRequest is the request of a message. It has only the fields that Pawl sends; others are rejected.
type anthropicRequest struct {
	Model         string            `json:"model"`
	MaxTokens     int               `json:"max_tokens"`
	System        json.RawMessage   `json:"system"`
	Messages      []json.RawMessage `json:"messages"`
	Tools         []json.RawMessage `json:"tools"`
	ToolChoice    json.RawMessage   `json:"tool_choice"`
	StopSequences []string          `json:"stop_sequences"`
	Temperature   *float64          `json:"temperature"`
	Stream        bool              `json:"stream"`
}

type cacheControl struct {
	Type string `json:"type"`
}

type anthropicTool struct {
	Type         string          `json:"type"`
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control"`
}

type anthropicBlock struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	Source       json.RawMessage `json:"source,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	Content      json.RawMessage `json:"content,omitempty"`
	IsError      bool            `json:"is_error,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

const extraInput = "%s: Extra inputs are not permitted"

// readAnthropic checks a request as Anthropic does, and fills in r.
func (s *Script) readAnthropic(r *Request) {
	if key := r.Header.Get("X-Api-Key"); key == "" || s.Key != "" && key != s.Key {
		panic(&problem{status: 401, kind: "authentication_error", message: "invalid x-api-key"})
	}
	if r.Header.Get("Anthropic-Version") == "" {
		refuse("", "anthropic-version: header is required")
	}
	var q anthropicRequest
	decode(r.Body, &q, "body", extraInput)
	r.Stream, r.maxTokens = q.Stream, q.MaxTokens
	if q.Model == "" || s.Model != "" && q.Model != s.Model {
		panic(&problem{status: 404, kind: "not_found_error", message: "model: " + q.Model})
	}
	checkAnthropicOptions(&q)
	readAnthropicTools(&q, r)
	readAnthropicSystem(&q, r)
	readAnthropicMessages(&q, r)
	if len(r.breakpoints) > 4 {
		refuse("", "A maximum of 4 blocks with cache_control may be provided. Found %d.", len(r.breakpoints))
	}
}

func checkAnthropicOptions(q *anthropicRequest) {
	switch {
	case q.MaxTokens < 1:
		refuse("", "max_tokens: Field required")
	case len(q.Messages) == 0:
		refuse("", "messages: at least one message is required")
	case q.Temperature != nil && (*q.Temperature < 0 || *q.Temperature > 1):
		refuse("", "temperature: range: 0..1")
	case slices.ContainsFunc(q.StopSequences, func(s string) bool { return strings.TrimSpace(s) == "" }):
		refuse("", "stop_sequences: each stop sequence must contain non-whitespace")
	}
}

func readAnthropicTools(q *anthropicRequest, r *Request) {
	for i, raw := range q.Tools {
		where := fmt.Sprintf("tools.%d", i)
		var t anthropicTool
		decode(raw, &t, where, where+"."+extraInput)
		if !toolName.MatchString(t.Name) {
			refuse("", "%s.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", where)
		}
		if slices.Contains(r.Tools, t.Name) {
			refuse("", "tools: Tool names must be unique.")
		}
		s := checkParameters(t.InputSchema, where+".input_schema")
		for name := range read[map[string]json.RawMessage](s["properties"]) {
			if !propertyName.MatchString(name) {
				refuse("", "%s.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", where)
			}
		}
		r.Tools = append(r.Tools, t.Name)
		r.add(raw, t.CacheControl)
	}
	choice := read[struct{ Type, Name string }](q.ToolChoice)
	switch {
	case q.ToolChoice == nil:
	case len(q.Tools) == 0:
		refuse("", "tool_choice: may only be specified while providing tools")
	case !slices.Contains([]string{"auto", "any", "none", "tool"}, choice.Type):
		refuse("", "tool_choice: Input tag '%s' found does not match any of the expected tags: 'auto', 'any', 'tool', 'none'", choice.Type)
	case choice.Type == "tool" && !slices.Contains(r.Tools, choice.Name):
		refuse("", "Tool '%s' not found in provided tools", choice.Name)
	case choice.Type == "tool":
		r.Format = choice.Name
	}
}

func readAnthropicSystem(q *anthropicRequest, r *Request) {
	r.System = text(q.System)
	if read[string](q.System) != "" {
		r.add(q.System, nil)
	}
	for i, raw := range read[[]json.RawMessage](q.System) {
		var b anthropicBlock
		decode(raw, &b, "system", fmt.Sprintf("system.%d.", i)+extraInput)
		if b.Type != "text" || strings.TrimSpace(b.Text) == "" {
			refuse("", "system: text content blocks must be non-empty")
		}
		r.add(raw, b.CacheControl)
	}
}

// add adds a block to the prompt, and a breakpoint after the block if cache is not nil.
func (r *Request) add(raw json.RawMessage, cache *cacheControl) {
	if fields := read[map[string]json.RawMessage](raw); fields != nil {
		delete(fields, "cache_control") // not part of the cached text
		raw, _ = json.Marshal(fields)
	}
	r.parts = append(r.parts, compact(raw))
	if cache != nil {
		r.breakpoints = append(r.breakpoints, len(r.parts))
	}
}

func readAnthropicMessages(q *anthropicRequest, r *Request) {
	open := map[string]bool{} // calls without a result
	used := map[string]bool{}
	made := map[string]MadeCall{}
	role := ""
	for i, raw := range q.Messages {
		where := fmt.Sprintf("messages.%d", i)
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		decode(raw, &m, where, where+"."+extraInput)
		switch {
		case m.Role != "user" && m.Role != "assistant":
			refuse("", "%s.role: Input should be 'user' or 'assistant'", where)
		case i == 0 && m.Role != "user":
			refuse("", "messages: first message must use the \"user\" role")
		case len(open) > 0 && (m.Role != "user" || role != "assistant"):
			missingResults(where, open)
		}
		role = m.Role
		resultsDue := len(open) > 0
		r.addContent(m.Content, where, m.Role, open, used, made)
		if resultsDue && len(open) > 0 {
			missingResults(where, open)
		}
	}
	switch {
	case len(open) > 0:
		missingResults(fmt.Sprintf("messages.%d", len(q.Messages)-1), open)
	case len(used) > 0 && len(q.Tools) == 0:
		refuse("", "Requests which include `tool_use` or `tool_result` blocks must define tools")
	}
}

// addContent checks a message's content and adds it to the prompt. open holds the ids of calls without a result, used those of all calls, and
// made the calls.
func (r *Request) addContent(content json.RawMessage, where, role string, open, used map[string]bool, made map[string]MadeCall) {
	blocks := read[[]json.RawMessage](content)
	if plain := read[string](content); plain != "" {
		block, _ := json.Marshal(anthropicBlock{Type: "text", Text: plain})
		blocks = append(blocks, block)
	}
	if len(blocks) == 0 {
		refuse("", "%s: all messages must have non-empty content except for the optional final assistant message", where)
	}
	r.Texts = append(r.Texts, text(content))
	for j, raw := range blocks {
		where := fmt.Sprintf("%s.content.%d", where, j)
		var b anthropicBlock
		decode(raw, &b, where, where+"."+extraInput)
		b.check(where, role, open, used)
		switch b.Type {
		case "tool_use":
			made[b.ID] = MadeCall{Name: b.Name, Arguments: compact(b.Input)}
		case "tool_result":
			r.result(made, b.ToolUseID, b.Content)
		}
		r.add(raw, b.CacheControl)
	}
}

func missingResults(where string, open map[string]bool) {
	refuse("", "%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", where, ids(open))
}

func (b *anthropicBlock) check(where, role string, open, used map[string]bool) {
	switch role + " " + b.Type {
	case "user text", "assistant text":
		if strings.TrimSpace(b.Text) == "" {
			refuse("", "%s: text content blocks must contain non-whitespace text", where)
		}
		if role == "user" && len(open) > 0 {
			refuse("", "%s: `tool_result` blocks must come before other content in the message after their `tool_use` blocks", where)
		}
	case "user image":
	case "assistant tool_use":
		b.checkCall(where, used)
		open[b.ID], used[b.ID] = true, true
	case "user tool_result":
		if !open[b.ToolUseID] {
			refuse("", "%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", where, b.ToolUseID)
		}
		delete(open, b.ToolUseID)
	default:
		refuse("", "%s: a block of type '%s' is not allowed for the role '%s'", where, b.Type, role)
	}
}

func (b *anthropicBlock) checkCall(where string, used map[string]bool) {
	switch {
	case !callID.MatchString(b.ID) || used[b.ID]:
		refuse("", "%s.id: `tool_use` ids must be unique and match pattern '^[a-zA-Z0-9_-]+$'", where)
	case !toolName.MatchString(b.Name):
		refuse("", "%s.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", where)
	case read[map[string]json.RawMessage](b.Input) == nil:
		refuse("", "%s.input: Input should be a valid dictionary", where)
	}
}

// anthropicError returns the status and the body of an error.
func anthropicError(p *problem) (int, any) {
	kind := p.kind
	switch p.status {
	case 429:
		kind = "rate_limit_error"
	case 529:
		kind = "overloaded_error"
	case 500, 502, 503:
		kind = "api_error"
	}
	return p.status, map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": p.message}}
}

// anthropicEvents returns an answer as a stream of events, and as one body. written is how many tokens the request wrote to the cache.
func anthropicEvents(model string, a *answer, written int) (events []event, whole any) {
	stop := map[string]string{"": "end_turn", "length": "max_tokens", "refusal": "refusal"}[a.stop]
	if len(a.calls) > 0 && a.stop == "" {
		stop = "tool_use"
	}
	usage := map[string]any{"input_tokens": a.usage.Input - a.usage.Cached - written, "cache_read_input_tokens": a.usage.Cached,
		"cache_creation_input_tokens": written, "output_tokens": a.usage.Output}
	add := func(kind string, fields map[string]any) {
		fields["type"] = kind
		events = append(events, event{kind, fields})
	}
	message := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}
	add("message_start", map[string]any{"message": message})
	add("ping", map[string]any{})
	var content []any
	block := func(start, full map[string]any, delta, field, value string) {
		i := len(content)
		content = append(content, full)
		add("content_block_start", map[string]any{"index": i, "content_block": start})
		for _, piece := range pieces(value) {
			add("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": delta, field: piece}})
		}
		add("content_block_stop", map[string]any{"index": i})
	}
	if a.text != "" {
		block(map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text", "text": a.text}, "text_delta", "text", a.text)
	}
	for _, c := range a.calls {
		block(map[string]any{"type": "tool_use", "id": c.id, "name": c.name, "input": map[string]any{}},
			map[string]any{"type": "tool_use", "id": c.id, "name": c.name, "input": json.RawMessage(c.arguments)}, "input_json_delta", "partial_json", c.arguments)
	}
	add("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": a.usage.Output}})
	add("message_stop", map[string]any{})
	return events, map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": content, "stop_reason": stop, "stop_sequence": nil, "usage": usage}
}
