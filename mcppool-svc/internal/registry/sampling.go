package registry

// Sampling is what a server may ask of models.
type Sampling struct {
	Model       string `json:"model,omitempty"`        // the planner's; empty: what the server hints at, else the planner's default
	MaxTokens   int    `json:"max_tokens,omitempty"`   // of an answer; 0: the default
	MaxRequests int    `json:"max_requests,omitempty"` // of a call; 0: the default
}

// Defaults of what a server may ask of models, and bounds of what operators may say.
const (
	DefaultSampleTokens   = 1024
	DefaultSampleRequests = 10
	MostSampleTokens      = 1_000_000
	MostSampleRequests    = 1000
)

// Tokens is the longest answer.
func (s *Sampling) Tokens() int {
	if s.MaxTokens > 0 {
		return s.MaxTokens
	}
	return DefaultSampleTokens
}

// Requests is how often models may be asked during one call.
func (s *Sampling) Requests() int {
	if s.MaxRequests > 0 {
		return s.MaxRequests
	}
	return DefaultSampleRequests
}

// same reports whether two say the same; nil is that a server may not.
func (s *Sampling) same(o *Sampling) bool {
	return s == nil && o == nil || s != nil && o != nil && *s == *o
}

func (s *Sampling) clone() *Sampling {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}

// validate says what is wrong with it. The error is *Invalid.
func (s *Sampling) validate() error {
	switch {
	case s == nil:
		return nil
	case len(s.Model) > 200:
		return invalid("sampling.model", "has more than 200 characters")
	case s.MaxTokens < 0 || s.MaxTokens > MostSampleTokens:
		return invalid("sampling.max_tokens", "is not between 0 and %d", MostSampleTokens)
	case s.MaxRequests < 0 || s.MaxRequests > MostSampleRequests:
		return invalid("sampling.max_requests", "is not between 0 and %d", MostSampleRequests)
	}
	return nil
}
