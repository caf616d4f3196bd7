package llm

import "context"

// Model is one language model of a provider. It is safe for concurrent use.
type Model interface {
	// Info describes the model. It is constant.
	Info() Info
	// Generate answers a request. onDelta gets the reply piece by piece as it arrives and may be nil; its error ends the reply and is
	// returned as it is, and so is the end of ctx, which closes the connection to the provider. All other errors wrap an *Error.
	//
	// The reply is never nil. With an error it holds what arrived before it, and its usage counts every request sent.
	Generate(ctx context.Context, r *Request, onDelta func(Delta) error) (*Reply, error)
}

// Info describes a model.
type Info struct {
	Name          string // configured name
	Description   string // for people
	Provider      string // "openai", "anthropic" or "ollama"
	ProviderModel string // the provider's name of it

	Tools  bool // takes Request.Tools and replies with tool calls
	Schema SchemaSupport
	Images bool

	ContextWindow int    // tokens of prompt and reply together; 0 if unknown
	MaxTokens     int    // upper bound of Request.MaxTokens, and its default
	Price         *Price // nil if unknown
}

// SchemaSupport says how a model keeps to Request.Output.
type SchemaSupport int

const (
	// SchemaInPrompt means that Request.Output is not sent: the caller has to put the schema into the prompt.
	SchemaInPrompt SchemaSupport = iota
	// SchemaNative means that the provider takes the schema as the response format.
	SchemaNative
	// SchemaByTool means that the schema is sent as the only tool, whose call is forced. Its arguments become the reply's text.
	// Such a request may have no other tools.
	SchemaByTool
)

// Request is one question to a model.
type Request struct {
	System   string    // instructions before the conversation; may be empty
	Messages []Message // oldest first; consecutive messages of one role are allowed

	Tools      []Tool
	ToolChoice ToolChoice

	Output *Output // the reply's text must be JSON of this schema; nil if it is free text

	MaxTokens   int      // of the reply; 0 for the model's maximum
	Temperature *float64 // nil for the provider's default
	Stop        []string // texts that end the reply
	MaxRequests uint32   // to providers, repetitions and fallbacks included; 0 for no limit
	MaxPrice    *Price   // of a fallback, since the cost was reserved at this price; nil for no limit

	// CacheKey names requests with a common prefix, such as a task's, so that the provider can route them to the same cache.
	CacheKey string
	// CachePrefix tells the provider that later requests repeat the tools and the system text. See also Message.CacheHere.
	CachePrefix bool
}

// Role is the author of a message.
type Role int

// The roles. Tool results are parts of user messages.
const (
	User Role = iota
	Assistant
)

// Message is a turn of the conversation.
type Message struct {
	Role  Role
	Parts []Part
	// CacheHere tells the provider that later requests repeat everything up to the end of this message. Only the last three count.
	CacheHere bool
}

// Kind is the kind of a part.
type Kind int

// The kinds. An assistant's message may hold text and tool calls, a user's everything but tool calls.
const (
	Text       Kind = iota // Text
	Image                  // MIME and Data
	Audio                  // MIME and Data
	CallPart               // Call
	ResultPart             // Result
)

// Part is a piece of a message.
type Part struct {
	Kind   Kind
	Text   string
	MIME   string
	Data   []byte
	Call   ToolCall
	Result ToolResult
}

// UserText returns a user's message of one text.
func UserText(text string) Message { return Message{Role: User, Parts: []Part{{Text: text}}} }

// AssistantText returns an assistant's message of one text.
func AssistantText(text string) Message { return Message{Role: Assistant, Parts: []Part{{Text: text}}} }

// Tool is a function that the model may call.
type Tool struct {
	Name        string // matches ^[A-Za-z0-9_-]{1,64}$
	Description string
	Parameters  string // JSON Schema of an object
}

// ToolCall is a call that the model wants.
type ToolCall struct {
	ID        string // unique within the conversation; may hold characters that only its provider takes
	Name      string
	Arguments string // as the model wrote it: mostly, but not certainly, a JSON object
}

// ToolResult answers a ToolCall. It must be in the message directly after it.
type ToolResult struct {
	CallID  string
	Text    string
	IsError bool
}

// ToolChoice says whether the model may or must call tools.
type ToolChoice int

// The choices.
const (
	ToolsAuto     ToolChoice = iota // the model decides
	ToolsNone                       // it must not call any
	ToolsRequired                   // it must call at least one
)

// Output is the form of a structured reply.
type Output struct {
	Name   string // matches ^[A-Za-z0-9_-]{1,64}$
	Schema string // JSON Schema of an object
}

// Delta is a piece of a reply while it arrives: more text, or the beginning of a tool call, which the reply has when it is whole.
type Delta struct {
	Text string
	Call bool
}

// Stop is the reason why a reply ended.
type Stop int

// The reasons. Their order is that of the contract's StopReason.
const (
	StopEnd Stop = iota
	StopMaxTokens
	StopSequence
	StopRefused
	StopToolUse
)

// Reply is a model's answer.
type Reply struct {
	Text  string
	Calls []ToolCall
	Stop  Stop
	Name  string // configured name of the model that answered: the requested one or its fallback
	Model string // the provider's name of it, as the provider gave it
	Usage Usage
}

// Message returns the reply as the assistant's message of the following request.
func (r *Reply) Message() Message {
	m := Message{Role: Assistant}
	if r.Text != "" {
		m.Parts = append(m.Parts, Part{Text: r.Text})
	}
	for _, c := range r.Calls {
		m.Parts = append(m.Parts, Part{Kind: CallPart, Call: c})
	}
	return m
}
