package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/registry"
)

// errNoStream means that an address is not one of the older HTTP transport.
var errNoStream = errors.New("the server offers no stream of events there")

// sse is the transport of 2024-11-05 (https://modelcontextprotocol.io/specification/2024-11-05/basic/transports): one GET
// stays open and brings all messages of the server as events; each of ours is a POST to the address that the first event
// names.
type sse struct {
	receiver
	web    *http.Client
	client *client

	life     context.Context // of the stream and all POSTs
	end      context.CancelFunc
	work     sync.WaitGroup // the reader, and POSTs
	endpoint *url.URL       // set by open

	state   sync.Mutex // beside the receiver's own
	version string     // guarded by state; the revision in use
	closed  bool       // guarded by state
}

// connectSSE connects by the older HTTP transport.
func (c *Connector) connectSSE(ctx context.Context, s *registry.Server, user string) (*client, error) {
	web, err := c.newWeb(s, user)
	if err != nil {
		return nil, err
	}
	conn := newClient(s, legacy, c.cfg.Version, c.log)
	conn.hide = web.hide
	wire := newSSE(web.client, c.cfg.MaxMessage, conn)
	conn.wire = wire
	if err = wire.open(ctx, s.HTTP.URL); err == nil {
		err = conn.handshake(ctx)
	}
	if err != nil {
		failure := *As(err)
		failure.Message = "MCP server " + s.ID + " at " + place(web.origin) + ": " + conn.hide(failure.Message)
		return nil, errors.Join(&failure, conn.Close())
	}
	return conn, nil
}

func newSSE(web *http.Client, limit int, conn *client) *sse {
	t := &sse{web: web, client: conn}
	t.limit, t.pass = limit, conn.passer(newThrottle())
	t.life, t.end = context.WithCancel(context.Background())
	return t
}

// open opens the stream and waits for the address that messages are to be sent to. ctx bounds that, not the stream's life.
func (t *sse) open(ctx context.Context, address string) error {
	stop := context.AfterFunc(ctx, t.end)
	defer stop()
	req, err := http.NewRequestWithContext(t.life, http.MethodGet, address, nil)
	if err != nil {
		return Errorf(Misconfigured, "%w", err)
	}
	req.Header.Set("Accept", eventsType)
	req.Header.Set("Cache-Control", "no-cache")
	resp, err := t.web.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return t.client.noAnswer(ctx)
	case err != nil:
		e := networkError(err, false)
		if e.Kind == Unavailable {
			e.Message, e.Lost, e.Transient = cut(e.Err.Error()), false, false
		}
		return e
	case resp.StatusCode != http.StatusOK || mediaType(resp) != eventsType:
		defer discard(resp)
		return noStream(resp)
	}
	named := make(chan *url.URL, 1)
	t.work.Go(func() { t.read(resp.Body, resp.Request.URL, named) })
	select {
	case t.endpoint = <-named:
		if t.endpoint == nil {
			e := *As(t.client.Err())
			e.Sent = false
			return &e
		}
		return nil
	case <-ctx.Done():
		return t.client.noAnswer(ctx)
	}
}

// noStream is the error of an address that offers no stream.
func noStream(resp *http.Response) *Error {
	var e *Error
	if resp.StatusCode/100 == 2 {
		e = Errorf(Protocol, "%w: it answered HTTP %s, %q", errNoStream, statusText(resp.StatusCode), cut(mediaType(resp)))
	} else {
		e = refused(resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"), time.Now()), nil)
		e.Err = errors.Join(errNoStream, e.Err)
	}
	e.Sent = false // no tool was called
	return e
}

// start implements transport. The response may come while the POST is still in progress.
func (t *sse) start(x *pendingRequest) {
	ctx, cancel := context.WithCancel(t.life)
	x.cancel = cancel
	t.state.Lock()
	defer t.state.Unlock()
	if t.closed {
		cancel()
		x.deliver(response{err: errClosed})
		return
	}
	t.add(x)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { x.sent.Store(false) },
		WroteHeaders: func() { x.sent.Store(true) },
	})
	t.work.Go(func() {
		defer cancel()
		if err := t.send(ctx, x.text); err != nil {
			e := *As(err)
			e.Sent = e.Sent && x.sent.Load()
			t.remove(x.id)
			x.deliver(response{err: &e})
		}
	})
}

// stop implements transport.
func (t *sse) stop(x *pendingRequest) {
	t.remove(x.id)
	x.cancel()
	x.deliver(response{err: errClosed})
}

// post implements transport.
func (t *sse) post(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.life, cancel)()
	return t.send(ctx, message)
}

// close implements transport.
func (t *sse) close() {
	t.state.Lock()
	t.closed = true
	t.state.Unlock()
	t.end()
	t.work.Wait()
	t.web.CloseIdleConnections()
}

// setVersion sets the revision that requests say they are of.
func (t *sse) setVersion(version string) {
	t.state.Lock()
	defer t.state.Unlock()
	t.version = version
}

// send makes one POST.
func (t *sse) send(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", jsonType)
	t.state.Lock()
	if t.version != "" {
		req.Header.Set(mcp.HeaderProtocolVersion, t.version)
	}
	t.state.Unlock()
	resp, err := t.web.Do(req)
	if err != nil {
		return networkError(err, true)
	}
	defer discard(resp)
	if resp.StatusCode/100 != 2 {
		return refused(resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"), time.Now()), nil)
	}
	return nil
}

// read reads the stream until it ends, and with it the connection. named gets the address for our messages, or nil.
func (t *sse) read(body io.ReadCloser, from *url.URL, named chan<- *url.URL) {
	defer func() { _ = body.Close() }()
	events := newEventReader(body, t.limit, maxSkips)
	for begun := false; ; {
		e, err := events.next()
		if err == nil {
			switch {
			case string(e.name) == "endpoint" && !begun:
				var endpoint *url.URL
				if endpoint, err = endpointOf(from, e.data); err == nil {
					begun = true
					named <- endpoint
				}
			case e.isMessage():
				err = t.receive(e)
			}
		}
		if err != nil {
			t.client.fail(streamLost(err))
			t.end()
			if !begun {
				named <- nil
			}
			return
		}
	}
}

// endpointOf is the address that a server names for our messages. It must have the server's origin: another one could be sent
// what is meant for the server.
func endpointOf(from *url.URL, data []byte) (*url.URL, error) {
	endpoint, err := from.Parse(string(bytes.TrimSpace(data)))
	if err != nil {
		return nil, Errorf(Protocol, "the server names an address for messages that cannot be read: %w", err)
	}
	if !sameOrigin(endpoint, from) {
		return nil, Errorf(AddressRefused, "the server at %s wants messages sent to %s; only its own origin is allowed", place(from), place(endpoint))
	}
	return endpoint, nil
}

// receive handles one message. An error ends the stream.
func (t *sse) receive(e event) error {
	m := readMessage(e.data)
	if e.long {
		m.Err = errTooLong
	}
	switch {
	case e.long && m.ID == nil && !m.Method:
		e := tooLong(t.limit) // the request that it answers is not known, and would wait for ever
		e.Lost = true
		return e
	case m.Err == nil:
		t.take(m, e.data)
	case !m.Method && numericID.Match(m.ID):
		t.refuse(m.ID, m.Err)
	}
	return nil
}

// streamLost is why the stream of events ended.
func streamLost(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	reason := "the server closed it"
	if !errors.Is(err, io.EOF) {
		reason = cut(err.Error())
	}
	return &Error{Kind: Unavailable, Sent: true, Lost: true, Err: err, Message: fmt.Sprint("the stream of the server's messages was lost: ", reason)}
}
