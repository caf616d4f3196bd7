// Package anthropic implements models over Anthropic's messages.
package anthropic

import (
	"cmp"
	"net/http"
	"strings"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

const (
	ownURL  = "https://api.anthropic.com"
	version = "2023-06-01"
)

// New makes a model. It sends nothing before the first request.
func New(cfg wire.Config) *wire.Model {
	base := strings.TrimSuffix(strings.TrimRight(cmp.Or(cfg.BaseURL, ownURL), "/"), "/v1")
	return &wire.Model{
		Config: cfg, URL: base + "/v1/messages",
		Header: func(h http.Header, c wire.Credentials) {
			h.Set("Anthropic-Version", version)
			if c.Key != "" {
				h.Set("X-Api-Key", c.Key)
			}
		},
		Encode: func(r *llm.Request) (any, func(*wire.Answer) wire.Decoder, error) {
			body, err := encode(&cfg.Info, r)
			return body, func(a *wire.Answer) wire.Decoder {
				return (&decoder{Answer: a, byTool: r.Output != nil, calls: map[int]int{}}).event
			}, err
		},
	}
}
