package models

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/anthropic"
	"pawl.dev/planner-svc/internal/llm/openai"
	"pawl.dev/planner-svc/internal/llm/wire"
)

// Defaults and bounds of what a file may say.
const (
	defaultMaxTokens = 4096
	maxMaxTokens     = 1_000_000
	maxWindow        = 100_000_000
	maxPrice         = 100_000 // dollars per million tokens
	defaultTimeout   = 5 * time.Minute
	maxTimeout       = time.Hour
	defaultRetries   = 2
	maxRetries       = 5
	defaultAtOnce    = 16
	maxAtOnce        = 1000
)

// The providers.
const (
	providerOpenAI    = "openai"
	providerAnthropic = "anthropic"
	providerOllama    = "ollama"
)

// entry is one model as an operator describes it.
type entry struct {
	Name          string            `yaml:"name"`
	Description   string            `yaml:"description"`
	Provider      string            `yaml:"provider"`
	Model         string            `yaml:"model"`
	BaseURL       string            `yaml:"baseUrl"`
	Key           string            `yaml:"key"`
	Organization  string            `yaml:"organization"`
	Headers       map[string]string `yaml:"headers"`
	MaxTokens     int               `yaml:"maxTokens"`
	ContextWindow int               `yaml:"contextWindow"`
	Price         *price            `yaml:"price"`
	Fallback      string            `yaml:"fallback"`
	Tools         *bool             `yaml:"tools"`
	Schema        *bool             `yaml:"schema"`
	Images        *bool             `yaml:"images"`
	Timeout       duration          `yaml:"timeout"`
	Retries       *int              `yaml:"retries"`
	AtOnce        int               `yaml:"atOnce"`
}

// price is what a million tokens cost in US dollars.
type price struct {
	Input       *float64 `yaml:"input"`
	Output      *float64 `yaml:"output"`
	CachedInput *float64 `yaml:"cachedInput"`
	CacheWrite  *float64 `yaml:"cacheWrite"`
}

// duration is a number of seconds, or a text such as "90s".
type duration float64

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	if n.Decode((*float64)(d)) == nil {
		return nil
	}
	parsed, err := time.ParseDuration(n.Value)
	if err != nil {
		return fmt.Errorf(`line %d: %.40q is neither a number of seconds nor a duration such as "90s"`, n.Line, n.Value)
	}
	*d = duration(parsed.Seconds())
	return nil
}

// nameForm is what a model can be called.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$`)

// check says what is wrong with an entry.
func (e *entry) check() error {
	switch {
	case !nameForm.MatchString(e.Name):
		return errors.New("`name` must be of letters, digits and ._:/-, 100 at most")
	case !slices.Contains([]string{providerOpenAI, providerAnthropic, providerOllama}, e.Provider):
		return fmt.Errorf("`provider` must be openai (and whatever is compatible, with `baseUrl`), anthropic or ollama, not %q", e.Provider)
	case e.Model == "":
		return errors.New("`model` is missing: the provider's name of it")
	case e.Key == "" && e.BaseURL == "" && e.Provider != providerOllama:
		return errors.New("`key` is missing: env:NAME or file:PATH")
	case e.Organization != "" && e.Provider != providerOpenAI:
		return errors.New("`organization` is known to the provider openai alone")
	case e.Price != nil && (e.Price.Input == nil || e.Price.Output == nil):
		return errors.New("`price` needs `input` and `output`: US dollars for a million tokens")
	case e.ContextWindow > 0 && e.ContextWindow <= e.MaxTokens:
		return errors.New("`contextWindow` must be larger than `maxTokens`, which is a part of it")
	}
	return errors.Join(e.checkNumbers(), checkURL(e.BaseURL), checkHeaders(e.Headers))
}

// checkNumbers says which number is out of its bounds.
func (e *entry) checkNumbers() error {
	type number struct {
		key        string
		value, max float64
	}
	numbers := []number{
		{"maxTokens", float64(e.MaxTokens), maxMaxTokens}, {"contextWindow", float64(e.ContextWindow), maxWindow}, {"atOnce", float64(e.AtOnce), maxAtOnce},
		{"retries", float64(valueOr(e.Retries, 0)), maxRetries}, {"timeout", float64(e.Timeout), maxTimeout.Seconds()},
	}
	if p := e.Price; p != nil {
		numbers = append(numbers, number{"price.input", valueOr(p.Input, 0), maxPrice}, number{"price.output", valueOr(p.Output, 0), maxPrice},
			number{"price.cachedInput", valueOr(p.CachedInput, 0), maxPrice}, number{"price.cacheWrite", valueOr(p.CacheWrite, 0), maxPrice})
	}
	for _, n := range numbers {
		if !(n.value >= 0 && n.value <= n.max) { // NaN is not
			return fmt.Errorf("`%s` is not between 0 and %v", n.key, n.max)
		}
	}
	return nil
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func checkURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("`baseUrl` is no http or https address")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("`baseUrl` may have no user, query or fragment; a key goes into `key`, as env:NAME or file:PATH")
	}
	return nil
}

// headerForm is the form of header names.
var headerForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

func checkHeaders(headers map[string]string) error {
	for name, value := range headers {
		switch canonical := http.CanonicalHeaderKey(name); {
		case !headerForm.MatchString(name) || strings.ContainsAny(value, "\r\n"):
			return fmt.Errorf("`headers`: %.100q is no name of a header, or its value has more than one line", name)
		case slices.Contains([]string{"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection"}, canonical):
			return fmt.Errorf("`headers`: %s cannot be set", canonical)
		}
	}
	return nil
}

// cacheWriteFactor is what Anthropic charges for tokens that it writes to its five-minute cache, in prices of other input.
const cacheWriteFactor = 1.25

// of returns the price of a provider's model. Prices of cached tokens that are not given are those of other input.
func (p *price) of(provider string) *llm.Price {
	if p == nil {
		return nil
	}
	factor := 1.0
	if provider == providerAnthropic {
		factor = cacheWriteFactor
	}
	return &llm.Price{Input: *p.Input, Output: *p.Output, CachedInput: valueOr(p.CachedInput, *p.Input), CacheWrite: valueOr(p.CacheWrite, *p.Input*factor)}
}

// info describes the entry's model.
func (e *entry) info() llm.Info {
	window, reply := known(e.Model)
	i := llm.Info{
		Name: e.Name, Description: e.Description, Provider: e.Provider, ProviderModel: e.Model,
		Tools: valueOr(e.Tools, true), Images: valueOr(e.Images, true), Schema: llm.SchemaNative,
		MaxTokens: cmp.Or(e.MaxTokens, reply, defaultMaxTokens), ContextWindow: cmp.Or(e.ContextWindow, window), Price: e.Price.of(e.Provider),
	}
	if e.MaxTokens == 0 && i.ContextWindow > 0 {
		i.MaxTokens = min(i.MaxTokens, max(i.ContextWindow/4, 1)) // leave room for the prompt
	}
	if e.Provider == providerAnthropic {
		i.Schema = llm.SchemaByTool
	}
	if !valueOr(e.Schema, true) {
		i.Schema = llm.SchemaInPrompt
	}
	if i.Description == "" {
		i.Description = e.Provider + " " + e.Model
		if u, err := url.Parse(e.BaseURL); err == nil && u.Host != "" {
			i.Description += " at " + u.Host
		}
	}
	return i
}

// model makes the model of a checked entry.
func (e *entry) model(b *Book) (*Model, error) {
	credentials, err := b.credentials(e)
	if err != nil {
		return nil, err
	}
	cfg := wire.Config{Info: e.info(), BaseURL: e.BaseURL, Organization: e.Organization, Credentials: credentials, Retries: valueOr(e.Retries, defaultRetries), HTTP: b.web}
	m := &Model{
		Model: openai.New(cfg), book: b, info: cfg.Info, timeout: cmp.Or(time.Duration(float64(e.Timeout)*float64(time.Second)), defaultTimeout),
		slots: make(chan struct{}, cmp.Or(e.AtOnce, defaultAtOnce)),
	}
	if e.Provider == providerAnthropic {
		m.Model = anthropic.New(cfg)
	}
	return m, nil
}
