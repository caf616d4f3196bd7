package models

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// knownModels are the context windows that providers publish, and the output limits that Pawl requests by default, both in tokens. Replies
// of models that think first include their thoughts, so their limit is higher. Prices are left to operators: providers change them. The
// first prefix counts.
var knownModels = []struct {
	prefix            string
	window, maxOutput int
}{
	{"claude-3-haiku", 200_000, 4096},
	{"claude-3-opus", 200_000, 4096},
	{"claude-3-", 200_000, 8192},
	{"claude-sonnet-4", 200_000, 16_384},
	{"claude-opus-4", 200_000, 16_384},
	{"claude-haiku-4", 200_000, 16_384},
	{"gpt-4o", 128_000, 8192},
	{"gpt-4.1", 1_047_576, 16_384},
	{"gpt-5", 0, 16_384}, // the windows of its variants differ
	{"o1-mini", 128_000, 16_384},
	{"o1", 200_000, 16_384},
	{"o3", 200_000, 16_384},
	{"o4-mini", 200_000, 16_384},
}

// known returns the context window of a provider's model and the default output limit; 0 if unknown.
func known(model string) (window, maxOutput int) {
	switch model {
	case "gpt-5", "gpt-5-mini", "gpt-5-nano":
		return 400_000, 16_384
	}
	for _, k := range knownModels {
		if strings.HasPrefix(model, k.prefix) {
			return k.window, k.maxOutput
		}
	}
	return 0, 0
}

// providerEntry makes the entry of a model that is named as PROVIDER:MODEL, from the variables that the provider's own programs read.
// It returns nil if the name has another form.
func providerEntry(name string, getenv func(string) (string, bool)) (*entry, error) {
	provider, model, _ := strings.Cut(name, ":")
	if model == "" {
		return nil, nil
	}
	get := func(variable string) string { v, _ := getenv(variable); return v }
	e := &entry{Name: name, Provider: provider, Model: model}
	var variable string
	switch provider {
	case providerOpenAI:
		variable = "OPENAI_API_KEY"
		e.BaseURL, e.Organization = get("OPENAI_BASE_URL"), get("OPENAI_ORG_ID")
	case providerAnthropic:
		variable = "ANTHROPIC_API_KEY"
		e.BaseURL = get("ANTHROPIC_BASE_URL")
	case providerOllama:
		base, err := ollamaURL(get("OLLAMA_HOST"))
		if err != nil {
			return nil, err
		}
		e.BaseURL = base
		if window, err := strconv.Atoi(get("OLLAMA_CONTEXT_LENGTH")); err == nil && window > 0 {
			e.ContextWindow = window
		}
		return e, nil
	default:
		return nil, nil
	}
	switch {
	case get(variable) != "":
		e.Key = "env:" + variable
	case e.BaseURL == "":
		return nil, fmt.Errorf("it needs the environment variable %s; set it where the planner is started", variable)
	}
	return e, nil
}

const ollamaPort = "11434"

// ollamaURL returns where Ollama serves chat completions. host is the variable OLLAMA_HOST, which the server reads too.
func ollamaURL(host string) (string, error) {
	host = cmp.Or(strings.TrimSpace(host), "127.0.0.1")
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("the environment variable OLLAMA_HOST is no address")
	}
	name, port := u.Hostname(), cmp.Or(u.Port(), ollamaPort)
	if name == "" || net.ParseIP(name).IsUnspecified() { // where it listens, not where it is reached
		name = "127.0.0.1"
	}
	return u.Scheme + "://" + net.JoinHostPort(name, port) + "/v1", nil
}
