package openai

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// response is the object of the Responses API.
type response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	Status             string             `json:"status"`
	Background         bool               `json:"background"`
	Error              *responseError     `json:"error"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	MaxOutputTokens    *uint32            `json:"max_output_tokens"`
	Model              string             `json:"model"`
	Output             []any              `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Store              bool               `json:"store"`
	Temperature        *float64           `json:"temperature"`
	TopP               *float64           `json:"top_p"`
	Text               jsontext.Value     `json:"text"`
	ToolChoice         jsontext.Value     `json:"tool_choice"`
	Tools              jsontext.Value     `json:"tools"`
	Truncation         string             `json:"truncation"`
	Usage              *responseUsage     `json:"usage"`
	Metadata           map[string]string  `json:"metadata"`
	Pawl               jsontext.Value     `json:"pawl,omitzero"`
}

// The statuses of responses and their items.
const (
	statusQueued     = "queued"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	InputTokens  uint64 `json:"input_tokens"`
	InputDetails struct {
		CachedTokens     uint64 `json:"cached_tokens"`
		CacheWriteTokens uint64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  uint64 `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens uint64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens uint64 `json:"total_tokens"`
}

func newResponseUsage(u *commonv1.Usage) *responseUsage {
	out := &responseUsage{InputTokens: u.GetInputTokens(), OutputTokens: u.GetOutputTokens(), TotalTokens: u.GetInputTokens() + u.GetOutputTokens()}
	out.InputDetails.CachedTokens = u.GetCachedInputTokens()
	return out
}

// newResponse returns a response without the parameters of a request.
func newResponse() *response {
	return &response{
		Object: "response", Status: statusInProgress, Output: []any{}, ParallelToolCalls: true, Store: true, Truncation: "disabled",
		Text: jsontext.Value(`{"format":{"type":"text"}}`), ToolChoice: jsontext.Value(`"auto"`), Tools: jsontext.Value(`[]`), Metadata: map[string]string{},
	}
}

// textPart is a part of a message, or of what is told of the work on a response.
type textPart struct {
	Type        string      `json:"type"` // output_text, summary_text, input_text
	Text        string      `json:"text"`
	Annotations *[]struct{} `json:"annotations,omitzero"`
	Logprobs    *[]struct{} `json:"logprobs,omitzero"`
}

type messageItem struct {
	Type    string     `json:"type"` // message
	ID      string     `json:"id"`
	Status  string     `json:"status"`
	Role    string     `json:"role"`
	Content []textPart `json:"content"`
}

type reasoningItem struct {
	Type    string     `json:"type"` // reasoning
	ID      string     `json:"id"`
	Summary []textPart `json:"summary"`
}

// functionItem is a call of a function of the client.
type functionItem struct {
	Type      string `json:"type"` // function_call
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Status    string `json:"status"`
}

// mcpItem is a call of a tool of an MCP server.
type mcpItem struct {
	Type              string    `json:"type"` // mcp_call
	ID                string    `json:"id"`
	ServerLabel       string    `json:"server_label"`
	Name              string    `json:"name"`
	Arguments         string    `json:"arguments"`
	ApprovalRequestID *string   `json:"approval_request_id"`
	Output            *string   `json:"output"`
	Error             *mcpError `json:"error"`
	Status            string    `json:"status"`
}

type mcpError struct {
	Type    string     `json:"type"` // mcp_tool_execution_error
	Content []textPart `json:"content"`
}

// approvalItem asks whether a tool may be called.
type approvalItem struct {
	Type        string `json:"type"` // mcp_approval_request
	ID          string `json:"id"`
	ServerLabel string `json:"server_label"`
	Name        string `json:"name"`
	Arguments   string `json:"arguments"`
}

// responseID names a response that a task answers.
type responseID struct {
	task string // a UUID
	// after is the seq of the task's last event before the response, which has the events after it: all in the background, else those until the task
	// waits for a person.
	after      uint64
	background bool
}

const idPrefix = "resp_"

// String returns the id as clients see it.
func (r responseID) String() string {
	kind := "f"
	if r.background {
		kind = "b"
	}
	return idPrefix + kind + strings.ReplaceAll(r.task, "-", "") + "_" + strconv.FormatUint(r.after, 10)
}

var (
	responseIDs = regexp.MustCompile(`^resp_([fb])([0-9a-f]{32})_(0|[1-9]\d{0,17})$`)
	approvalIDs = regexp.MustCompile(`^mcpr_([0-9a-f]{32})_(.+)$`)
)

// parseResponseID reads an id. It fails for ids of responses that no task answers.
func parseResponseID(id string) (r responseID, ok bool) {
	m := responseIDs.FindStringSubmatch(id)
	if m == nil {
		return r, false
	}
	after, err := strconv.ParseUint(m[3], 10, 64)
	return responseID{task: uuid.MustParse(m[2]).String(), after: after, background: m[1] == "b"}, err == nil
}

// approvalID names the request for an approval by a task's wait.
func approvalID(task, wait string) string {
	return "mcpr_" + strings.ReplaceAll(task, "-", "") + "_" + wait
}

// parseApprovalID reads the id of a request for an approval.
func parseApprovalID(id string) (task, wait string, ok bool) {
	m := approvalIDs.FindStringSubmatch(id)
	if m == nil {
		return "", "", false
	}
	return uuid.MustParse(m[1]).String(), m[2], true
}
