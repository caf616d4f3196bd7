package llm

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"time"

	"pawl.dev/services/strictjson"
)

const (
	// firstPause is the pause before the first retry; it doubles with each, up to longestPause. A provider that wants a longer one
	// than maxPause is not asked again.
	firstPause   = 500 * time.Millisecond
	longestPause = 8 * time.Second
	maxPause     = time.Minute
	// maxSilence is how long a provider may pause in the middle of its answer.
	maxSilence = 2 * time.Minute
	// maxAnswer bounds what is read of one answer: some hundred thousand tokens, each in an event of its own.
	maxAnswer = 64 << 20
	// maxErrorBody bounds what is read of an answer that is an error.
	maxErrorBody = 64 << 10
)

// Config is a model at a provider's address.
type Config struct {
	Info         Info
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

// Client implements Model over HTTP and server-sent events.
type Client struct {
	Config
	format format
}

// format is a provider's wire format.
type format struct {
	url    func(c *Config) string
	header func(h http.Header, c *Config, key string)
	encode func(c *Config, r *Request) (body any, err error)
	decode func(a *answer, data []byte) error // adds the data of one event to the answer
}

// object is a part of a request's JSON.
type object = map[string]any

// New makes the model of a provider. It sends nothing before the first request.
func New(c Config) *Client {
	if c.Info.Provider == ProviderAnthropic {
		return &Client{c, anthropicMessages}
	}
	return &Client{c, chatCompletions}
}

// NewHTTPClient makes the client that all models of a planner share. It follows no redirect, which would carry keys elsewhere.
func NewHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is what net/http sets
	transport.MaxIdleConnsPerHost = 16
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect }}
}

// Info implements Model.
func (c *Client) Info() Info { return c.Config.Info }

// Generate implements Model. A request that failed temporarily before a piece of its answer was passed on is repeated; this is the only
// place that retries.
func (c *Client) Generate(ctx context.Context, r *Request, onDelta func(Delta) error) (*Reply, error) {
	body, err := c.format.encode(&c.Config, r)
	if err != nil {
		return &Reply{}, err
	}
	raw, err := strictjson.Marshal(body)
	if err != nil {
		return &Reply{}, errorf(BadRequest, "the request cannot be written as JSON: %w", err)
	}
	var spent Usage
	for try := 0; ; try++ {
		a := &answer{onDelta: onDelta, byTool: r.Output != nil && c.Info().Schema == SchemaByTool, calls: map[int]int{}}
		err := c.send(ctx, raw, a)
		spent = spent.Add(a.reply.Usage)
		a.reply.Usage = spent
		var failure *Error
		if a.started || try == c.Retries || spent.Requests == r.MaxRequests || !errors.As(err, &failure) || !failure.Temporary() || failure.RetryAfter > maxPause {
			return &a.reply, err
		}
		if err := pause(ctx, try, failure.RetryAfter); err != nil {
			return &a.reply, err
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

// send makes one request and reads its answer.
func (c *Client) send(ctx context.Context, body string, a *answer) error {
	credentials, err := c.Credentials()
	if err != nil {
		return errorf(Auth, "%w", err)
	}
	a.reply.Usage.Requests = 1
	err = a.finish(c.exchange(ctx, body, credentials, a))
	switch {
	case err == nil || a.failed != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	e := *classify(err)
	e.Message = credentials.hide(e.Message)
	return &e
}

// exchange makes one HTTP request and decodes the events of its response.
func (c *Client) exchange(ctx context.Context, body string, credentials Credentials, a *answer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.format.url(&c.Config), strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("User-Agent", "pawl")
	c.format.header(request.Header, &c.Config, credentials.Key)
	for name, value := range credentials.Headers {
		request.Header.Set(name, value)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode < 200 || response.StatusCode > 299 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
		return providerError(text, response.StatusCode, response.Header)
	}
	a.reply.Usage.Unreported = true
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilence) })
	defer silence.Stop()
	err = readEvents(&bounded{response.Body, maxAnswer, silence}, kind, func(data []byte) error { return c.format.decode(a, data) })
	if errors.Is(context.Cause(ctx), errSilence) {
		return errSilence
	}
	return err
}

// bounded bounds how much is read, and how long each read takes.
type bounded struct {
	io.Reader
	left    int
	silence *time.Timer
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	b.silence.Reset(maxSilence)
	return n, err
}
