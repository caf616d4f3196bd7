package openai

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
)

// responseRequest is the body of POST /responses, as far as it is read.
type responseRequest struct {
	Model              string            `json:"model"`
	Input              inputItems        `json:"input"`
	Instructions       *string           `json:"instructions"`
	PreviousResponseID string            `json:"previous_response_id"`
	Stream             bool              `json:"stream"`
	Background         bool              `json:"background"`
	Tools              []responseTool    `json:"tools"`
	ToolChoice         toolChoice        `json:"tool_choice"`
	ParallelToolCalls  *bool             `json:"parallel_tool_calls"`
	Temperature        *float64          `json:"temperature"`
	TopP               *float64          `json:"top_p"`
	MaxOutputTokens    *uint32           `json:"max_output_tokens"`
	MaxToolCalls       uint32            `json:"max_tool_calls"`
	Metadata           map[string]string `json:"metadata"`
	Text               struct {
		Format struct {
			Type   string         `json:"type"`
			Schema jsontext.Value `json:"schema"`
		} `json:"format"`
	} `json:"text"`
	Pawl pawlOptions `json:"pawl"`

	// These are refused, because a client that sets them expects what Pawl does not do.
	Conversation jsontext.Value `json:"conversation"`
	Prompt       jsontext.Value `json:"prompt"`
	TopLogprobs  int            `json:"top_logprobs"`

	echo struct { // members that the response repeats as they are
		Text       jsontext.Value `json:"text"`
		ToolChoice jsontext.Value `json:"tool_choice"`
		Tools      jsontext.Value `json:"tools"`
	}
}

// inputItems are what a response is asked about: a text, or an array of items.
type inputItems []inputItem

// inputItem is a message, a call of a function or its result, or an answer to a request for an approval. Other items of earlier responses are not read.
type inputItem struct {
	Type              string   `json:"type"`
	Role              string   `json:"role"`
	Content           contents `json:"content"`
	CallID            string   `json:"call_id"`
	Name              string   `json:"name"`
	Arguments         string   `json:"arguments"`
	Output            contents `json:"output"`
	ApprovalRequestID string   `json:"approval_request_id"`
	Approve           *bool    `json:"approve"`
	Reason            string   `json:"reason"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (in *inputItems) UnmarshalJSON(data []byte) error {
	switch jsontext.Value(data).Kind() {
	case 'n':
		return nil
	case '"':
		item := inputItem{Type: "message", Role: "user"}
		err := json.Unmarshal(data, &item.Content)
		*in = inputItems{item}
		return err
	case '[':
		return json.Unmarshal(data, (*[]inputItem)(in))
	}
	return errors.New("it has to be a string or an array of items")
}

// responseTool is a function of the client, or an MCP server.
type responseTool struct {
	Type string `json:"type"`
	function

	ServerLabel     string         `json:"server_label"`
	AllowedTools    allowedTools   `json:"allowed_tools"`
	RequireApproval jsontext.Value `json:"require_approval"`
	// How to reach a server, which Pawl knows itself.
	ServerURL     string            `json:"server_url"`
	ConnectorID   string            `json:"connector_id"`
	TunnelID      string            `json:"tunnel_id"`
	Authorization string            `json:"authorization"`
	Headers       map[string]string `json:"headers"`
}

// allowedTools names tools of a server: an array, or an object with it.
type allowedTools []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *allowedTools) UnmarshalJSON(data []byte) error {
	var filter struct {
		ToolNames []string `json:"tool_names"`
		ReadOnly  *bool    `json:"read_only"`
	}
	switch jsontext.Value(data).Kind() {
	case 'n':
		return nil
	case '[':
		return json.Unmarshal(data, (*[]string)(a))
	}
	if err := json.Unmarshal(data, &filter); err != nil || filter.ReadOnly != nil || len(filter.ToolNames) == 0 {
		return errors.New("it has to be an array of names of tools")
	}
	*a = filter.ToolNames
	return nil
}

// readResponse reads a request.
func readResponse(body []byte, header http.Header) (*responseRequest, error) {
	q := &responseRequest{}
	if err := decode(body, q); err != nil {
		return nil, err
	}
	if err := decode(body, &q.echo); err != nil {
		return nil, err
	}
	if err := q.Pawl.complete(header); err != nil {
		return nil, err
	}
	switch {
	case len(q.Input) == 0:
		return nil, invalid("input", "`input` is empty; send a text or at least one item")
	case q.Model == "" && q.Input[len(q.Input)-1].Type != "mcp_approval_response":
		return nil, invalid("model", "you must provide a model; GET /openai/v1/models lists them")
	case isSet(q.Conversation):
		return nil, invalid("conversation", "`conversation` is not offered; continue with `previous_response_id`, or send the whole conversation in `input`")
	case isSet(q.Prompt):
		return nil, invalid("prompt", "`prompt` is not offered; send the text in `instructions` and `input`")
	case q.TopLogprobs > 0:
		return nil, invalid("top_logprobs", "`top_logprobs` is not offered; leave it out")
	}
	return q, q.readTools()
}

// readTools checks the tools, and adds the servers to those that the model may use.
func (q *responseRequest) readTools() error {
	for i, t := range q.Tools {
		path := at("tools", i)
		switch {
		case t.Type == "function":
			continue
		case t.Type != "mcp":
			return invalid(path+".type", "`%s.type` is %.50q; only the types \"function\" and \"mcp\" are offered", path, t.Type)
		case t.ServerURL != "" || t.ConnectorID != "" || t.TunnelID != "" || t.Authorization != "" || len(t.Headers) > 0:
			return invalid(path, "`%s` says how to reach an MCP server; Pawl calls servers that are registered with it: register this one once, by `pawl mcp add` or POST /v1/mcpServers, "+
				"and send only its id as `server_label`", path)
		case t.ServerLabel == "":
			return invalid(path+".server_label", "`%s.server_label` has to be the id of an MCP server that is registered with Pawl (`pawl mcp list`)", path)
		}
		if approval := string(t.RequireApproval); isSet(t.RequireApproval) && approval != `"always"` && approval != `"never"` {
			return invalid(path+".require_approval", "`%s.require_approval` may be \"always\" or \"never\"", path)
		}
		if !slices.Contains(q.Pawl.McpIDs, t.ServerLabel) {
			q.Pawl.McpIDs = append(q.Pawl.McpIDs, t.ServerLabel)
		}
	}
	return nil
}

// chat returns the request as one for a chat completion. The messages before come before its own.
func (q *responseRequest) chat(before []chatMessage) (*chatRequest, error) {
	c := &chatRequest{Model: q.Model, Temperature: q.Temperature, ToolChoice: q.ToolChoice, Pawl: q.Pawl}
	if q.MaxOutputTokens != nil {
		c.MaxTokens = *q.MaxOutputTokens
	}
	c.ResponseFormat.Type, c.ResponseFormat.JSONSchema.Schema = q.Text.Format.Type, q.Text.Format.Schema
	for _, t := range q.Tools {
		if t.Type == "function" {
			c.Tools = append(c.Tools, chatTool{t.Type, t.function})
		}
	}
	if q.Instructions != nil {
		c.Messages = append(c.Messages, textMessage("system", *q.Instructions))
	}
	c.Messages = append(c.Messages, before...)
	for i := range q.Input {
		if err := q.Input[i].addTo(c, at("input", i)); err != nil {
			return nil, err
		}
	}
	if len(c.Messages) == 0 {
		return nil, invalid("input", "`input` has no message; send at least one")
	}
	return c, nil
}

func textMessage(role, text string) chatMessage {
	return chatMessage{Role: role, Content: contents{{Type: "text", Text: text}}}
}

// addTo adds the item to the messages of a request.
func (item *inputItem) addTo(c *chatRequest, path string) error {
	switch item.Type {
	case "", "message":
		c.Messages = append(c.Messages, chatMessage{path: path, Role: item.Role, Content: item.Content})
	case "function_call":
		last := len(c.Messages) - 1
		if last < 0 || c.Messages[last].Role != "assistant" { // the calls of one reply are one message
			c.Messages = append(c.Messages, chatMessage{path: path, Role: "assistant"})
			last++
		}
		call := chatCall{ID: item.CallID, Type: "function", Function: functionCall{item.Name, item.Arguments}}
		c.Messages[last].ToolCalls = append(c.Messages[last].ToolCalls, call)
	case "function_call_output":
		c.Messages = append(c.Messages, chatMessage{path: path, Role: "tool", Content: item.Output, ToolCallID: item.CallID})
	case "item_reference":
		return invalid(path+".type", "`%s` refers to an item of an earlier response, and responses of models are not stored; send the item itself (programs do so if `store` is false)", path)
	case "reasoning", "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response":
	default:
		return invalid(path+".type", "`%s.type` is %.50q; it may be \"message\", \"function_call\" or \"function_call_output\"", path, item.Type)
	}
	return nil
}

// answers returns the answers to requests for approvals, which are all of one task, and the index of the first of the latest ones: those before it
// are of earlier responses.
func (q *responseRequest) answers() (answers []*executorv1.ResumeTaskRequest, latest int, err error) {
	for i, item := range q.Input {
		switch item.Type {
		case "mcp_approval_response":
		case "mcp_approval_request":
			continue
		default: // it is of earlier responses
			latest = len(answers)
			continue
		}
		path := at("input", i)
		id, wait, ok := parseApprovalID(item.ApprovalRequestID)
		switch {
		case !ok || len(answers) > 0 && answers[0].GetId() != id:
			return nil, 0, invalid(path+".approval_request_id", "`%s.approval_request_id` has to be the id of an item of the type \"mcp_approval_request\", all of one task", path)
		case item.Approve == nil:
			return nil, 0, invalid(path+".approve", "`%s.approve` has to be given, as a boolean", path)
		}
		answer := &executorv1.ResumeTaskRequest{Id: id, WaitId: wait, Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}}
		if !*item.Approve {
			answer.Answer = &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: item.Reason}}
		}
		answers = append(answers, answer)
	}
	return answers, latest, nil
}

// completion returns the request for a model.
func (q *responseRequest) completion(before []chatMessage) (*pipelinev1.CompleteRequest, error) {
	c, err := q.chat(before)
	if err != nil {
		return nil, err
	}
	in, err := c.completion()
	if err != nil {
		return nil, err
	}
	in.Limits = &pipelinev1.CompletionLimits{MaxToolCalls: min(q.MaxToolCalls, 1000)}
	restricted := map[string]bool{}
	for i, t := range q.Tools {
		if t.Type == "mcp" && string(t.RequireApproval) == `"always"` {
			path := at("tools", i) + ".require_approval"
			return nil, invalid(path, "`%s` cannot be \"always\", because this request waits for no person; set `background`, choose an agent, or leave it out: tools that do more than read are then refused", path)
		}
		for _, name := range t.AllowedTools {
			restricted[t.ServerLabel] = true
			in.AllowedToolIds = append(in.AllowedToolIds, t.ServerLabel+"/"+name)
		}
	}
	if len(restricted) > 0 && len(restricted) < len(in.GetMcpIds()) {
		return nil, invalid("tools", "`allowed_tools` has to be set for all MCP servers of the request, or for none")
	}
	return in, nil
}

// newTask returns the request for the task that answers an agent's response, or a response in the background.
func (q *responseRequest) newTask(before []chatMessage, header http.Header) (*executorv1.RunTaskRequest, error) {
	agent, isAgent := strings.CutPrefix(q.Model, agentPrefix)
	if !isAgent {
		agent = ""
	}
	c, err := q.chat(before)
	if err != nil {
		return nil, err
	}
	run, err := c.task(agent, header)
	if err != nil {
		return nil, err
	}
	task := run.GetTask()
	task.Budget = &executorv1.Budget{MaxToolCalls: q.MaxToolCalls}
	if !isAgent {
		if task.Model = q.Model; len(task.GetMcpIds()) == 0 {
			return nil, invalid("tools", "a response in the background is a task, which needs MCP servers: name them by tools of the type \"mcp\", or choose an agent as the model")
		}
		if task.AutoExecute == nil {
			byRisk := true
			task.AutoExecute = &byRisk
		}
	}
	for i, t := range q.Tools {
		switch {
		case len(t.AllowedTools) > 0:
			path := at("tools", i) + ".allowed_tools"
			return nil, invalid(path, "`%s` is not offered for tasks, which are agents and responses in the background; leave it out", path)
		case string(t.RequireApproval) == `"always"`:
			task.AutoExecute = new(bool)
		}
	}
	return run, nil
}

// response returns the response before anything is known of it but the request.
func (q *responseRequest) response() *response {
	r := newResponse()
	r.Model, r.Instructions, r.MaxOutputTokens, r.Temperature, r.TopP = q.Model, q.Instructions, q.MaxOutputTokens, q.Temperature, q.TopP
	r.Background = q.Background
	r.ParallelToolCalls = q.ParallelToolCalls == nil || *q.ParallelToolCalls
	if q.PreviousResponseID != "" {
		r.PreviousResponseID = &q.PreviousResponseID
	}
	if q.Metadata != nil {
		r.Metadata = q.Metadata
	}
	for _, m := range []struct{ to, from *jsontext.Value }{{&r.Text, &q.echo.Text}, {&r.ToolChoice, &q.echo.ToolChoice}, {&r.Tools, &q.echo.Tools}} {
		if isSet(*m.from) {
			*m.to = *m.from
		}
	}
	return r
}
