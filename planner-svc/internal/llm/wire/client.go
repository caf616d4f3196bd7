package wire

import (
	"context"

	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/llm"
)

const (
	// maxAnswer bounds what is read of one answer: some hundred thousand tokens, each in an event of its own.
	maxAnswer = 64 << 20
	// maxErrorBody bounds what is read of an answer that is an error.
	maxErrorBody = 64 << 10
	// maxSilence is how long a provider may pause in the middle of its answer.
	maxSilence = 2 * time.Minute
	// firstPause is the pause before the first retry; it doubles with each, up to longestPause. A provider that wants a longer one
	// than maxPause is not asked again.
	firstPause   = 500 * time.Millisecond
	longestPause = 8 * time.Second
	maxPause     = time.Minute
)

var (
	errRedirect = errors.New("it redirects elsewhere; set `baseUrl` to where it leads, if that is right")
	errTooMuch  = errors.New("its answer is longer than any answer may be")
	errSilence  = errors.New("it fell silent in the middle of its answer")
	errCutOff   = &llm.Error{Class: llm.Broken, Message: "the answer broke off before its end"}
)

// ErrDone is returned by a decoder that needs no more events.
var ErrDone = errors.New("the answer is whole")

// Decoder handles the events of one answer and fills an Answer.
type Decoder func(kind string, data []byte) error

// Generate posts body to url and reads the answer. A request that failed temporarily before a piece of its answer was passed on is
// repeated; this is the only place that retries. The header function adds what the provider wants to have there.
func Generate(
	ctx context.Context, cfg *Config, url string, header func(http.Header, Credentials), body any,
	decoder func(*Answer) Decoder, onDelta func(llm.Delta) error,
) (*llm.Reply, error) {
	var spent llm.Usage
	raw, err := strictjson.Marshal(body)
	if err != nil {
		return &llm.Reply{}, &llm.Error{Class: llm.BadRequest, Message: "the request cannot be written as JSON: " + err.Error(), Err: err}
	}
	for try := 0; ; try++ {
		credentials, err := cfg.Credentials()
		if err != nil {
			return &llm.Reply{Usage: spent}, &llm.Error{Class: llm.Auth, Message: err.Error(), Err: err}
		}
		a := &Answer{Reply: &llm.Reply{}, onDelta: onDelta}
		a.Reply.Usage.Requests = 1
		err = send(ctx, cfg.HTTP, url, raw, func(h http.Header) {
			header(h, credentials)
			for name, value := range credentials.Headers {
				h.Set(name, value)
			}
		}, a, decoder(a))
		a.finish()
		err = a.result(ctx, err, credentials)
		spent = spent.Add(a.Reply.Usage)
		a.Reply.Usage = spent
		var failure *llm.Error
		if a.started || try == cfg.Retries || !errors.As(err, &failure) || !failure.Temporary() || failure.RetryAfter > maxPause {
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

// send makes one HTTP request and decodes its answer.
func send(ctx context.Context, client *http.Client, url, body string, header func(http.Header), a *Answer, decode Decoder) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("User-Agent", "pawl")
	header(request.Header)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode < 200 || response.StatusCode > 299 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
		answer := ReadError(text)
		answer.Status, answer.Header = response.StatusCode, response.Header
		return answer.Error()
	}
	a.Reply.Usage.Unreported = true
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilence) })
	defer silence.Stop()
	err = readEvents(&bounded{response.Body, maxAnswer, func() { silence.Reset(maxSilence) }}, kind, decode)
	switch {
	case errors.Is(context.Cause(ctx), errSilence):
		return errSilence
	case errors.Is(err, ErrDone):
		return nil
	}
	return err
}

// bounded bounds how much is read, and reports each read.
type bounded struct {
	io.Reader
	left   int
	notify func()
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	b.notify()
	return n, err
}

// result turns the error of a request into that of Generate.
func (a *Answer) result(ctx context.Context, err error, credentials Credentials) error {
	a.Reply.Usage.Unreported = a.Reply.Usage.Unreported && !a.Reported
	switch {
	case a.failed != nil:
		return a.failed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.Whole && classify(err).Class == llm.Unavailable: // the connection broke after the answer
		return nil
	case err == nil && a.Whole:
		return nil
	case err == nil:
		err = errCutOff
	}
	e := *classify(err)
	e.Message = credentials.hide(e.Message)
	return &e
}

// classify returns the *llm.Error in err, or makes one of an error of the network or of decoding.
func classify(err error) *llm.Error {
	var e *llm.Error
	var network net.Error
	switch {
	case err == nil:
		return &llm.Error{}
	case errors.As(err, &e):
		return e
	case errors.Is(err, errRedirect):
		return &llm.Error{Class: llm.NotFound, Message: err.Error(), Err: err}
	case errors.Is(err, errSilence), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &network):
		return &llm.Error{Class: llm.Unavailable, Message: err.Error(), Err: err}
	}
	return &llm.Error{Class: llm.Broken, Message: err.Error(), Err: err}
}
