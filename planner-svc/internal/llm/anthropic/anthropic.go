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

// Generate implements llm.Model.
func (m *Model) Generate(ctx context.Context, r *llm.Request, emit func(string) error) (llm.Reply, error) {
	params, err := m.params(r)
	if err != nil {
		return llm.Reply{}, err
	}
	key, err := wire.Key(m.cfg.Key)
	if err != nil {
		return llm.Reply{}, err
	}
	var options []option.RequestOption
	if key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	stream := m.messages.NewStreaming(ctx, params, options...)
	defer func() { _ = stream.Close() }()
	reply, err := read(stream, emit)
	return reply, wire.End(ctx, err, failure, key)
}

// read takes the answer, whose end is an event of its own.
func read(stream *ssestream.Stream[anthropic.MessageStreamEventUnion], emit func(string) error) (llm.Reply, error) {
	var reply llm.Reply
	var stop anthropic.StopReason
	whole := false
	for stream.Next() {
		text := ""
		switch event := stream.Current(); event.Type {
		case "message_start":
			reply.Model = event.Message.Model
			usage := event.Message.Usage
			reply.InputTokens = wire.Tokens(usage.InputTokens + usage.CacheCreationInputTokens + usage.CacheReadInputTokens)
			reply.OutputTokens = wire.Tokens(usage.OutputTokens)
		case "content_block_start":
			text = event.ContentBlock.Text
		case "content_block_delta":
			text = event.Delta.Text
		case "message_delta":
			stop = event.Delta.StopReason
			reply.OutputTokens = max(reply.OutputTokens, wire.Tokens(event.Usage.OutputTokens))
		case "message_stop":
			whole = true
		}
		if err := wire.Emit(emit, text); err != nil {
			return reply, err
		}
	}
	if err := stream.Err(); err != nil {
		return reply, err
	}
	if !whole {
		return reply, &llm.Failure{Problem: llm.Broken, Message: "the answer broke off before its end"}
	}
	reply.Stop = stopOf(stop)
	return reply, nil
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
	return said.Failure(nil)
}
