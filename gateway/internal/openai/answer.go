package openai

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/stream"
)

// completion is an answer of POST /chat/completions, or a chunk of a streamed one.
type completion struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Created int64          `json:"created"`
	Model   string         `json:"model"`
	Choices []choice       `json:"choices"`
	Usage   *usage         `json:"usage,omitzero"`
	Pawl    jsontext.Value `json:"pawl,omitzero"`
}

type choice struct {
	Index        int            `json:"index"`
	Message      *answerMessage `json:"message,omitzero"`
	Delta        *answerDelta   `json:"delta,omitzero"` // in chunks
	Logprobs     *struct{}      `json:"logprobs"`
	FinishReason *string        `json:"finish_reason"`
}

type answerMessage struct {
	Role             string     `json:"role"`
	Content          *string    `json:"content"`
	Refusal          *string    `json:"refusal"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCalls        []chatCall `json:"tool_calls,omitempty"`
}

type answerDelta struct {
	Role             string     `json:"role,omitempty"`
	Content          *string    `json:"content,omitzero"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCalls        []chatCall `json:"tool_calls,omitempty"`
}

type usage struct {
	PromptTokens     uint64 `json:"prompt_tokens"`
	CompletionTokens uint64 `json:"completion_tokens"`
	TotalTokens      uint64 `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens uint64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func newUsage(u *commonv1.Usage) *usage {
	out := &usage{PromptTokens: u.GetInputTokens(), CompletionTokens: u.GetOutputTokens(), TotalTokens: u.GetInputTokens() + u.GetOutputTokens()}
	out.PromptDetails.CachedTokens = u.GetCachedInputTokens()
	return out
}

// answer is what is known of an answer while it is read.
type answer struct {
	source  source
	id      string
	created int64
	model   string
	calls   int
	finish  string
	usage   *usage
	pawl    jsontext.Value
}

func newAnswer(model string, s source) *answer {
	return &answer{source: s, id: "chatcmpl-" + rand.Text(), created: time.Now().Unix(), model: model}
}

// read returns the part of the answer that a message adds.
func (a *answer) read(m proto.Message) (answerDelta, error) {
	p := a.source.read(m)
	a.model, a.finish = cmp.Or(p.model, a.model), cmp.Or(p.finish, a.finish)
	if p.usage != nil {
		a.usage = newUsage(p.usage)
	}
	if p.pawl != nil {
		a.pawl = p.pawl
	}
	d := answerDelta{ReasoningContent: p.note}
	if c := p.started; c != nil {
		d.ReasoningContent += "Calls " + c.tool + " " + c.input + "\n"
	}
	if c := p.ended; c != nil && c.failure != "" {
		d.ReasoningContent += c.tool + " failed: " + c.failure + "\n"
	}
	text := p.text
	if p.begins {
		text = "\n\n" + text
	}
	if p.asks != nil {
		text += p.asks.text
	}
	if text != "" {
		d.Content = &text
	}
	if c := p.call; c != nil {
		index := a.calls
		d.ToolCalls = []chatCall{{Index: &index, ID: c.GetId(), Type: "function", Function: functionCall{c.GetName(), c.GetInputJson()}}}
		a.calls++
	}
	return d, p.err
}

// finishReason returns why the answer ended.
func (a *answer) finishReason() *string {
	reason := cmp.Or(a.finish, "stop")
	return &reason
}

// whole makes the call and returns the answer in one piece. It sets the header that names the task, if a task answers.
func (a *answer) whole(ctx context.Context, call stream.Call, header http.Header) (*completion, error) {
	var text, reasoning strings.Builder
	message := &answerMessage{Role: "assistant"}
	err := call.Each(ctx, func(m proto.Message) error {
		if e, ok := m.(*executorv1.ExecutorEvent); ok {
			header.Set(stream.TaskIDHeader, e.GetTaskId())
		}
		d, err := a.read(m)
		if d.Content != nil {
			text.WriteString(*d.Content)
		}
		reasoning.WriteString(d.ReasoningContent)
		for _, c := range d.ToolCalls {
			c.Index = nil
			message.ToolCalls = append(message.ToolCalls, c)
		}
		return err
	})
	if err != nil && a.finish != "" { // the answer says what is missing to reach the goal
		e := errs.From(err)
		return nil, errs.New(e.Code, e.Reason, "%s\n\n%s", e.Message, text.String())
	}
	if err != nil {
		return nil, err
	}
	message.ReasoningContent = reasoning.String()
	if content := text.String(); content != "" || len(message.ToolCalls) == 0 {
		message.Content = &content
	}
	if a.usage == nil {
		a.usage = &usage{}
	}
	c := a.completion("chat.completion", choice{Message: message, FinishReason: a.finishReason()})
	c.Usage, c.Pawl = a.usage, a.pawl
	return c, nil
}

func (a *answer) completion(object string, choices ...choice) *completion {
	return &completion{ID: a.id, Object: object, Created: a.created, Model: a.model, Choices: choices}
}

// chunks frames an answer as the events of a streamed chat completion. It implements stream.Framing.
type chunks struct {
	*answer
	includeUsage bool
	failed       bool
}

// ContentType implements stream.Framing.
func (c *chunks) ContentType() string { return "text/event-stream" }

// Opening implements stream.Framing.
func (c *chunks) Opening() []byte {
	empty := ""
	return c.chunk(answerDelta{Role: "assistant", Content: &empty}, nil)
}

// Message implements stream.Framing.
func (c *chunks) Message(m proto.Message) ([]byte, error) {
	if c.failed {
		return nil, nil
	}
	d, err := c.read(m)
	var frame []byte
	if d.Content != nil || d.ReasoningContent != "" || d.ToolCalls != nil {
		frame = c.chunk(d, nil)
	}
	if err != nil {
		frame = append(frame, c.Failure(problem.From(err))...)
	}
	return frame, nil
}

// Heartbeat implements stream.Framing.
func (c *chunks) Heartbeat() []byte { return []byte(": keep-alive\n\n") }

// Failure implements stream.Framing. Clients take an event with `error` as the failure of the request.
func (c *chunks) Failure(p problem.Problem) []byte {
	c.failed = true
	_, e := fromProblem(p)
	return event(errorBody{e})
}

// Stopping implements stream.Framing.
func (c *chunks) Stopping(p problem.Problem) []byte { return c.Failure(p) }

// End implements stream.Framing.
func (c *chunks) End(stream.Summary) []byte {
	if c.failed {
		return nil
	}
	last := c.completion("chat.completion.chunk", choice{Delta: &answerDelta{}, FinishReason: c.finishReason()})
	last.Pawl = c.pawl
	frames := [][]byte{event(last)}
	if c.includeUsage {
		counted := c.completion("chat.completion.chunk")
		if counted.Usage = c.usage; c.usage == nil {
			counted.Usage = &usage{}
		}
		frames = append(frames, event(counted))
	}
	return bytes.Join(append(frames, []byte("data: [DONE]\n\n")), nil)
}

func (c *chunks) chunk(d answerDelta, finish *string) []byte {
	return event(c.completion("chat.completion.chunk", choice{Delta: &d, FinishReason: finish}))
}

// event frames a value as a server-sent event.
func event(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil { // as in write
		panic(err)
	}
	return bytes.Join([][]byte{[]byte("data: "), data, []byte("\n\n")}, nil)
}
