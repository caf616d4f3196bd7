package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// errMalformed means that an answer is JSON but not one to the request.
var errMalformed = errors.New("the answer is not a JSON-RPC response to the request")

// tap wraps a transport of mcp-go: it notes in the request's exchange that it was handed over, and what came back.
type tap struct {
	transport.Interface
	// blind: the transport does not tell whether a request went out, so whatever it was given counts as sent.
	blind bool
	// undelivered says of a request that failed whether it is certain that it never arrived; nil where nobody can say.
	undelivered func(mcp.RequestId) bool
	// gone is closed once the transport is known to lead nowhere; nil where that never shows.
	gone <-chan struct{}
	// judge reads what was put in the place of answers; nil where they are ours.
	judge *judge
	// serve answers requests of the server; false leaves one to mcp-go.
	serve func(context.Context, transport.JSONRPCRequest) (*transport.JSONRPCResponse, bool)
}

// SendRequest implements transport.Interface.
func (t *tap) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	x := exchangeOf(ctx)
	if x.written != nil {
		*x.written = request
		return nil, errNotQueued
	}
	if err := t.begin(x, &request); err != nil {
		return nil, err
	}
	response, err := t.Interface.SendRequest(ctx, request)
	if err := t.finish(ctx, x, request, response, err); err != nil {
		return nil, err
	}
	if response.Error == nil && x.stub != nil && (x.unless == nil || !x.unless(response.Result)) {
		short := *response
		short.Result = x.stub
		return &short, nil
	}
	return response, nil
}

// begin says that the transport gets a request now. An error keeps it back.
func (t *tap) begin(x *exchange, request *transport.JSONRPCRequest) error {
	select {
	case <-t.gone:
		return errors.Join(errNotQueued, os.ErrClosed)
	default:
	}
	if x.amend != nil {
		if err := x.amend(request); err != nil {
			return errors.Join(errNotQueued, err)
		}
	}
	return x.begin(request.ID, t.blind)
}

// finish notes what came back, or that nothing did.
func (t *tap) finish(ctx context.Context, x *exchange, request transport.JSONRPCRequest, response *transport.JSONRPCResponse, err error) error {
	if err != nil {
		return t.failed(ctx, x, request, err)
	}
	if err := t.examine(request, response); err != nil {
		x.blame(err)
		return err
	}
	x.answer(response.Result, response.Error)
	return nil
}

// failed notes that a request came to nothing, and returns why.
func (t *tap) failed(ctx context.Context, x *exchange, request transport.JSONRPCRequest, err error) error {
	if errors.Is(err, errNotQueued) || t.undelivered != nil && ctx.Err() == nil && t.undelivered(request.ID) {
		x.notSent()
	}
	return err
}

// examine refuses answers that cannot be used.
func (t *tap) examine(request transport.JSONRPCRequest, response *transport.JSONRPCResponse) error {
	if err := check(request, response); err != nil {
		return err
	}
	if verdict := t.judge.read(response.Error); verdict != nil {
		return verdict
	}
	return nil
}

// check refuses answers to somebody else and answers that say nothing. An error may lack the id: servers that could not
// read the request do not know it.
func check(request transport.JSONRPCRequest, response *transport.JSONRPCResponse) error {
	switch {
	case response == nil:
		return errMalformed
	case response.ID.IsNil() && response.Error != nil:
		return nil
	case response.ID.String() != request.ID.String():
		return fmt.Errorf("%w: its id is %s, not %s", errMalformed, response.ID, request.ID)
	case response.Error == nil && len(response.Result) == 0:
		return fmt.Errorf("%w: it has neither result nor error", errMalformed)
	}
	return nil
}

// SendNotification implements transport.Interface.
func (t *tap) SendNotification(ctx context.Context, notification mcp.JSONRPCNotification) error {
	if notification.Method == string(mcp.MethodNotificationCancelled) && exchangeOf(ctx).ownCancel {
		return nil
	}
	return t.Interface.SendNotification(ctx, notification)
}

// SetRequestHandler lets servers ask back where the transport can; mcp-go looks for this method.
func (t *tap) SetRequestHandler(handler transport.RequestHandler) {
	b, ok := t.Interface.(transport.BidirectionalInterface)
	if !ok {
		return
	}
	b.SetRequestHandler(func(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		if response, ours := t.serve(ctx, request); ours {
			return response, nil
		}
		return handler(ctx, request)
	})
}

// httpTap is the tap of an HTTP transport, which mcp-go tells from others by these methods.
type httpTap struct{ tap }

// SetProtocolVersion implements transport.HTTPConnection.
func (t *httpTap) SetProtocolVersion(version string) {
	if h, ok := t.Interface.(transport.HTTPConnection); ok {
		h.SetProtocolVersion(version)
	}
}

// RequiresLegacyProtocol says whether only revisions before 2026-07-28 will do.
func (t *httpTap) RequiresLegacyProtocol() bool {
	l, ok := t.Interface.(interface{ RequiresLegacyProtocol() bool })
	return ok && l.RequiresLegacyProtocol()
}
