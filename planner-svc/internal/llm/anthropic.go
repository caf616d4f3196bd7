package llm

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"
)

// anthropicMessages is Anthropic's format.
var anthropicMessages = format{
	url: func(base string) string {
		return strings.TrimSuffix(strings.TrimRight(cmp.Or(base, "https://api.anthropic.com"), "/"), "/v1") + "/v1/messages"
	},
	headers:   map[string]string{"Anthropic-Version": "2023-06-01"},
	keyHeader: "X-Api-Key",
	encode:    encodeMessages,
	decode:    decodeMessages,
}

// maxCachedMessages is how many messages can end a cached prefix: the provider accepts 4 breakpoints, and the prefix of tools and system
// text needs one.
const maxCachedMessages = 3

type messagesRequest struct {
	Model         string            `json:"model"`
	MaxTokens     int               `json:"max_tokens"`
	System        []object          `json:"system,omitempty"`
	Messages      []messagesMessage `json:"messages"`
	Tools         []object          `json:"tools,omitempty"`
	ToolChoice    object            `json:"tool_choice,omitempty"`
	StopSequences []string          `json:"stop_sequences,omitempty"`
	Temperature   *float64          `json:"temperature,omitempty"`
	Stream        bool              `json:"stream"`
}

// ephemeral marks the end of a cached prefix.
var ephemeral = object{"type": "ephemeral"}

type messagesMessage struct {
	Role    string   `json:"role"`
	Content []object `json:"content"` // blocks: text, image, tool_use or tool_result
}

// encodeMessages returns a request in the format of the messages API.
func encodeMessages(c *Config, r *Request) (any, error) {
	q := &messagesRequest{Model: c.Info.ProviderModel, MaxTokens: r.MaxTokens, StopSequences: slices.DeleteFunc(slices.Clone(r.Stop), blank), Stream: true}
	if r.Temperature != nil {
		t := min(*r.Temperature, 1) // other providers go to 2
		q.Temperature = &t
	}
	if r.System != "" {
		q.System = []object{{"type": "text", "text": r.System}}
		if r.CacheKey != "" {
			q.System[0]["cache_control"] = ephemeral
		}
	}
	if err := q.setTools(r); err != nil {
		return nil, err
	}
	return q, q.setMessages(r)
}

func (q *messagesRequest) setTools(r *Request) error {
	tools := r.Tools
	switch o := r.Output; {
	case o != nil && len(tools) > 0:
		return errorf(BadRequest, "a request to this provider may have either tools or a schema of the reply, not both")
	case o != nil: // the reply's schema is the only tool, whose call is forced
		tools = []*plannerv1.ModelTool{{Name: o.Name, Description: "Gives the answer.", InputSchemaJson: o.Schema}}
		q.ToolChoice = object{"type": "tool", "name": o.Name, "disable_parallel_tool_use": true}
	case len(tools) > 0 && r.ToolChoice == plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE:
		q.ToolChoice = object{"type": "none"}
	case len(tools) > 0 && r.ToolChoice == plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED:
		q.ToolChoice = object{"type": "any"}
	}
	for _, t := range tools {
		schema, err := parameters(t.GetName(), t.GetInputSchemaJson(), propertyName.MatchString)
		if err != nil {
			return err
		}
		tool := object{"name": t.GetName(), "input_schema": json.RawMessage(schema.String())}
		if t.GetDescription() != "" {
			tool["description"] = t.GetDescription()
		}
		q.Tools = append(q.Tools, tool)
	}
	return nil
}

// propertyName matches the property names that the provider accepts. Any other name fails the whole request.
var propertyName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// setMessages sets the messages. It joins consecutive messages of a role, because tool results must be in the message after their calls.
func (q *messagesRequest) setMessages(r *Request) error {
	var cached []object // ends of cached prefixes
	for i, m := range r.Messages {
		blocks, err := messagesBlocks(m)
		if err != nil {
			return err
		}
		if len(blocks) == 0 {
			continue
		}
		if n, role := len(q.Messages), roles[m.GetRole()]; n == 0 || q.Messages[n-1].Role != role {
			q.Messages = append(q.Messages, messagesMessage{Role: role})
		}
		last := &q.Messages[len(q.Messages)-1]
		last.Content = append(last.Content, blocks...)
		if slices.Contains(r.CacheHere, i) {
			cached = append(cached, blocks[len(blocks)-1])
		}
	}
	for _, block := range cached[max(0, len(cached)-maxCachedMessages):] {
		block["cache_control"] = ephemeral
	}
	return nil
}

// messagesBlocks returns a message's content, tool results first and without empty texts, which the provider rejects.
func messagesBlocks(m *plannerv1.ModelMessage) ([]object, error) {
	var results, others []object
	for _, p := range m.GetParts() {
		switch part := p.GetPart().(type) {
		case *plannerv1.ModelPart_ToolResult:
			r := part.ToolResult
			results = append(results, object{"type": "tool_result", "tool_use_id": r.GetCallId(), "content": r.GetText(), "is_error": r.GetIsError()})
		case *plannerv1.ModelPart_ToolCall:
			c := part.ToolCall
			others = append(others, object{"type": "tool_use", "id": c.GetId(), "name": c.GetName(), "input": callInput(c.GetInputJson())})
		case *plannerv1.ModelPart_Audio:
			return nil, errorf(BadRequest, "this provider does not accept sound; choose another model, or send text")
		case *plannerv1.ModelPart_Image:
			kind := part.Image.GetMimeType()
			if !slices.Contains(imageTypes, kind) {
				return nil, errorf(BadRequest, "this provider does not accept pictures of the type %.60q; send one of %s", kind, strings.Join(imageTypes, ", "))
			}
			data := base64.StdEncoding.EncodeToString(part.Image.GetData())
			others = append(others, object{"type": "image", "source": object{"type": "base64", "media_type": kind, "data": data}})
		default:
			if !blank(p.GetText()) {
				others = append(others, object{"type": "text", "text": p.GetText()})
			}
		}
	}
	return append(results, others...), nil
}

var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// callInput returns the arguments of a call as an object, which the provider requires. Other text becomes a member of an object.
func callInput(arguments string) json.RawMessage {
	if o, err := strictjson.ParseObject(arguments); err == nil {
		return json.RawMessage(o.String())
	}
	return json.RawMessage(`{"arguments":` + strictjson.Quote(arguments) + "}")
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// messagesEvent is an event of an answer. Its type determines its fields.
type messagesEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Model string        `json:"model"`
		Usage messagesUsage `json:"usage"`
	} `json:"message"`
	ContentBlock struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage messagesUsage `json:"usage"`
}

// messagesUsage counts tokens. Absent counts are nil.
type messagesUsage struct {
	Input      *uint64 `json:"input_tokens"`
	CacheWrite *uint64 `json:"cache_creation_input_tokens"`
	CacheRead  *uint64 `json:"cache_read_input_tokens"`
	Output     *uint64 `json:"output_tokens"`
}

func decodeMessages(a *answer, data []byte) error {
	var e messagesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return errorf(Broken, "a piece of its answer is not the JSON of a message: %v", err)
	}
	switch block := e.ContentBlock; e.Type {
	case "error":
		return providerError(data, 0, nil)
	case "message_start":
		a.reply.Model = e.Message.Model
		e.Message.Usage.applyTo(&a.reply.Usage)
	case "content_block_start":
		if block.Type != "tool_use" {
			return a.addText(block.Text)
		}
		input := strings.TrimSpace(string(block.Input)) // some compatible servers send it at once
		if input == "{}" || input == "null" {
			input = ""
		}
		return a.addCall(e.Index, block.ID, block.Name, input)
	case "content_block_delta":
		if e.Delta.PartialJSON != "" {
			return a.addCall(e.Index, "", "", e.Delta.PartialJSON)
		}
		return a.addText(e.Delta.Text)
	case "message_delta":
		e.Usage.applyTo(&a.reply.Usage)
		a.reported = e.Usage.Output != nil
		a.stop(messagesStops[e.Delta.StopReason])
	}
	return nil
}

// applyTo replaces the counts of r by those that u has. The provider sends totals, and its input count excludes cached tokens.
func (u messagesUsage) applyTo(r *Usage) {
	plain := r.Input - r.CacheWrite - r.CachedInput
	for _, c := range []struct{ from, to *uint64 }{{u.Input, &plain}, {u.CacheWrite, &r.CacheWrite}, {u.CacheRead, &r.CachedInput}, {u.Output, &r.Output}} {
		if c.from != nil {
			*c.to = *c.from
		}
	}
	r.Input = plain + r.CacheWrite + r.CachedInput
}

// messagesStops maps the provider's stop reasons. answer.stop derives those that are not listed.
var messagesStops = map[string]plannerv1.StopReason{
	"max_tokens": plannerv1.StopReason_STOP_REASON_MAX_TOKENS, "model_context_window_exceeded": plannerv1.StopReason_STOP_REASON_MAX_TOKENS,
	"stop_sequence": plannerv1.StopReason_STOP_REASON_STOP_SEQUENCE, "refusal": plannerv1.StopReason_STOP_REASON_REFUSED,
}
