package openai

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// chatRequest is the body of POST /chat/completions, as far as it is read.
type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools               []chatTool `json:"tools"`
	ToolChoice          toolChoice `json:"tool_choice"`
	ParallelToolCalls   *bool      `json:"parallel_tool_calls"`
	Temperature         *float64   `json:"temperature"`
	MaxTokens           uint32     `json:"max_tokens"`
	MaxCompletionTokens uint32     `json:"max_completion_tokens"`
	Stop                stops      `json:"stop"`
	ResponseFormat      struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema jsontext.Value `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Pawl pawlOptions `json:"pawl"`

	// These are refused, because a client that sets them expects what Pawl does not do.
	N                *int           `json:"n"`
	Logprobs         *bool          `json:"logprobs"`
	Modalities       []string       `json:"modalities"`
	Functions        jsontext.Value `json:"functions"`
	WebSearchOptions jsontext.Value `json:"web_search_options"`
}

// pawlOptions is what a request to Pawl may say beyond the OpenAI API.
type pawlOptions struct {
	McpIDs      []string `json:"mcp_ids"`
	OnApproval  string   `json:"on_approval"` // deny, task
	AutoExecute *bool    `json:"auto_execute"`

	Unknown map[string]jsontext.Value `json:",embed"` // refused: a misspelled member would change nothing, unnoticed
}

type chatMessage struct {
	path       string     // in the request
	Role       string     `json:"role"`
	Content    contents   `json:"content"`
	ToolCalls  []chatCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`
}

// chatCall is a call of a function, in requests and responses.
type chatCall struct {
	Index    *int         `json:"index,omitempty"` // in chunks
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatTool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

// function is a tool of the client.
type function struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  jsontext.Value `json:"parameters"`
}

// mcpHeader names the servers whose tools the model may call, for clients that can set a header but not a member of the body.
const mcpHeader = "Pawl-Mcp-Ids"

// complete refuses unknown members, and takes the servers from the header if the body names none.
func (o *pawlOptions) complete(header http.Header) error {
	for name := range o.Unknown {
		return invalid("pawl", "`pawl` has the unknown member %.50q; it may have `mcp_ids`, `on_approval` and `auto_execute`", name)
	}
	if len(o.McpIDs) > 0 {
		return nil
	}
	for id := range strings.SplitSeq(header.Get(mcpHeader), ",") {
		if id = strings.TrimSpace(id); id != "" {
			o.McpIDs = append(o.McpIDs, id)
		}
	}
	return nil
}

// isSet reports whether a member has a value.
func isSet(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// readChat reads a request.
func readChat(body []byte, header http.Header) (*chatRequest, error) {
	q := &chatRequest{}
	if err := decode(body, q); err != nil {
		return nil, err
	}
	if err := q.Pawl.complete(header); err != nil {
		return nil, err
	}
	for i := range q.Messages {
		q.Messages[i].path = at("messages", i)
	}
	switch {
	case q.Model == "":
		return nil, invalid("model", "you must provide a model; GET /openai/v1/models lists them")
	case len(q.Messages) == 0:
		return nil, invalid("messages", "`messages` is empty; send at least one message")
	case q.N != nil && *q.N != 1:
		return nil, invalid("n", "`n` is %d; a request gets one answer, so leave it out or send 1", *q.N)
	case q.Logprobs != nil && *q.Logprobs:
		return nil, invalid("logprobs", "`logprobs` is not offered; leave it out")
	case slices.ContainsFunc(q.Modalities, func(m string) bool { return m != "text" }):
		return nil, invalid("modalities", "`modalities` may only hold \"text\"")
	case isSet(q.Functions):
		return nil, invalid("functions", "`functions` is deprecated; send `tools`")
	case isSet(q.WebSearchOptions):
		return nil, invalid("web_search_options", "`web_search_options` is not offered; name an MCP server that searches in `pawl.mcp_ids`")
	}
	return q, nil
}

// completion returns the request for a model.
func (q *chatRequest) completion() (*pipelinev1.CompleteRequest, error) {
	in := &pipelinev1.CompleteRequest{
		Model: q.Model, McpIds: q.Pawl.McpIDs, ToolChoiceName: q.ToolChoice.name, Temperature: q.Temperature,
		MaxOutputTokens: q.MaxTokens, StopSequences: q.Stop,
	}
	if q.MaxCompletionTokens > 0 {
		in.MaxOutputTokens = q.MaxCompletionTokens
	}
	var known bool
	if in.OnApproval, known = approvals[q.Pawl.OnApproval]; !known {
		return nil, invalid("pawl.on_approval", "`pawl.on_approval` is %.50q; it may be \"deny\" or \"task\"", q.Pawl.OnApproval)
	}
	if in.ToolChoice, known = toolChoices[q.ToolChoice.mode]; !known {
		return nil, invalid("tool_choice", "`tool_choice` is %.50q; it may be \"auto\", \"none\", \"required\" or an object that names a function", q.ToolChoice.mode)
	}
	if err := q.addTools(in); err != nil {
		return nil, err
	}
	switch f := &q.ResponseFormat; f.Type {
	case "", "text":
	case "json_object":
		in.OutputSchemaJson = `{"type":"object"}`
	case "json_schema":
		if f.JSONSchema.Schema.Kind() != '{' {
			return nil, invalid("response_format.json_schema.schema", "`response_format.json_schema.schema` has to be an object: the JSON Schema of the answer")
		}
		in.OutputSchemaJson = string(f.JSONSchema.Schema)
	default:
		return nil, invalid("response_format.type", "`response_format.type` is %.50q; it may be \"text\", \"json_object\" or \"json_schema\"", f.Type)
	}
	return in, q.addMessages(in)
}

var approvals = map[string]pipelinev1.OnApproval{
	"": pipelinev1.OnApproval_ON_APPROVAL_DENY, "deny": pipelinev1.OnApproval_ON_APPROVAL_DENY, "task": pipelinev1.OnApproval_ON_APPROVAL_TASK,
}

var toolChoices = map[string]plannerv1.ModelToolChoice{
	"":     plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_UNSPECIFIED,
	"auto": plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_AUTO, "none": plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE,
	"required": plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED,
}

func (q *chatRequest) addTools(in *pipelinev1.CompleteRequest) error {
	for i, t := range q.Tools {
		if t.Type != "function" {
			return invalid(at("tools", i)+".type", "`tools[%d].type` is %.50q; only tools of the type \"function\" can be offered to the model", i, t.Type)
		}
		schema := string(t.Function.Parameters)
		if t.Function.Parameters.Kind() == 'n' {
			schema = ""
		}
		in.Tools = append(in.Tools, &plannerv1.ModelTool{Name: t.Function.Name, Description: t.Function.Description, InputSchemaJson: schema})
	}
	return nil
}

// addMessages translates the conversation. Models get instructions before the conversation only, so messages of the system and of the developer are joined
// there, in their order.
func (q *chatRequest) addMessages(in *pipelinev1.CompleteRequest) error {
	var system []string
	for _, m := range q.Messages {
		parts, err := m.parts()
		if err != nil {
			return err
		}
		switch m.Role {
		case "system", "developer":
			if text := m.Content.text(); text != "" {
				system = append(system, text)
			}
			continue
		case "tool":
			if last := len(in.Messages) - 1; last >= 0 && in.GetMessages()[last].GetParts()[0].GetToolResult() != nil {
				in.Messages[last].Parts = append(in.Messages[last].Parts, parts...) // the results of one round are one message
				continue
			}
		}
		if len(parts) > 0 {
			in.Messages = append(in.Messages, &plannerv1.ModelMessage{Role: roles[m.Role], Parts: parts})
		}
	}
	in.System = strings.Join(system, "\n\n")
	if len(in.Messages) == 0 {
		if i := slices.IndexFunc(q.Messages, func(m chatMessage) bool { return m.Role == "user" }); i >= 0 {
			return q.Messages[i].empty()
		}
		return invalid("messages", "`messages` has no text of the user; send at least one message with the role \"user\"")
	}
	return nil
}

var roles = map[string]plannerv1.ModelRole{
	"user": plannerv1.ModelRole_MODEL_ROLE_USER, "tool": plannerv1.ModelRole_MODEL_ROLE_USER, "assistant": plannerv1.ModelRole_MODEL_ROLE_ASSISTANT,
}

// empty returns the error for a message of the user without content.
func (m *chatMessage) empty() error {
	return invalid(m.path+".content", "`%s.content` is empty; send a text", m.path)
}

// parts returns the parts of the message. Empty texts are left out, because providers refuse them.
func (m *chatMessage) parts() ([]*plannerv1.ModelPart, error) {
	if !slices.Contains([]string{"system", "developer", "user", "assistant", "tool"}, m.Role) {
		return nil, invalid(m.path+".role", "`%s.role` is %.50q; it may be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"", m.path, m.Role)
	}
	var parts []*plannerv1.ModelPart
	for j, c := range m.Content {
		part, err := c.part()
		switch {
		case err != "":
			return nil, invalid(m.path+".content", "`%s.content[%d]` cannot be used: %s", m.path, j, err)
		case part.GetText() == "" && part.GetImage() == nil && part.GetAudio() == nil:
		case m.Role != "user" && part.GetText() == "":
			return nil, invalid(m.path+".content", "`%s.content[%d]` is a picture or sound; only the user can send one", m.path, j)
		default:
			parts = append(parts, part)
		}
	}
	if m.Role == "tool" {
		result := &plannerv1.ModelToolResult{CallId: m.ToolCallID, Text: m.Content.text()}
		return []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_ToolResult{ToolResult: result}}}, nil
	}
	for j, c := range m.ToolCalls {
		if m.Role != "assistant" || c.Type != "function" {
			return nil, invalid(m.path+".tool_calls", "`%s.tool_calls[%d]` has to be a call of the type \"function\" in a message of the assistant", m.path, j)
		}
		call := &plannerv1.ModelToolCall{Id: c.ID, Name: c.Function.Name, InputJson: c.Function.Arguments}
		parts = append(parts, &plannerv1.ModelPart{Part: &plannerv1.ModelPart_ToolCall{ToolCall: call}})
	}
	return parts, nil
}

// part returns the part, or why it cannot be used.
func (c *contentPart) part() (_ *plannerv1.ModelPart, problem string) {
	switch c.Type {
	case "text", "input_text", "output_text":
		return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Text{Text: c.Text}}, ""
	case "refusal":
		return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Text{Text: c.Refusal}}, ""
	case "image_url", "input_image":
		kind, encoded, found := strings.Cut(strings.TrimPrefix(string(c.ImageURL), "data:"), ";base64,")
		data, err := base64.StdEncoding.DecodeString(encoded)
		if !found || !strings.HasPrefix(string(c.ImageURL), "data:") || err != nil {
			return nil, "pictures are sent as data URLs, data:image/png;base64,…; Pawl loads none from addresses"
		}
		return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Image{Image: &plannerv1.ModelMedia{MimeType: kind, Data: data}}}, ""
	case "input_audio":
		kind := map[string]string{"wav": "audio/wav", "mp3": "audio/mpeg"}[c.InputAudio.Format]
		data, err := base64.StdEncoding.DecodeString(c.InputAudio.Data)
		if kind == "" || err != nil {
			return nil, `sound is sent in base64, with the format "wav" or "mp3"`
		}
		return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Audio{Audio: &plannerv1.ModelMedia{MimeType: kind, Data: data}}}, ""
	}
	return nil, `it may have the type "text", "image_url" or "input_audio"`
}

// text returns the texts of the parts.
func (c contents) text() string {
	texts := make([]string, len(c))
	for i, part := range c {
		texts[i] = part.Text
	}
	return strings.Join(texts, "\n")
}
