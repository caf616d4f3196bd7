package llm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

const (
	// firstPause is the pause before the first retry; it doubles with each, up to longestPause. A provider that asks for a pause longer
	// than maxPause is not retried.
	firstPause   = 500 * time.Millisecond
	longestPause = 8 * time.Second
	maxPause     = time.Minute
	// maxSilence is how long a provider may pause in the middle of its answer.
	maxSilence = 2 * time.Minute
	// maxAnswer bounds the bytes read of one answer: some hundred thousand tokens, each in its own event.
	maxAnswer = 64 << 20
	// maxErrorBody bounds the bytes read of an error response.
	maxErrorBody = 64 << 10
)

// Config is a model at a provider's address.
type Config struct {
	Info    Info
	BaseURL string // "" for the provider's own address
	// Credentials is called for each request, since keys change.
	Credentials func() (Credentials, error)
	KeyAdvice   string        // what to do if the key is rejected
	Timeout     time.Duration // of one request, including the wait for a slot (AtOnce)
	Retries     int           // of requests that failed temporarily
	AtOnce      int           // the most requests that run concurrently
	HTTP        *http.Client
	// Admit counts a call of Generate until leave is called, or refuses it.
	Admit func(ctx context.Context, r *Request) (leave func(), err error)
	// Record gets the outcome of each request.
	Record func(ctx context.Context, reply *Reply, began time.Time, err error)
}

// Credentials authenticate requests to a provider.
type Credentials struct {
	Key     string            // "" if none is needed
	Headers map[string]string // sent with each request
}

// hide removes the credentials from a message. Providers quote the key that they reject.
func (c Credentials) hide(message string) string {
	const minLength = 4 // hiding shorter values would remove unrelated text
	for _, secret := range append(slices.Collect(maps.Values(c.Headers)), c.Key) {
		if len(secret) >= minLength {
			message = strings.ReplaceAll(message, secret, "***")
		}
	}
	return message
}

// Client implements Model over HTTP and server-sent events.
type Client struct {
	Config
	Fallback *Client // asked if this client fails temporarily; may be nil

	format format
	slots  chan struct{}
}

// format is a provider's wire format.
type format struct {
	url       func(base string) string
	headers   map[string]string
	keyHeader string
	keyPrefix string
	encode    func(c *Config, r *Request) (body any, err error)
	decode    func(a *answer, data []byte) error // adds the data of one event to the answer
}

// object is a part of a request's JSON.
type object = map[string]any

// New returns the client for a model.
func New(c Config) *Client {
	f := chatCompletions
	if c.Info.Provider == ProviderAnthropic {
		f = anthropicMessages
	}
	return &Client{Config: c, format: f, slots: make(chan struct{}, c.AtOnce)}
}

// NewHTTPClient makes the HTTP client that all models of a planner share. It does not follow redirects, which would send keys to other servers.
func NewHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is what net/http sets
	transport.MaxIdleConnsPerHost = 16
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect }}
}

// Info implements Model.
func (c *Client) Info() Info { return c.Config.Info }

// Generate implements Model. It repeats a request that failed temporarily, and then sends it to the fallback. If onDelta already got a part of the
// reply, r.Restart has to drop that part first. Errors of providers and networks are *errs.Error and name the model.
func (c *Client) Generate(ctx context.Context, r *Request, onDelta func(Delta) error) (*Reply, error) {
	leave, err := c.Admit(ctx, r)
	if err != nil {
		return &Reply{Name: c.Info().Name}, err
	}
	defer leave()
	var spent Usage
	for try := 0; ; try++ {
		a := &answer{onDelta: onDelta, calls: map[int]int{}, reply: Reply{Name: c.Info().Name}}
		err := c.ask(ctx, r, a)
		spent = spent.Add(a.reply.Usage)
		a.reply.Usage = spent
		var e *Error
		switch {
		case spent.Requests == r.MaxRequests || !errors.As(err, &e) || !e.Temporary() || a.started && (r.Restart == nil || !r.Restart()):
			return &a.reply, err
		case try < c.Retries && e.RetryAfter <= maxPause:
			spread := 1 - rand.Float64()/4 //nolint:gosec // no secret: clients that failed together should not retry together
			pause := time.Duration(spread * float64(min(firstPause<<try, longestPause)))
			select {
			case <-time.After(cmp.Or(e.RetryAfter, pause)):
			case <-ctx.Done():
				return &a.reply, context.Cause(ctx)
			}
		case c.Fallback != nil && c.Fallback.Config.Info.Price.Within(r.MaxPrice):
			c, try = c.Fallback, -1
		default:
			return &a.reply, err
		}
	}
}

// ask makes one request within the limits of the model.
func (c *Client) ask(ctx context.Context, r *Request, a *answer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errs.New(codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
		"the model %q took longer than %v; ask for less, or raise its `timeout`", c.Info().Name, c.Timeout))
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // also if it ended while the request waited for a slot
		return context.Cause(ctx)
	}
	began := time.Now()
	body, err := c.encode(r, a)
	if err == nil {
		err = c.send(ctx, body, a)
	}
	a.reply.Usage = a.reply.Usage.PricedBy(c.Info().Price)
	c.Record(ctx, &a.reply, began, err)
	var e *Error
	if errors.As(err, &e) {
		switch {
		case e.Class == Auth && e.Advice == "":
			e.Advice = c.KeyAdvice
		case e.Class == BadRequest && a.reply.Usage.Requests == 0: // it was not sent
			e.Advice = "it cannot serve this request; change the request, or choose another model"
		}
		return e.Public(c.Info().Name)
	}
	return err
}

// encode returns the body of a request, with the reply's length bounded by the model's maximum, and sets a.isForcedCall. It refuses tools and pictures
// if the model takes none.
func (c *Client) encode(r *Request, a *answer) (string, error) {
	info, bounded := c.Info(), *r
	if len(r.Tools) > 0 && !info.Tools {
		return "", errorf(BadRequest, "it is configured with `tools: false`")
	}
	if !info.Images && slices.ContainsFunc(r.Messages, func(m *plannerv1.ModelMessage) bool {
		return slices.ContainsFunc(m.GetParts(), func(p *plannerv1.ModelPart) bool { return p.GetImage() != nil })
	}) {
		return "", errorf(BadRequest, "it is configured with `images: false`")
	}
	if r.MaxTokens <= 0 || r.MaxTokens > info.MaxTokens {
		bounded.MaxTokens = info.MaxTokens
	}
	if !info.Schema {
		bounded.Output = nil
	}
	a.isForcedCall = bounded.Output != nil && info.Provider == ProviderAnthropic
	body, err := c.format.encode(&c.Config, &bounded)
	if err != nil {
		return "", err
	}
	return strictjson.Marshal(body)
}

// send makes one request with the current credentials, completes its answer, and hides the credentials in errors.
func (c *Client) send(ctx context.Context, body string, a *answer) error {
	credentials, err := c.Credentials()
	if err != nil {
		return errorf(Auth, "%v", err)
	}
	a.reply.Usage.Requests = 1
	err = a.finish(c.exchange(ctx, body, credentials, a))
	if err == nil || a.failure != nil {
		return err
	}
	var known *Error
	var network net.Error
	e := Error{Class: Broken, Message: err.Error()}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &known):
		e = *known
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &network):
		e.Class = Unavailable
		e.public = credentials.hide(errs.PublicText(err))
	}
	e.Message = credentials.hide(e.Message)
	return &e
}

// exchange makes one HTTP request and decodes the events of its response.
func (c *Client) exchange(ctx context.Context, body string, credentials Credentials, a *answer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.format.url(c.BaseURL), strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("User-Agent", "pawl")
	if credentials.Key != "" {
		request.Header.Set(c.format.keyHeader, c.format.keyPrefix+credentials.Key)
	}
	for _, headers := range []map[string]string{c.format.headers, credentials.Headers} {
		for name, value := range headers {
			request.Header.Set(name, value)
		}
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
	text := &io.LimitedReader{R: response.Body, N: maxAnswer}
	err = readEvents(text, kind, func() { silence.Reset(maxSilence) }, func(data []byte) error { return c.format.decode(a, data) })
	switch {
	case errors.Is(context.Cause(ctx), errSilence):
		return errSilence
	case text.N <= 0:
		return errTooMuch
	}
	return err
}
