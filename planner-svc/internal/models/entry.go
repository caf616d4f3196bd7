package models

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"pawl.dev/planner-svc/internal/llm"
)

// The defaults of an entry.
const (
	defaultMaxTokens = 4096
	defaultTimeout   = 5 * time.Minute
	defaultRetries   = 2
	defaultAtOnce    = 16
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
	Price         price             `yaml:"price"`
	Fallback      string            `yaml:"fallback"`
	Tools         *bool             `yaml:"tools"`
	Schema        *bool             `yaml:"schema"`
	Images        *bool             `yaml:"images"`
	Timeout       string            `yaml:"timeout"`
	Retries       *int              `yaml:"retries"`
	AtOnce        int               `yaml:"atOnce"`
}

// price is the price of a million tokens, in US dollars.
type price struct {
	Input       *float64 `yaml:"input"`
	Output      *float64 `yaml:"output"`
	CachedInput *float64 `yaml:"cachedInput"`
	CacheWrite  *float64 `yaml:"cacheWrite"`
}

var (
	nameForm        = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$`)
	headerForm      = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)
	reservedHeaders = []string{"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection"}
)

// check validates an entry.
func (e *entry) check() error {
	switch {
	case !nameForm.MatchString(e.Name):
		return errors.New("`name` must begin with a letter or digit and have at most 100 letters, digits and ._:/-")
	case !slices.Contains([]string{llm.ProviderOpenAI, llm.ProviderAnthropic, llm.ProviderOllama}, e.Provider):
		return fmt.Errorf("`provider` must be openai (also for compatible servers, with `baseUrl`), anthropic or ollama, not %q", e.Provider)
	case e.Model == "":
		return errors.New("`model` is missing: the provider's name of the model")
	case e.Key == "" && e.BaseURL == "" && e.Provider != llm.ProviderOllama:
		return errors.New("`key` is missing: env:NAME or file:PATH")
	case e.Organization != "" && e.Provider != llm.ProviderOpenAI:
		return errors.New("only the provider openai has an `organization`")
	case e.Price != (price{}) && (e.Price.Input == nil || e.Price.Output == nil):
		return errors.New("`price` needs `input` and `output`: US dollars for a million tokens")
	case e.ContextWindow > 0 && e.ContextWindow <= e.MaxTokens:
		return errors.New("`contextWindow` must be larger than `maxTokens`, which is a part of it")
	}
	return errors.Join(e.checkAddress(), e.checkNumbers())
}

// isAddress reports whether a text is an http or https address.
func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

func (e *entry) checkAddress() error {
	address, _ := url.Parse(e.BaseURL) // isAddress reports what cannot be parsed
	switch kind, _ := reference(e.Key); {
	case e.Key != "" && kind == "": // the value may be the key itself, so the message leaves it out
		return errors.New("`key` must be a reference, env:NAME or file:PATH; a key itself does not belong in this file")
	case e.BaseURL != "" && !isAddress(e.BaseURL):
		return errors.New("`baseUrl` must be an http or https address")
	case address.User != nil || address.RawQuery != "" || address.Fragment != "":
		return errors.New("`baseUrl` may have no user, query or fragment; a key goes into `key`, as env:NAME or file:PATH")
	}
	for name, value := range e.Headers {
		if !headerForm.MatchString(name) || strings.ContainsAny(value, "\r\n") || slices.Contains(reservedHeaders, http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("`headers`: %.100q is not a header name, or cannot be set, or its value has more than one line", name)
		}
	}
	return nil
}

// checkNumbers returns an error for the first number out of its bounds.
func (e *entry) checkNumbers() error {
	timeout, err := e.timeout()
	if err != nil {
		return err
	}
	const maxPrice = 100_000
	p := e.Price
	for _, n := range []struct {
		key        string
		value, max float64
	}{
		{"maxTokens", float64(e.MaxTokens), 1_000_000}, {"contextWindow", float64(e.ContextWindow), 100_000_000}, {"atOnce", float64(e.AtOnce), 1000},
		{"retries", float64(valueOr(e.Retries, 0)), 5}, {"timeout", timeout.Seconds(), time.Hour.Seconds()},
		{"price.input", valueOr(p.Input, 0), maxPrice}, {"price.output", valueOr(p.Output, 0), maxPrice},
		{"price.cachedInput", valueOr(p.CachedInput, 0), maxPrice}, {"price.cacheWrite", valueOr(p.CacheWrite, 0), maxPrice},
	} {
		if !(n.value >= 0 && n.value <= n.max) { // also refuses NaN
			return fmt.Errorf("`%s` must be between 0 and %v", n.key, n.max)
		}
	}
	return nil
}

// timeout reads the entry's timeout, a duration or a number of seconds; if it is absent or 0, it returns the default.
func (e *entry) timeout() (time.Duration, error) {
	d, err := time.ParseDuration(cmp.Or(e.Timeout, "0"))
	if err != nil {
		d, err = time.ParseDuration(e.Timeout + "s")
	}
	if err != nil {
		return 0, fmt.Errorf("`timeout`: %.40q is neither a number of seconds nor a duration such as \"90s\"", e.Timeout)
	}
	return cmp.Or(d, defaultTimeout), nil
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// forProvider returns the price of a provider's model. By default, cached input costs as much as other input, and tokens that Anthropic writes to
// its five-minute cache cost 1.25 times as much.
func (p price) forProvider(provider string) *llm.Price {
	if p.Input == nil {
		return nil
	}
	write := *p.Input
	if provider == llm.ProviderAnthropic {
		write *= 1.25
	}
	return &llm.Price{Input: *p.Input, Output: *p.Output, CachedInput: valueOr(p.CachedInput, *p.Input), CacheWrite: valueOr(p.CacheWrite, write)}
}

// info describes the entry's model.
func (e *entry) info() llm.Info {
	window, reply := known(e.Model)
	i := llm.Info{
		Name: e.Name, Description: e.Description, Provider: e.Provider, ProviderModel: e.Model,
		Tools: valueOr(e.Tools, true), Images: valueOr(e.Images, true), Schema: valueOr(e.Schema, true),
		MaxTokens: cmp.Or(e.MaxTokens, reply, defaultMaxTokens), ContextWindow: cmp.Or(e.ContextWindow, window), Price: e.Price.forProvider(e.Provider),
	}
	if e.MaxTokens == 0 && i.ContextWindow > 0 {
		i.MaxTokens = min(i.MaxTokens, max(i.ContextWindow/4, 1)) // leave room for the prompt
	}
	if i.Description == "" {
		i.Description = e.Provider + " " + e.Model
		if u, err := url.Parse(e.BaseURL); err == nil && u.Host != "" {
			i.Description += " at " + u.Host
		}
	}
	return i
}

// model makes the model of an entry.
func (b *Book) model(e *entry) (*llm.Client, error) {
	if e.Provider == llm.ProviderOllama && e.BaseURL == "" {
		e.BaseURL, _ = ollamaURL("")
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	credentials, err := b.credentials(e)
	if err != nil {
		return nil, err
	}
	timeout, err := e.timeout()
	info := e.info()
	return llm.New(llm.Config{
		Info: info, BaseURL: e.BaseURL, Credentials: credentials, KeyAdvice: e.keyAdvice(), HTTP: b.web,
		Timeout: timeout, Retries: valueOr(e.Retries, defaultRetries), AtOnce: cmp.Or(e.AtOnce, defaultAtOnce),
		Admit: b.admit,
		Record: func(ctx context.Context, reply *llm.Reply, began time.Time, err error) {
			b.record(ctx, &info, reply, began, err)
		},
	}), err
}

// credentials returns a function that reads an entry's key and headers. Clients call it for each request, because key files change. The error says
// that key or headers cannot be read now.
func (b *Book) credentials(e *entry) (func() (llm.Credentials, error), error) {
	read := func() (llm.Credentials, error) {
		key, err := b.value("`key`", e.Key)
		c := llm.Credentials{Key: key, Headers: make(map[string]string, len(e.Headers))}
		if e.Organization != "" {
			c.Headers["OpenAI-Organization"] = e.Organization
		}
		for name, text := range e.Headers {
			if err == nil {
				c.Headers[name], err = b.value("the header "+name, text)
			}
		}
		return c, err
	}
	_, err := read()
	return read, err
}

// reference splits env:NAME and file:PATH. It returns two empty strings for anything else.
func reference(text string) (kind, name string) {
	if kind, name, _ = strings.Cut(text, ":"); name == "" || kind != "env" && kind != "file" {
		return "", ""
	}
	return kind, name
}

// value returns the value that a reference names, or the text itself if it is no reference.
func (b *Book) value(what, text string) (string, error) {
	kind, name := reference(text)
	switch kind {
	case "":
		return text, nil
	case "env":
		if value := b.getenv(name); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("%s refers to the environment variable %s, which the planner does not have; set it where the planner is started", what, name)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(b.file), name)
	}
	raw, err := readFile(name)
	if err != nil {
		return "", fmt.Errorf("%s refers to a file that cannot be read: %w", what, err)
	}
	if value := strings.TrimSpace(string(raw)); value != "" && !strings.ContainsAny(value, "\r\n") {
		return value, nil
	}
	return "", fmt.Errorf("%s refers to the file %s, which holds no key, or more than one line", what, name)
}

// keyAdvice returns the advice for a key that the provider rejects.
func (e *entry) keyAdvice() string {
	switch kind, name := reference(e.Key); {
	case kind == "env":
		return "its provider rejects the key; correct the environment variable " + name + " where the planner is started"
	case kind == "file":
		return "its provider rejects the key; an operator has to correct the file " + name + " that `key` names"
	case e.Name == e.Provider+":"+e.Model && variables[e.Provider].key != "":
		return "its provider wants a key; set the environment variable " + variables[e.Provider].key + " where the planner is started"
	}
	return "its provider wants a key; an operator has to set `key` in the file of models"
}

//go:embed known.txt
var knownModels string

// known returns the context window and the default output limit of a provider's model, from the first line of known.txt whose prefix matches
// its name; 0 if unknown.
func known(model string) (window, maxOutput int) {
	for line := range strings.Lines(knownModels) {
		var prefix string
		if n, _ := fmt.Sscan(line, &prefix, &window, &maxOutput); n == 3 && strings.HasPrefix(model, prefix) {
			return window, maxOutput
		}
	}
	return 0, 0
}

// variables names the environment variables that the providers' own programs read.
var variables = map[string]struct{ key, base string }{
	llm.ProviderOpenAI: {"OPENAI_API_KEY", "OPENAI_BASE_URL"}, llm.ProviderAnthropic: {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"},
}

// providerEntry makes the entry of a model that is named as PROVIDER:MODEL, from the provider's variables. It returns nil if the name has
// another form.
func providerEntry(name string, getenv func(string) string) (e *entry, err error) {
	provider, model, _ := strings.Cut(name, ":")
	v, known := variables[provider]
	e = &entry{Name: name, Provider: provider, Model: model, BaseURL: getenv(v.base)}
	switch {
	case model == "" || !known && provider != llm.ProviderOllama:
		return nil, nil
	case provider == llm.ProviderOllama:
		e.ContextWindow, _ = strconv.Atoi(getenv("OLLAMA_CONTEXT_LENGTH"))
		e.ContextWindow = max(e.ContextWindow, 0)
		e.BaseURL, err = ollamaURL(getenv("OLLAMA_HOST"))
	case getenv(v.key) != "":
		e.Key = "env:" + v.key
	case e.BaseURL == "":
		return nil, fmt.Errorf("it needs the environment variable %s; set it where the planner is started", v.key)
	}
	if e.BaseURL != "" && !isAddress(e.BaseURL) {
		return nil, fmt.Errorf("the environment variable %s must be an http or https address, such as https://host/v1", v.base)
	}
	if provider == llm.ProviderOpenAI {
		e.Organization = getenv("OPENAI_ORG_ID")
	}
	return e, err
}

// ollamaURL returns the address at which Ollama serves chat completions. host is the variable OLLAMA_HOST, which the server reads too; "" is its
// default. As in Ollama's own programs, a host without a port has the scheme's default port, and a host with no scheme either has the port 11434.
// A path, such as that of a proxy, comes before the API's.
func ollamaURL(host string) (string, error) {
	host = cmp.Or(strings.TrimSpace(host), "127.0.0.1")
	ports := map[string]string{"http": "80", "https": "443"}
	if !strings.Contains(host, "://") {
		host, ports["http"] = "http://"+host, "11434"
	}
	u, err := url.Parse(host)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("the environment variable OLLAMA_HOST is not an http or https address")
	}
	name := u.Hostname()
	if name == "" || net.ParseIP(name).IsUnspecified() { // an address to listen on, not to connect to
		name = "127.0.0.1"
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	served := url.URL{Scheme: u.Scheme, Host: net.JoinHostPort(name, cmp.Or(u.Port(), ports[u.Scheme])), Path: path + "/v1"}
	return served.String(), nil
}
