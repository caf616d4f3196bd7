package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// outcome makes of an exchange what it came to. err is mcp-go's word, which counts only where nothing was answered.
func (c *client) outcome(x *exchange, err error) (json.RawMessage, error) {
	r := x.report()
	switch {
	case r.rpcErr == nil && r.result != nil:
		return r.result, nil
	case r.barred != nil:
		return nil, r.barred
	}
	if err == nil {
		err = errMalformed
	}
	e := *c.diagnose(r, err)
	e.Message = c.hide(e.Message)
	return nil, &e
}

// lost is the end of a request whose connection ended.
func (c *client) lost(r report) *Error {
	e, byItself := *errClosed, true
	switch err := c.Err(); {
	case err != nil:
		e = *As(err) // also where it was closed since, as what is of no use
	case !c.closing.Load():
		e = *c.obituary()
	default:
		byItself = false
	}
	e.Sent, e.Lost = r.sent, true
	// A server that never got so far as to shake hands fails the same way again.
	e.Transient = byItself && c.info != Info{} && e.Kind == Unavailable
	return &e
}

func (c *client) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *client) diagnose(r report, err error) *Error {
	broke := r.cause != nil && !errors.Is(r.cause, errMalformed) // the network, not the server's words
	if r.cause == nil {
		r.cause = err
	}
	var known *Error
	switch {
	case r.rpcErr != nil && (r.status == 0 || r.status/100 == 2):
		return &Error{Kind: Answered, Code: r.rpcErr.Code, Sent: true, Message: cut(r.rpcErr.Message)}
	case errors.Is(err, os.ErrClosed), errors.Is(err, transport.ErrTransportClosed), c.isDone():
		return c.lost(r)
	case errors.Is(err, errAbandoned), errors.Is(err, errNotQueued):
		return &Error{Kind: Unavailable, Message: strip(err), Err: err}
	case errors.As(r.cause, &known), errors.As(err, &known):
		e := *known
		e.Sent = r.sent
		return &e
	case r.status != 0 && r.status != http.StatusOK && r.status != http.StatusAccepted:
		return refused(r)
	case errors.Is(r.cause, context.Canceled), errors.Is(r.cause, context.DeadlineExceeded):
		return &Error{Kind: Interrupted, Message: r.cause.Error(), Sent: r.sent, Err: r.cause}
	}
	if !broke && (r.status != 0 || errors.Is(r.cause, errMalformed)) {
		return &Error{Kind: Protocol, Sent: r.sent, Err: r.cause,
			Message: "the server's answer is not MCP: " + cut(strip(r.cause))}
	}
	// Nothing was answered. What was never sent may do better on a new connection.
	return &Error{Kind: Unavailable, Sent: r.sent, Lost: true, Transient: networkPasses(r.cause), Err: r.cause,
		Message: "the server cannot be reached: " + cut(strip(r.cause))}
}

// refused is an HTTP status instead of an answer. Those that say that the request was not even looked at prove that no
// tool ran; behind all others one may have.
func refused(r report) *Error {
	e := &Error{Kind: Unavailable, Sent: true, Err: errors.Join(&statusError{r.status}, r.cause),
		Message: "the server answered HTTP " + statusText(r.status)}
	e.Transient, e.RetryAfter = statusPasses(r.status), r.retryAfter
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Kind, e.Sent = Unauthorized, false
		e.Message += ": it wants a credential, or another one; put it in the server's `headers`"
		return e
	case http.StatusNotFound:
		if r.rpcErr != nil && r.rpcErr.Code == mcp.METHOD_NOT_FOUND {
			break // since 2026-07-28 this is how a server says that it does not know the method
		}
		e.Sent, e.Lost = false, true
		e.Message += ": it does not know the session, or the address is wrong"
		return e
	case http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		e.Sent = false
		return e
	}
	if r.rpcErr == nil {
		return e
	}
	e.Message += ": " + cut(r.rpcErr.Message)
	if r.status == http.StatusBadRequest && strings.Contains(strings.ToLower(r.rpcErr.Message), "session") {
		// Some servers say so instead of 404 once they have forgotten a session.
		e.Sent, e.Lost = false, true
		return e
	}
	e.Kind, e.Code = Answered, r.rpcErr.Code
	return e
}

func statusText(status int) string {
	return strings.TrimSpace(http.StatusText(status)) + " (" + strconv.Itoa(status) + ")"
}

// strip takes mcp-go's layers of "transport error: failed to send request: …" off an error's text.
func strip(err error) string {
	text := err.Error()
	for _, layer := range []string{"transport error: ", "failed to send request: ", "failed to send request: "} {
		text = strings.TrimPrefix(text, layer)
	}
	return text
}
