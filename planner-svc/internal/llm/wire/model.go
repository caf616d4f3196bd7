// Package wire sends requests of language models over HTTP and reads the server-sent events of their answers: with bounds on time and
// size, retries, one classification of errors, and without following redirects, which would carry keys elsewhere. It knows no
// provider's messages.
package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/llm"
)

const (
	// firstPause is the pause before the first retry; it doubles with each, up to longestPause. A provider that wants a longer one
	// than maxPause is not asked again.
	firstPause   = 500 * time.Millisecond
	longestPause = 8 * time.Second
	maxPause     = time.Minute
)

// Config is a model at a provider's address.
type Config struct {
	Info         llm.Info
	BaseURL      string // "" for the provider's own address
	Organization string // of OpenAI; may be empty
	// Credentials is called for each request, since keys change.
	Credentials func() (Credentials, error)
	Retries     int // of requests that failed temporarily
	HTTP        *http.Client
}

// Credentials are what a provider asks for besides the request.
type Credentials struct {
	Key     string            // "" if none is needed
	Headers map[string]string // sent with each request
}

// hide removes the credentials from a message: providers quote what they reject.
func (c Credentials) hide(message string) string {
	const shortest = 4 // shorter values would remove unrelated text
	secrets := []string{c.Key}
	for _, value := range c.Headers {
		secrets = append(secrets, value)
	}
	for _, secret := range secrets {
		if len(secret) >= shortest {
			message = strings.ReplaceAll(message, secret, "***")
		}
	}
	return message
}

// Model implements llm.Model over a provider's protocol.
type Model struct {
	Config
	URL string
	// Header adds what the provider wants to have there.
	Header func(http.Header, Credentials)
	// Encode returns the body of a request, and a function that makes the decoder of one answer.
	Encode func(*llm.Request) (body any, decoder func(*Answer) Decoder, err error)
}

// Decoder handles the data of one event and fills an Answer.
type Decoder func(data []byte) error

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.Config.Info }

// Generate implements llm.Model. A request that failed temporarily before a piece of its answer was passed on is repeated; this is the
// only place that retries.
func (m *Model) Generate(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error) (*llm.Reply, error) {
	body, decoder, err := m.Encode(r)
	if err != nil {
		return &llm.Reply{}, err
	}
	raw, err := strictjson.Marshal(body)
	if err != nil {
		return &llm.Reply{}, &llm.Error{Class: llm.BadRequest, Message: "the request cannot be written as JSON: " + err.Error(), Err: err}
	}
	var spent llm.Usage
	for try := 0; ; try++ {
		credentials, err := m.Credentials()
		if err != nil {
			return &llm.Reply{Usage: spent}, &llm.Error{Class: llm.Auth, Message: err.Error(), Err: err}
		}
		a := &Answer{Reply: &llm.Reply{Usage: llm.Usage{Requests: 1}}, onDelta: onDelta}
		err = a.result(ctx, m.send(ctx, raw, credentials, a, decoder(a)), credentials)
		spent = spent.Add(a.Reply.Usage)
		a.Reply.Usage = spent
		var failure *llm.Error
		if a.started || try == m.Retries || spent.Requests == r.MaxRequests || !errors.As(err, &failure) || !failure.Temporary() || failure.RetryAfter > maxPause {
			return a.Reply, err
		}
		if err := pause(ctx, try, failure.RetryAfter); err != nil {
			return a.Reply, err
		}
	}
}

// pause waits before the next try.
func pause(ctx context.Context, try int, asked time.Duration) error {
	wait := asked
	if wait == 0 {
		wait = min(firstPause<<try, longestPause)
		wait -= time.Duration(rand.Int64N(int64(wait) / 4)) //nolint:gosec // no secret: clients that failed together should not come back together
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxWait is how long a provider may take until it begins to answer.
const maxWait = 5 * time.Minute

// NewHTTPClient makes the client that all models of a planner share.
func NewHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: maxWait,
			IdleConnTimeout:       time.Minute,
			MaxIdleConnsPerHost:   16,
			ForceAttemptHTTP2:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
}
