package anthropic

import (
	"context"
	"errors"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

// Config is a model at an address.
type Config struct {
	Model   string
	BaseURL string                 // "": Anthropic itself
	Key     func() (string, error) // asked for each request, since keys change
	Retries int                    // of requests that did not come to an answer
	HTTP    *http.Client
	Info    llm.Info
}

// Model implements llm.Model.
type Model struct {
	cfg      Config
	messages anthropic.MessageService
}

// New makes a model. Nothing is asked before the first request.
func New(cfg Config) *Model {
	// Not the SDK's client: that would take keys, addresses and profiles from the environment, and send them wherever this leads.
	options := []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithHTTPClient(cfg.HTTP), option.WithMaxRetries(cfg.Retries),
	}
	if cfg.BaseURL != "" {
		options = append(options, option.WithBaseURL(cfg.BaseURL))
	}
	return &Model{cfg: cfg, messages: anthropic.NewMessageService(options...)}
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.cfg.Info }

// Generate implements llm.Model.
func (m *Model) Generate(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	reply := &llm.Reply{}
	params, err := m.params(r)
	if err != nil {
		return reply, err
	}
	key, err := wire.Key(m.cfg.Key)
	if err != nil {
		return reply, err
	}
	var options []option.RequestOption
	if key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	stream := m.messages.NewStreaming(ctx, params, options...)
	defer func() { _ = stream.Close() }()
	reply.Usage.Requests = 1
	err = read(stream, reply, func(text string) error {
		reply.Text += text
		if onDelta == nil {
			return nil
		}
		return onDelta(llm.Delta{Text: text})
	})
	return reply, wire.End(ctx, err, failure, key)
}

// read takes the answer, whose end is an event of its own.
func read(stream *ssestream.Stream[anthropic.MessageStreamEventUnion], reply *llm.Reply, emit func(string) error) error {
	var stop anthropic.StopReason
	whole := false
	for stream.Next() {
		text := ""
		switch event := stream.Current(); event.Type {
		case "message_start":
			reply.Model = event.Message.Model
			usage := event.Message.Usage
			reply.Usage.Input = wire.Tokens(usage.InputTokens + usage.CacheCreationInputTokens + usage.CacheReadInputTokens)
			reply.Usage.Output = wire.Tokens(usage.OutputTokens)
		case "content_block_start":
			text = event.ContentBlock.Text
		case "content_block_delta":
			text = event.Delta.Text
		case "message_delta":
			stop = event.Delta.StopReason
			reply.Usage.Output = max(reply.Usage.Output, wire.Tokens(event.Usage.OutputTokens))
		case "message_stop":
			whole = true
		}
		if err := wire.Emit(emit, text); err != nil {
			return err
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	if !whole {
		return &llm.Error{Class: llm.Broken, Message: "the answer broke off before its end"}
	}
	reply.Stop = stopOf(stop)
	return nil
}

func stopOf(reason anthropic.StopReason) llm.Stop {
	switch reason {
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		return llm.StopMaxTokens
	case anthropic.StopReasonStopSequence:
		return llm.StopSequence
	case anthropic.StopReasonRefusal:
		return llm.StopRefused
	}
	return llm.StopEnd
}

// failure reads an error of the SDK. Its own text has the address, and the whole answer.
func failure(err error) error {
	var answered *anthropic.Error
	if !errors.As(err, &answered) {
		return err
	}
	said := readError(answered.RawJSON())
	var header http.Header
	if said.Status = answered.StatusCode; said.Status == http.StatusOK {
		said.Status = 0 // in the middle of a stream
	} else if answered.Response != nil {
		header = answered.Response.Header
	}
	said.Header = header
	return said.Error(nil)
}
