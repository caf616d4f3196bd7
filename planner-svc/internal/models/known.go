package models

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"pawl.dev/planner-svc/internal/llm"
)

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
	served := url.URL{Scheme: u.Scheme, Host: net.JoinHostPort(name, cmp.Or(u.Port(), ports[u.Scheme])), Path: "/v1"}
	return served.String(), nil
}
