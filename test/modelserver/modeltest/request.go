package modeltest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Request is a request that the server received, and its outcome.
type Request struct {
	Provider string // "openai" or "anthropic"
	Body     json.RawMessage
	Header   http.Header

	System  string
	Texts   []string   // of the messages, system text excluded; tool calls as name(arguments)
	Results int        // tool results in the messages
	Calls   []MadeCall // that have results in the messages, oldest first
	Tools   []string   // names
	Format  string     // name of the wanted structured answer: a JSON schema, or a forced tool
	Stream  bool

	Tokens int // of the prompt, estimated
	Prefix int // how many tokens at the start of the prompt an earlier request had too
	Cached int // how many prompt tokens the provider would read from its cache

	Problem string // why it was rejected; "" if it was accepted
	Status  int    // of the answer
	Turn    int    // index of the turn that answered it; -1 if none
	Left    bool   // the client closed the connection before the answer ended
	At, End time.Time

	maxTokens   int      // of the answer
	parts       []string // the prompt as the provider's cache sees it: tools, system text, messages
	breakpoints []int    // number of parts before each cache breakpoint
}

// last returns the last message.
func (r *Request) last() string {
	if len(r.Texts) == 0 {
		return ""
	}
	return r.Texts[len(r.Texts)-1]
}

// result records the result of the call with an id. made holds the calls by id.
func (r *Request) result(made map[string]MadeCall, id string, result json.RawMessage) {
	c := made[id]
	c.Result = text(result)
	r.Results, r.Calls = r.Results+1, append(r.Calls, c)
}

// Tool returns name if a tool has it, else the name of the only tool whose name ends with it; "" if there is no such tool.
func (r *Request) Tool(name string) string {
	if slices.Contains(r.Tools, name) {
		return name
	}
	found := ""
	for _, tool := range r.Tools {
		if strings.HasSuffix(tool, name) {
			if found != "" {
				return ""
			}
			found = tool
		}
	}
	return found
}

// Tokens estimates the tokens of a text: one per four bytes of its UTF-8, rounded up.
func Tokens(text string) int { return (len(text) + 3) / 4 }

const (
	// imageTokens is added for each picture.
	imageTokens = 1000
	// minCached is the shortest prefix that providers cache. OpenAI's cached prefixes grow in steps of cacheStep.
	minCached = 1024
	cacheStep = 128
)

// measure sets the counts of tokens, given the earlier requests.
func (r *Request) measure(earlier []*Request) {
	whole := strings.Join(r.parts, "\n")
	r.Tokens = Tokens(whole) + imageTokens*(strings.Count(whole, `"image_url"`)+strings.Count(whole, `"base64"`))
	for _, e := range earlier {
		if e.Problem != "" || e.Provider != r.Provider {
			continue
		}
		r.Prefix = max(r.Prefix, commonPrefix(whole, strings.Join(e.parts, "\n"))/4)
		if r.Provider == "anthropic" {
			r.Cached = max(r.Cached, cachedBy(e, r))
		}
	}
	if r.Provider == "openai" && r.Prefix >= minCached {
		r.Cached = r.Prefix / cacheStep * cacheStep
	}
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// cachedBy returns how many tokens of r are read from the cache entries that the breakpoints of an earlier request wrote.
func cachedBy(e, r *Request) int {
	best := 0
	for _, end := range e.breakpoints {
		if end <= len(r.parts) && slices.Equal(e.parts[:end], r.parts[:end]) && len(r.breakpoints) > 0 && end <= slices.Max(r.breakpoints) {
			best = max(best, Tokens(strings.Join(r.parts[:end], "\n")))
		}
	}
	if best < minCached {
		return 0
	}
	return best
}

// written returns how many tokens the breakpoints of r write to the cache.
func (r *Request) written() int {
	if len(r.breakpoints) == 0 {
		return 0
	}
	all := Tokens(strings.Join(r.parts[:slices.Max(r.breakpoints)], "\n"))
	if all < minCached {
		return 0
	}
	return max(0, all-r.Cached)
}
