package modeltest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Request is a request that the server got, and its outcome.
type Request struct {
	Provider string // "openai" or "anthropic"
	Body     json.RawMessage
	Header   http.Header

	System  string
	Texts   []string // of the messages, system text excluded; tool calls and results as JSON
	Results int      // tool results in the messages
	Tools   []string // names
	Format  string   // name of the wanted structured answer: a JSON schema, or a forced tool
	Stream  bool

	Tokens int // of the prompt, estimated
	Prefix int // of them, how many an earlier request began with
	Cached int // of them, how many the provider would have read from its cache

	Problem string // why it was rejected; "" if it was not
	Status  int    // of the answer
	Turn    int    // index of the turn that was given; -1 if none
	Left    bool   // the client closed the connection before the end of the answer
	At, End time.Time

	most  int      // tokens of the longest answer
	parts []string // the prompt as the provider's cache sees it: tools, system text, messages
	ends  []int    // how many parts come before each cache breakpoint
}

// last returns the last message.
func (r *Request) last() string {
	if len(r.Texts) == 0 {
		return ""
	}
	return r.Texts[len(r.Texts)-1]
}

// Tool returns the name of the tool with that name, or of the only one whose name ends with it; "" if there is none.
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

// Tokens estimates the tokens of a text: one for four bytes of its UTF-8, rounded up. Pictures and sounds count imageTokens.
func Tokens(text string) int { return (len(text) + 3) / 4 }

const imageTokens = 1000

// cacheBlock is the unit of a cache: OpenAI caches prefixes of 1024 tokens and more, in steps of 128.
const (
	cacheLeast = 1024
	cacheBlock = 128
)

// measure sets the counts of tokens from the prompts that came before.
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
	if r.Provider == "openai" && r.Prefix >= cacheLeast {
		r.Cached = r.Prefix / cacheBlock * cacheBlock
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
	for _, end := range e.ends {
		if end <= len(r.parts) && slices.Equal(e.parts[:end], r.parts[:end]) && len(r.ends) > 0 && end <= slices.Max(r.ends) {
			best = max(best, Tokens(strings.Join(r.parts[:end], "\n")))
		}
	}
	if best < cacheLeast {
		return 0
	}
	return best
}

// written returns how many tokens r's own breakpoints write to the cache.
func (r *Request) written() int {
	if len(r.ends) == 0 {
		return 0
	}
	all := Tokens(strings.Join(r.parts[:slices.Max(r.ends)], "\n"))
	if all < cacheLeast {
		return 0
	}
	return max(0, all-r.Cached)
}
