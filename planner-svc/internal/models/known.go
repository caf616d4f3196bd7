package models

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"pawl.dev/planner-svc/internal/llm"
)

// knownModels are context windows, and the output limits that Pawl requests by default, both in tokens. Replies of models that think first
// include their thoughts, so their limit is higher. Prices are left to operators: providers change them. The first prefix counts.
//
// Checked in 2026-11 against RooCodeInc/Roo-Code (packages/types/src/providers/anthropic.ts and openai.ts), which names the providers' pages of
// models as its sources, and against https://support.claude.com/en/articles/8606395 (all models of Claude's API take 200K tokens or more).
// Of the 400,000 tokens of gpt-5, 272,000 are for the prompt (https://community.openai.com/t/1344734).
var knownModels = []struct {
	prefix            string
	window, maxOutput int
}{
	{"claude-3-", 200_000, 4096},
	{"claude-", 200_000, 16_384},
	{"gpt-4o", 128_000, 8192},
	{"gpt-4.1", 1_047_576, 16_384},
	{"gpt-5-chat", 128_000, 8192},
	{"gpt-5-pro", 0, 16_384}, // unknown: its output may take more of the window
	{"gpt-5.", 0, 16_384},    // the windows of its variants differ
	{"gpt-5", 272_000, 16_384},
	{"o1", 200_000, 16_384},
	{"o3", 200_000, 16_384},
	{"o4-mini", 200_000, 16_384},
}

// known returns the context window of a provider's model and the default output limit; 0 if unknown.
func known(model string) (window, maxOutput int) {
	for _, k := range knownModels {
		if strings.HasPrefix(model, k.prefix) {
			return k.window, k.maxOutput
		}
	}
	return 0, 0
}

// variables are those that the providers' own programs read.
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
	if provider == llm.ProviderOpenAI {
		e.Organization = getenv("OPENAI_ORG_ID")
	}
	return e, err
}

// ollamaURL returns where Ollama serves chat completions. host is the variable OLLAMA_HOST, which the server reads too; "" is its default.
func ollamaURL(host string) (string, error) {
	host = cmp.Or(strings.TrimSpace(host), "127.0.0.1")
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("the environment variable OLLAMA_HOST is no address")
	}
	name := u.Hostname()
	if name == "" || net.ParseIP(name).IsUnspecified() { // where it listens, not where it is reached
		name = "127.0.0.1"
	}
	return u.Scheme + "://" + net.JoinHostPort(name, cmp.Or(u.Port(), "11434")) + "/v1", nil
}
