package openai

import (
	"context"
	"errors"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

// Config is a model at an address.
type Config struct {
	Model   string
	BaseURL string                 // "": OpenAI itself
	Key     func() (string, error) // "" where none is wanted; asked for each request, since keys change
	Retries int                    // of requests that did not come to an answer
	HTTP    *http.Client
	Info    llm.Info
}

// Model implements llm.Model.
type Model struct {
	cfg   Config
	chat  openai.ChatCompletionService
	owned bool // it is OpenAI's, not only compatible
}

// New makes a model. Nothing is asked before the first request.
func New(cfg Config) *Model {
	// Not the SDK's client: that would take keys and addresses from the environment, and send them wherever this leads.
	options := []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithHTTPClient(cfg.HTTP), option.WithMaxRetries(cfg.Retries),
	}
	if cfg.BaseURL != "" {
		options = append(options, option.WithBaseURL(cfg.BaseURL))
	}
	return &Model{cfg: cfg, chat: openai.NewChatCompletionService(options...), owned: cfg.BaseURL == ""}
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
	stream := m.chat.NewStreaming(ctx, params, options...)
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

// read takes the answer. The stream's end alone does not tell a whole answer from one that broke off: its reason to stop does.
func read(stream *ssestream.Stream[openai.ChatCompletionChunk], reply *llm.Reply, emit func(string) error) error {
	finish, refused := "", false
	for stream.Next() {
		chunk := stream.Current()
		if chunk.Model != "" {
			reply.Model = chunk.Model
		}
		if chunk.JSON.Usage.Valid() {
			reply.Usage.Input, reply.Usage.Output = wire.Tokens(chunk.Usage.PromptTokens), wire.Tokens(chunk.Usage.CompletionTokens)
		}
		for _, choice := range chunk.Choices {
			if choice.Index != 0 {
				continue
			}
			refused = refused || choice.Delta.Refusal != ""
			if choice.FinishReason != "" {
				finish = choice.FinishReason
			}
			for _, text := range []string{choice.Delta.Content, choice.Delta.Refusal} {
				if err := wire.Emit(emit, text); err != nil {
					return err
				}
			}
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	if finish == "" {
		return &llm.Error{Class: llm.Broken, Message: "the answer broke off before its end"}
	}
	reply.Stop = stopOf(finish, refused)
	return nil
}

func stopOf(finish string, refused bool) llm.Stop {
	switch {
	case finish == "content_filter", refused:
		return llm.StopRefused
	case finish == "length":
		return llm.StopMaxTokens
	}
	return llm.StopEnd
}

// failure reads an error of the SDK.
func failure(err error) error {
	var answered *openai.Error
	if errors.As(err, &answered) {
		var header http.Header
		if answered.Response != nil {
			header = answered.Response.Header
		}
		return wire.ErrorAnswer{Status: answered.StatusCode, Type: answered.Type, Code: answered.Code, Message: answered.Message, Header: header}.Error(err)
	}
	var inside *ssestream.StreamError
	if errors.As(err, &inside) {
		return readInside(inside.Event.Data).Error(err)
	}
	return err
}

// params is a request as the wire has it.
func (m *Model) params(r *llm.Request) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{Model: m.cfg.Model}
	p.StreamOptions.IncludeUsage = param.NewOpt(true)
	// OpenAI's own newer models refuse the older name, and others do not know the newer one.
	if limit := param.NewOpt(int64(r.MaxTokens)); m.owned {
		p.MaxCompletionTokens = limit
	} else {
		p.MaxTokens = limit
	}
	if r.Temperature != nil {
		p.Temperature = param.NewOpt(*r.Temperature)
	}
	if len(r.Stop) > 0 {
		p.Stop.OfStringArray = r.Stop
	}
	if r.System != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(r.System))
	}
	for _, message := range r.Messages {
		turn, err := turnOf(message)
		if err != nil {
			return p, err
		}
		p.Messages = append(p.Messages, turn)
	}
	return p, nil
}
