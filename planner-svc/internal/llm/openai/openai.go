package openai

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

const ownURL = "https://api.openai.com/v1"

// Model implements llm.Model.
type Model struct {
	cfg wire.Config
	url string
	own bool // it is OpenAI's, not only compatible
}

// New makes a model. It sends nothing before the first request.
func New(cfg wire.Config) *Model {
	base := cfg.BaseURL
	if base == "" {
		base = ownURL
	}
	u, err := url.Parse(base)
	return &Model{cfg: cfg, url: strings.TrimRight(base, "/") + "/chat/completions", own: err == nil && u.Hostname() == "api.openai.com"}
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.cfg.Info }

// Generate implements llm.Model.
func (m *Model) Generate(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	body, err := m.request(r)
	if err != nil {
		return &llm.Reply{}, err
	}
	decoder := func(a *wire.Answer) wire.Decoder { return (&decoder{Answer: a, calls: map[int]int{}}).event }
	return wire.Generate(ctx, &m.cfg, m.url, m.header, body, decoder, onDelta)
}

func (m *Model) header(h http.Header, c wire.Credentials) {
	if c.Key != "" {
		h.Set("Authorization", "Bearer "+c.Key)
	}
	if m.cfg.Organization != "" {
		h.Set("OpenAI-Organization", m.cfg.Organization)
	}
}
