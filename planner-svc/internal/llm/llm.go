package llm

import "context"

// Model is one language model of a provider. It may be used by several goroutines.
type Model interface {
	// Generate answers a conversation: emit gets the text as it comes, in pieces that are not empty. An error of emit ends the answer
	// and is returned as it is; so is the end of ctx. All others are *Failure. Usage is right also where an error is returned, as
	// far as the provider said.
	Generate(ctx context.Context, r *Request, emit func(text string) error) (Reply, error)
}

// Role is who says something.
type Role int

// The roles.
const (
	User Role = iota
	Assistant
)

// Request is what a model is asked.
type Request struct {
	System      string // may be empty
	Messages    []Message
	MaxTokens   int      // of the answer
	Temperature *float64 // nil: the provider's
	Stop        []string // texts that end the answer
}

// Message is a turn of the conversation.
type Message struct {
	Role  Role
	Parts []Part
}

// Part is text, or where it has bytes, a picture or sound.
type Part struct {
	Text string
	Kind Kind
	MIME string
	Data []byte
}

// Kind is what a part is.
type Kind int

// The kinds.
const (
	Text Kind = iota
	Image
	Audio
)

// Stop is why an answer ended.
type Stop int

// The reasons.
const (
	StopEnd Stop = iota
	StopMaxTokens
	StopSequence
	StopRefused
)

// Reply is how an answer ended.
type Reply struct {
	Stop         Stop
	Model        string // the provider's name of what answered
	InputTokens  uint64
	OutputTokens uint64
}
