package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/llm"
)

const (
	// maxText bounds the text and the calls of an answer.
	maxText = 4 << 20
	// maxAnswer bounds what is read of one answer: some hundred thousand tokens, each in an event of its own.
	maxAnswer = 64 << 20
	// maxErrorBody bounds what is read of an answer that is an error.
	maxErrorBody = 64 << 10
	// maxSilence is how long a provider may pause in the middle of its answer.
	maxSilence = 2 * time.Minute
)

var (
	// ErrDone is returned by a decoder that needs no more events.
	ErrDone     = errors.New("the answer is whole")
	errRedirect = errors.New("it redirects elsewhere; set `baseUrl` to where it leads, if that is right")
	errTooMuch  = errors.New("its answer is longer than any answer may be")
	errSilence  = errors.New("it fell silent in the middle of its answer")
	errCutOff   = &llm.Error{Class: llm.Broken, Message: "the answer broke off before its end"}
)

// Answer collects the answer to one request while its events arrive. A decoder fills it.
type Answer struct {
	Reply *llm.Reply
	// Whole is set once the reason to stop has arrived: the end of the events alone does not tell a whole answer from a cut one.
	Whole bool
	// Reported is set once the final token counts have arrived.
	Reported bool

	onDelta func(llm.Delta) error
	started bool  // onDelta was called
	failed  error // of onDelta, or that the answer is too long
	size    int
	text    strings.Builder
	args    []strings.Builder // by position in Reply.Calls
}

// Text adds text.
func (a *Answer) Text(text string) error {
	if text == "" || !a.fits(text) {
		return a.failed
	}
	a.text.WriteString(text)
	return a.emit(llm.Delta{Text: text})
}

// Call begins a tool call and returns its index. A call without an id gets one: results refer to it.
func (a *Answer) Call(id, name string) (int, error) {
	if id == "" {
		id = "call_" + rand.Text()
	}
	index := len(a.Reply.Calls)
	a.Reply.Calls = append(a.Reply.Calls, &plannerv1.ModelToolCall{Id: id, Name: name})
	a.args = append(a.args, strings.Builder{})
	return index, a.emit(llm.Delta{Call: true})
}

// Arguments adds to the arguments of a tool call.
func (a *Answer) Arguments(index int, text string) error {
	if a.fits(text) {
		a.args[index].WriteString(text)
	}
	return a.failed
}

// fits counts a text, and fails the answer if it becomes too long.
func (a *Answer) fits(text string) bool {
	if a.size += len(text); a.size > maxText {
		a.failed = &llm.Error{Class: llm.Broken, Message: "its answer has more than 4 MiB"}
	}
	return a.failed == nil
}

func (a *Answer) emit(d llm.Delta) error {
	a.started = true
	if a.onDelta != nil {
		a.failed = a.onDelta(d)
	}
	return a.failed
}

// send makes one HTTP request and decodes its answer.
func (m *Model) send(ctx context.Context, body string, credentials Credentials, a *Answer, decode Decoder) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("User-Agent", "pawl")
	m.Header(request.Header, credentials)
	for name, value := range credentials.Headers {
		request.Header.Set(name, value)
	}
	response, err := m.HTTP.Do(request)
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
	err = readEvents(&bounded{response.Body, maxAnswer, silence}, kind, decode)
	switch {
	case errors.Is(context.Cause(ctx), errSilence):
		return errSilence
	case errors.Is(err, ErrDone):
		return nil
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

// result puts what was collected into the reply, and turns the error of a request into that of Generate.
func (a *Answer) result(ctx context.Context, err error, credentials Credentials) error {
	a.Reply.Text = a.text.String()
	for i, call := range a.Reply.Calls {
		call.InputJson = a.args[i].String()
		if a.Whole && strings.TrimSpace(call.InputJson) == "" {
			call.InputJson = "{}"
		}
	}
	a.Reply.Usage.Unreported = a.Reply.Usage.Unreported && !a.Reported
	switch {
	case a.failed != nil:
		return a.failed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.Whole && (err == nil || classify(err).Class == llm.Unavailable): // the connection may break after the answer
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
	class := llm.Broken
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, errRedirect):
		class = llm.NotFound
	case errors.Is(err, errSilence), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &network):
		class = llm.Unavailable
	}
	return &llm.Error{Class: class, Message: err.Error(), Err: err}
}
