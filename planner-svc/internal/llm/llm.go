// Package llm defines language models, and requests, replies, usage and errors that are independent of any provider. Its client speaks the
// providers' formats over HTTP, with retries and with bounds on time and size. Messages and tools are those of the contract. The package knows
// nothing of tasks and MCP.
package llm

import (
	"context"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// Model is one language model of a provider. It is safe for concurrent use.
type Model interface {
	// Info describes the model. It is constant.
	Info() Info
	// Generate answers a request. onDelta receives the reply piece by piece as it arrives; it may be nil. An error of onDelta ends the reply and is
	// returned unchanged. If ctx ends, the connection to the provider is closed and the cause returned. Errors of providers and networks wrap an *Error.
	//
	// The reply is never nil. With an error, it holds the part that arrived before the error. Its usage counts every request sent.
	Generate(ctx context.Context, r *Request, onDelta func(Delta) error) (*Reply, error)
}

// The providers.
const (
	ProviderOpenAI    = "openai"
	ProviderAnthropic = "anthropic"
	ProviderOllama    = "ollama"
)

// Info describes a model.
type Info struct {
	Name          string // configured name
	Description   string // for people
	Provider      string // ProviderAnthropic has its own format; all others use chat completions
	ProviderModel string // the provider's name of the model

	Tools  bool // takes Request.Tools and replies with tool calls
	Schema bool // takes Request.Output; if not, the caller has to put the schema into the prompt
	Images bool // takes pictures

	ContextWindow int    // tokens of prompt and reply together; 0 if unknown
	MaxTokens     int    // upper bound of Request.MaxTokens, and its default
	Price         *Price // nil if unknown
}

// Request is one question to a model.
type Request struct {
	System string // instructions before the conversation; may be empty
	// Messages are the conversation, oldest first; consecutive messages of one role are allowed. An assistant's message holds text and tool
	// calls, a user's message everything but tool calls.
	Messages []*plannerv1.ModelMessage

	Tools      []*plannerv1.ModelTool
	ToolChoice plannerv1.ModelToolChoice

	// Output is the schema of the reply's text, which is then JSON; nil for free text. With an Output, Tools must be empty, because some providers
	// get the schema as a tool.
	Output *Output

	// Restart is called if a request fails temporarily after onDelta got a part of the reply. The request is repeated only if Restart reports that
	// it dropped that part. It may be nil.
	Restart func() bool

	MaxTokens   int      // of the reply; 0 for the model's maximum
	Temperature *float64 // nil for the provider's default
	Stop        []string // texts that end the reply
	MaxRequests uint32   // to providers, repetitions and fallbacks included; 0 for no limit
	MaxPrice    *Price   // of a fallback, because the cost was reserved at this price; nil for no limit

	// CacheKey names requests that repeat the tools and the system text, such as a task's, so that the provider can cache them.
	CacheKey string
	// CacheHere holds indexes of messages. Later requests repeat everything up to the end of each of these messages. Only the last three count.
	CacheHere []int
}

// UserText returns a user's message of one text.
func UserText(text string) *plannerv1.ModelMessage {
	return Message(plannerv1.ModelRole_MODEL_ROLE_USER, &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Text{Text: text}})
}

// AssistantText returns an assistant's message of one text.
func AssistantText(text string) *plannerv1.ModelMessage {
	return Message(plannerv1.ModelRole_MODEL_ROLE_ASSISTANT, &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Text{Text: text}})
}

// Message returns a message of a role.
func Message(role plannerv1.ModelRole, parts ...*plannerv1.ModelPart) *plannerv1.ModelMessage {
	return &plannerv1.ModelMessage{Role: role, Parts: parts}
}

// Call returns a tool call as a part of a message.
func Call(c *plannerv1.ModelToolCall) *plannerv1.ModelPart {
	return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_ToolCall{ToolCall: c}}
}

// Result returns the answer to a tool call as a part of a message. The message must directly follow the message of the call.
func Result(r *plannerv1.ModelToolResult) *plannerv1.ModelPart {
	return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_ToolResult{ToolResult: r}}
}

// Output describes a structured reply.
type Output struct {
	Name   string // matches ^[A-Za-z0-9_-]{1,64}$
	Schema string // JSON Schema of an object
}

// Delta is a piece of a reply while it arrives: more text, or the beginning of a tool call.
type Delta struct {
	Text string
	Call bool
}

// Reply is a model's answer.
type Reply struct {
	Text  string
	Calls []*plannerv1.ModelToolCall
	Stop  plannerv1.StopReason
	Name  string // configured name of the model that answered: the requested one or its fallback
	Model string // the model's name as the provider returned it
	Usage Usage
}

// Message returns the reply as the assistant's message of the following request.
func (r *Reply) Message() *plannerv1.ModelMessage {
	m := Message(plannerv1.ModelRole_MODEL_ROLE_ASSISTANT)
	if r.Text != "" {
		m = AssistantText(r.Text)
	}
	for _, c := range r.Calls {
		m.Parts = append(m.Parts, Call(c))
	}
	return m
}

// roles maps the roles of messages to the names that all providers use.
var roles = map[plannerv1.ModelRole]string{plannerv1.ModelRole_MODEL_ROLE_USER: "user", plannerv1.ModelRole_MODEL_ROLE_ASSISTANT: "assistant"}
