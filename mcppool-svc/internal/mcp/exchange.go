package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// errAbandoned stops a request that its caller gave up before it was sent.
var errAbandoned = errors.New("given up before it was sent")

// exchange is what happened to one request, below mcp-go: whether it can have reached the server, and what came back,
// raw. It rides in the request's context from the client's methods through mcp-go to the tap and the round tripper.
type exchange struct {
	// stub is handed to mcp-go in place of a result, so that it does not parse what is parsed again above.
	stub json.RawMessage
	// unless says for which results that is not done, since mcp-go has to see them; may be nil.
	unless func(json.RawMessage) bool
	// written takes the request as mcp-go writes it, in the place of the server; nil where it is to be sent.
	written *transport.JSONRPCRequest
	// ownCancel: the client tells the server itself when the call is cancelled; mcp-go's own message is dropped.
	ownCancel bool
	// gate has the last word on whether the request goes out; may be nil.
	gate func() error
	// wants is the id of the request, as it is written, whose result is kept before mcp-go reads it; nil where it is not.
	wants []byte
	// run is the tool call that the request is of; amend changes the request before it goes out. Both may be nil.
	run   *running
	amend func(*transport.JSONRPCRequest) error

	mu         sync.Mutex
	id         mcp.RequestId            // guarded by mu; set once handed over
	handed     bool                     // guarded by mu; the transport has it
	abandoned  bool                     // guarded by mu; it must not be handed over any more
	sent       bool                     // guarded by mu; it may have reached the server
	kept       json.RawMessage          // guarded by mu; a result that mcp-go sees an empty one of
	result     json.RawMessage          // guarded by mu
	rpcErr     *mcp.JSONRPCErrorDetails // guarded by mu
	status     int                      // guarded by mu; HTTP status, 0 where there was none
	retryAfter time.Duration            // guarded by mu; what came with the status
	cause      error                    // guarded by mu; what the transport saw, where mcp-go loses it
	barred     error                    // guarded by mu; what the gate said
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a request; one that nobody looks at where there is none.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// begin says that the transport gets the request now; assumeSent, that nobody will find out how far it went.
func (x *exchange) begin(id mcp.RequestId, assumeSent bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.abandoned {
		return errAbandoned
	}
	if x.gate != nil && !x.handed {
		if x.barred = x.gate(); x.barred != nil {
			return x.barred
		}
	}
	x.id, x.handed = id, true
	x.sent = x.sent || assumeSent
	return nil
}

// isOf says whether a server means this request by an id, which some send as text.
func (x *exchange) isOf(id any) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, own, _ := strings.Cut(x.id.String(), ":")
	_, given, _ := strings.Cut(mcp.NewRequestId(id).String(), ":")
	return own == given
}

// abandon keeps a request that was not handed over from being so, and returns the id of one that was.
func (x *exchange) abandon() (id mcp.RequestId, handed bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.abandoned = true
	return x.id, x.handed
}

// notSent takes back what begin assumed.
func (x *exchange) notSent() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status/100 == 2 {
		return // the server took it; this is about what followed under the same context
	}
	x.sent = false
}

func (x *exchange) markSent() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = true
}

// markStatus keeps the status; what follows success is of answers to the server's own requests, which mcp-go sends under the
// same context.
func (x *exchange) markStatus(status int, retryAfter time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status != http.StatusOK {
		x.status, x.retryAfter = status, retryAfter
	}
}

// blame keeps the first cause.
func (x *exchange) blame(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cause == nil {
		x.cause = err
	}
}

// keep takes the result of the request out of a message; false where it is another message, or an error.
func (x *exchange) keep(m message) bool {
	if x.wants == nil || m.Result == nil || m.Error != nil || !bytes.Equal(m.ID, x.wants) {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.kept == nil { // the first answer is the one
		x.kept = m.Result
	}
	return true
}

// answer notes what came back; what was kept of it before counts.
func (x *exchange) answer(result json.RawMessage, rpcErr *mcp.JSONRPCErrorDetails) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.kept != nil && rpcErr == nil {
		result = x.kept
	}
	x.result, x.rpcErr = result, rpcErr
}

// report is a copy of what is known.
type report struct {
	sent   bool
	result json.RawMessage
	rpcErr *mcp.JSONRPCErrorDetails
	status int
	// retryAfter came with the status.
	retryAfter time.Duration
	cause      error
	barred     error
}

func (x *exchange) report() report {
	x.mu.Lock()
	defer x.mu.Unlock()
	return report{sent: x.sent, result: x.result, rpcErr: x.rpcErr, status: x.status, retryAfter: x.retryAfter, cause: x.cause, barred: x.barred}
}
