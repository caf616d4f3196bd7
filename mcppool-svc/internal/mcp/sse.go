package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// maxRefusal bounds what is read of a POST's own answer, which says nothing but its status.
const maxRefusal = 64 << 10

// sse is the transport of 2024-11-05 (https://modelcontextprotocol.io/specification/2024-11-05/basic/transports): one GET
// stays open and brings all messages of the server as events; each of ours is a POST to the address that the first event
// names. mcp-go's own answers no requests of the server, leaves calls hanging whose stream was lost, and gives up calls
// after a minute. It implements transport.BidirectionalInterface and transport.HTTPConnection.
type sse struct {
	web   *http.Client
	limit int // bytes of one message
	judge *judge
	lost  func(error) // told once, when the stream ends

	life     context.Context // of the stream and what it brings about
	end      context.CancelFunc
	work     sync.WaitGroup // the reader, and answers on their way
	endpoint *url.URL       // before anybody else has the transport

	mu      sync.Mutex
	version string                                     // guarded by mu; the revision in use
	notify  func(mcp.JSONRPCNotification)              // guarded by mu
	answer  transport.RequestHandler                   // guarded by mu
	waiting map[string]chan *transport.JSONRPCResponse // guarded by mu; nil once the stream is lost
	err     error                                      // guarded by mu; why it is
}

func newSSE(web *http.Client, limit int, lost func(error)) *sse {
	t := &sse{web: web, limit: limit, judge: newJudge(limit), lost: lost, waiting: make(map[string]chan *transport.JSONRPCResponse)}
	t.life, t.end = context.WithCancel(context.Background())
	return t
}

// Start implements transport.Interface; open did it.
func (*sse) Start(context.Context) error { return nil }

// open opens the stream and waits for the address that messages are to be sent to. ctx bounds that, not the stream's life.
func (t *sse) open(ctx context.Context, address string) error {
	stop := context.AfterFunc(ctx, t.end)
	defer stop()
	req, err := http.NewRequestWithContext(withExchange(t.life, exchangeOf(ctx)), http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cache-Control", "no-cache")
	resp, err := t.web.Do(req)
	if err != nil {
		return err
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode != http.StatusOK || strings.TrimSpace(kind) != "text/event-stream" {
		_ = resp.Body.Close()
		return fmt.Errorf("%w: it answered HTTP %s, %q", errNoStream, statusText(resp.StatusCode), cut(kind))
	}
	named := make(chan *url.URL, 1)
	t.work.Go(func() { t.read(resp.Body, resp.Request.URL, named) })
	select {
	case t.endpoint = <-named:
		if t.endpoint == nil {
			return t.why()
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errNoStream means that an address is not one of the older transport.
var errNoStream = errors.New("the server offers no stream of events there")

// SendRequest implements transport.Interface.
func (t *sse) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, errors.Join(errNotQueued, err)
	}
	id, answered := request.ID.String(), make(chan *transport.JSONRPCResponse, 1)
	// The answer may come while the POST is still on its way; a stream that ends, ends both.
	posting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	spare := context.AfterFunc(ctx, cancel)
	posted := make(chan error, 1)
	t.mu.Lock()
	if t.waiting == nil {
		defer t.mu.Unlock()
		cancel()
		return nil, errors.Join(errNotQueued, t.err)
	}
	t.waiting[id] = answered
	t.work.Go(func() {
		defer context.AfterFunc(t.life, cancel)()
		defer cancel()
		posted <- t.post(posting, body)
	})
	t.mu.Unlock()
	defer t.forget(id)
	for {
		select {
		case response := <-answered:
			// To end a POST whose answer is just read would end whichever request net/http has given its connection to.
			if spare() {
				time.AfterFunc(replyLimit, cancel)
			}
			if response == nil {
				return nil, t.why()
			}
			return response, nil
		case err := <-posted:
			if err != nil {
				return nil, err
			}
			posted = nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (t *sse) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, id)
}

// post sends one message.
func (t *sse) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return errors.Join(errNotQueued, err)
	}
	req.Header.Set("Content-Type", "application/json")
	t.mu.Lock()
	if t.version != "" {
		req.Header.Set(transport.HeaderKeyProtocolVersion, t.version)
	}
	t.mu.Unlock()
	resp, err := t.web.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal) // so that the connection can be used again
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("the server answered HTTP %s", statusText(resp.StatusCode))
	}
	return nil
}

// SendNotification implements transport.Interface.
func (t *sse) SendNotification(ctx context.Context, notification mcp.JSONRPCNotification) error {
	body, err := json.Marshal(notification)
	if err != nil {
		return err
	}
	return t.post(ctx, body)
}

// SetNotificationHandler implements transport.Interface.
func (t *sse) SetNotificationHandler(handler func(mcp.JSONRPCNotification)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notify = handler
}

// SetRequestHandler implements transport.BidirectionalInterface.
func (t *sse) SetRequestHandler(handler transport.RequestHandler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer = handler
}

// SetProtocolVersion implements transport.HTTPConnection.
func (t *sse) SetProtocolVersion(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version = version
}

// RequiresLegacyProtocol keeps to the revisions that have this transport.
func (*sse) RequiresLegacyProtocol() bool { return true }

// GetSessionId implements transport.Interface; the session is in the address.
func (*sse) GetSessionId() string { return "" }

// Close implements transport.Interface.
func (t *sse) Close() error {
	t.fail(errClosed)
	t.end()
	t.work.Wait()
	return nil
}

// fail ends everything that waits for the stream. The first reason stays.
func (t *sse) fail(err error) {
	t.mu.Lock()
	waiting := t.waiting
	if waiting != nil {
		t.waiting, t.err = nil, err
	}
	for _, ch := range waiting {
		select {
		case ch <- nil:
		default: // it has its answer
		}
	}
	t.mu.Unlock()
	if waiting != nil {
		t.lost(err)
	}
}

func (t *sse) why() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		return errClosed
	}
	return t.err
}

// streamLost is why a stream of events ended that should not have.
func streamLost(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	reason := "the server closed it"
	if err != nil && !errors.Is(err, io.EOF) {
		reason = cut(strip(err))
	}
	return &Error{Kind: Unavailable, Sent: true, Lost: true, Err: err, Message: "the stream of the server's messages was lost: " + reason}
}
