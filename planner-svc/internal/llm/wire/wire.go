package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"pawl.dev/planner-svc/internal/llm"
)

const (
	// maxAnswer bounds what is read of one answer: some hundred thousand tokens, each in an event of its own.
	maxAnswer = 64 << 20
	// maxWait is how long a provider may take until it begins to answer, and maxSilence between two pieces.
	maxWait    = 5 * time.Minute
	maxSilence = 2 * time.Minute
)

var (
	errRedirect = errors.New("it redirects elsewhere; set `baseUrl` to where it leads, if that is right")
	errTooMuch  = errors.New("its answer is longer than any answer may be")
	errSilence  = errors.New("it fell silent in the middle of its answer")
)

// NewClient makes a client for the models of one planner.
func NewClient() *http.Client {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: maxWait,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   16,
		ForceAttemptHTTP2:     true,
	}
	return &http.Client{
		Transport:     bounded{transport, maxAnswer, maxSilence},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
}

// bounded bounds what answers bring.
type bounded struct {
	http.RoundTripper
	answer  int
	silence time.Duration
}

// CloseIdleConnections lets a client do that.
func (b bounded) CloseIdleConnections() {
	if t, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, end := context.WithCancelCause(request.Context())
	response, err := b.RoundTripper.RoundTrip(request.WithContext(ctx))
	if err != nil {
		end(nil)
		return nil, err
	}
	response.Body = &body{
		ReadCloser: response.Body, ended: func() error { return context.Cause(ctx) }, end: end, left: b.answer, most: b.silence,
		silence: time.AfterFunc(b.silence, func() { end(errSilence) }), opening: newOpening(response),
	}
	return response, nil
}

type body struct {
	io.ReadCloser
	ended   func() error // why it was ended
	end     context.CancelCauseFunc
	silence *time.Timer
	most    time.Duration // of silence
	left    int           // bytes
	opening *opening
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	b.silence.Reset(b.most)
	if err != nil && errors.Is(b.ended(), errSilence) {
		err = errSilence
	}
	if wrong := b.opening.look(p[:n]); wrong != nil {
		return 0, wrong
	}
	return n, err
}

func (b *body) Close() error {
	b.silence.Stop()
	b.end(nil)
	return b.ReadCloser.Close()
}

// Failed says what an error of a request, or of reading its answer, is: the end of ctx, which is no failure of the model, or one. What
// the key was is taken out of it.
func Failed(ctx context.Context, err error, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := &llm.Error{Class: llm.Unavailable, Err: err}
	var network net.Error
	switch {
	case errors.As(err, &f):
		own := *f // another answer of the same model may be the same value
		f = &own
	case errors.Is(err, errTooMuch):
		f.Class = llm.Broken
	case errors.Is(err, errRedirect):
		f.Class = llm.NotFound
	case errors.As(err, &network), errors.Is(err, errSilence), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
	default:
		f.Class = llm.Broken
	}
	if f.Message == "" {
		f.Message = err.Error()
	}
	f.Message = Hide(f.Message, key)
	return f
}

// Hide takes a key out of a message: providers quote what they refuse.
func Hide(message, key string) string {
	if len(key) < 4 {
		return message
	}
	return strings.ReplaceAll(message, key, "***")
}
