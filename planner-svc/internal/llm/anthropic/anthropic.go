package anthropic

import (
	"context"
	"net/http"
	"strings"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

const (
	ownURL  = "https://api.anthropic.com"
	version = "2023-06-01"
)

// Model implements llm.Model.
type Model struct {
	cfg wire.Config
	url string
}

// New makes a model. It sends nothing before the first request.
func New(cfg wire.Config) *Model {
	base := cfg.BaseURL
	if base == "" {
		base = ownURL
	}
	base = strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")
	return &Model{cfg: cfg, url: base + "/v1/messages"}
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.cfg.Info }

// Generate implements llm.Model.
func (m *Model) Generate(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	body, err := m.request(r)
	if err != nil {
		return &llm.Reply{}, err
	}
	newDecoder := func(a *wire.Answer) wire.Decoder {
		return (&decoder{Answer: a, byTool: body.forced, calls: map[int]int{}}).event
	}
	return wire.Generate(ctx, &m.cfg, m.url, header, body, newDecoder, onDelta)
}

func header(h http.Header, c wire.Credentials) {
	h.Set("Anthropic-Version", version)
	if c.Key != "" {
		h.Set("X-Api-Key", c.Key)
	}
}
