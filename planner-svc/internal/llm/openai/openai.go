// Package openai implements models over OpenAI's chat completions, which many providers and programs offer at their own address: vLLM,
// Ollama, DeepSeek, Qwen, Gemini's compatible endpoint and others.
package openai

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

const ownURL = "https://api.openai.com/v1"

// New makes a model. It sends nothing before the first request.
func New(cfg wire.Config) *wire.Model {
	base := cmp.Or(cfg.BaseURL, ownURL)
	u, err := url.Parse(base)
	own := err == nil && u.Hostname() == "api.openai.com" // not only compatible
	return &wire.Model{
		Config: cfg, URL: strings.TrimRight(base, "/") + "/chat/completions",
		Header: func(h http.Header, c wire.Credentials) {
			if c.Key != "" {
				h.Set("Authorization", "Bearer "+c.Key)
			}
			if cfg.Organization != "" {
				h.Set("OpenAI-Organization", cfg.Organization)
			}
		},
		Encode: func(r *llm.Request) (any, func(*wire.Answer) wire.Decoder, error) {
			body, err := encode(&cfg.Info, own, r)
			return body, func(a *wire.Answer) wire.Decoder { return (&decoder{Answer: a, calls: map[int]int{}}).event }, err
		},
	}
}
