package modeltest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Script describes a model: its properties and its answers.
type Script struct {
	Model  string `json:"model"`  // the only model; "" takes any name
	Key    string `json:"key"`    // the API key; "" accepts any non-empty key
	Window int    `json:"window"` // tokens of prompt and answer together; 0 for 128,000
	Turns  []Turn `json:"turns"`
	// Coding, if not nil, answers the requests of tasks with a plan. The turns answer all others.
	Coding *Coding `json:"coding"`
	// Chat, if not nil, answers the requests of tasks that answer messages of topics.
	Chat *Chat `json:"chat"`
	// Play, if not nil, is asked before the turns. If it returns nil, the turns answer.
	Play func(r *Request) *Turn `json:"-"`
}

// Turn is one answer. It answers only the first request that it matches, or each if Always is set.
type Turn struct {
	When   When `json:"when"`
	Always bool `json:"always"` // the turn answers any number of requests

	Text  string `json:"text"`
	Calls []Call `json:"calls"`
	// JSON is a structured answer, in the form that the request wants: a text, or a call of the forced tool.
	JSON json.RawMessage `json:"json"`
	Stop string          `json:"stop"` // "length" or "refusal"; "" for the regular reason

	Error      int     `json:"error"`      // HTTP status, such as 429, 500 or 529; 0: no error
	RetryAfter int     `json:"retryAfter"` // seconds, with an error
	Cut        int     `json:"cut"`        // the connection breaks after this number of events; 0: never
	Delay      Seconds `json:"delay"`      // before the answer
	Pause      Seconds `json:"pause"`      // between two events
	Usage      *Usage  `json:"usage"`      // nil: estimated
}

// Call is a tool call. A name that no tool of the request has stands for the only tool whose name ends with it.
type Call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Raw       string          `json:"raw"` // instead of Arguments: a text that need not be JSON
	// Expect is a regular expression for the result; empty: the call succeeds. Only in a thought: until a call has it, the model makes the call again.
	Expect string `json:"expect"`
}

// Usage counts tokens.
type Usage struct {
	Input  int `json:"input"` // with the tokens read from the cache
	Cached int `json:"cached"`
	Output int `json:"output"`
}

// Seconds is a duration, written as a number of seconds or as a text such as "50ms".
type Seconds time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	if d, err := time.ParseDuration(text); err == nil {
		*s = Seconds(d)
		return nil
	}
	d, err := time.ParseDuration(text + "s")
	*s = Seconds(d)
	return err
}

// When holds conditions on a request. Each condition that is set must hold.
type When struct {
	Contains string   `json:"contains"` // in any message or the system text
	Lacks    string   `json:"lacks"`    // in no message, nor in the system text
	Last     string   `json:"last"`     // regular expression found in the last message
	Messages int      `json:"messages"` // number of messages
	Tools    []string `json:"tools"`    // tools that the request has, by the ends of their names
	Format   string   `json:"format"`   // name of the wanted structured answer
	Results  int      `json:"results"`  // number of tool results
}

// Load reads a script from a YAML or JSON file, or from an archive with a repository; see WriteRepository. Unknown keys are errors.
func Load(path string) (*Script, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !isArchive(path) {
		return Parse(string(raw))
	}
	coding, err := ParseCoding(modelOf(raw))
	return &Script{Coding: coding}, err
}

// Parse reads a script in YAML or JSON.
func Parse(text string) (*Script, error) {
	s := &Script{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		return nil, fmt.Errorf("the script: %w", err)
	}
	for i, turn := range s.Turns {
		if _, err := regexp.Compile(turn.When.Last); err != nil {
			return nil, fmt.Errorf("the script: turns[%d].when.last: %w", i, err)
		}
	}
	return s, cmp.Or(s.Coding.check(), s.Chat.check())
}

func (w When) match(r *Request) bool {
	all := r.System + "\n" + strings.Join(r.Texts, "\n")
	found, err := regexp.MatchString(w.Last, r.last())
	switch {
	case err != nil || !found:
		return false
	case !strings.Contains(all, w.Contains), w.Lacks != "" && strings.Contains(all, w.Lacks):
		return false
	case w.Messages != 0 && w.Messages != len(r.Texts), w.Results != 0 && w.Results != r.Results, w.Format != "" && w.Format != r.Format:
		return false
	}
	return !slices.ContainsFunc(w.Tools, func(name string) bool { return r.Tool(name) == "" })
}
