package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/outbound"
)

const (
	jsonType   = "application/json"
	eventsType = "text/event-stream"
	// openLimit is how long a server may take to answer the request for its notifications before the connection is used without them.
	openLimit = 500 * time.Millisecond
	// byeLimit bounds the DELETE that ends a session.
	byeLimit = 2 * time.Second
	// maxRefusal bounds how much of an error response is read.
	maxRefusal = 64 << 10
	// resumeAfter is how long to wait before a response stream is resumed if the server sets no time.
	resumeAfter = time.Second
)

// web is the transport over HTTP. With streamable HTTP each message is a POST, answered by JSON or by a stream of events
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports). With the older transport the responses to all requests come on
// one stream (see open).
type web struct {
	client *client
	http   *http.Client
	url    string
	older  bool // HTTP+SSE of 2024-11-05

	session atomic.Pointer[string] // session id; nil if there is none
	version atomic.Pointer[string] // the revision in use; nil if not known yet
}

// connectHTTP connects by streamable HTTP, or by the older transport if the route is byEvents.
func (c *Connector) connectHTTP(ctx context.Context, s *registry.Server, user string, r route) (*client, error) {
	era := legacy
	if r == byDiscovery {
		era = modern
	}
	conn := c.newClient(s, era)
	conn.user = user
	wire := &web{client: conn, url: s.HTTP.URL, older: r == byEvents}
	origin, err := c.newHTTPClient(s, user, wire)
	if err != nil {
		return nil, err
	}
	conn.wire = wire
	if era == modern {
		version := string(modern)
		wire.version.Store(&version)
		conn.cancelsAtServer, conn.cancelIsFinal = true, true
	}
	if conn.oneStream = wire.older; wire.older {
		err = wire.open(ctx)
	}
	if err == nil {
		err = conn.handshake(ctx)
	}
	if err != nil {
		failure := *As(err)
		if name := "MCP server " + s.ID; !strings.Contains(failure.Message, name) { // login errors contain the name already
			failure.Message = name + " at " + outbound.Place(origin) + ": " + conn.hide(failure.Message)
		}
		if failure.Kind == Unavailable && failure.Lost && !wire.older {
			failure.Message += "; check that it runs and that its url is right"
		}
		return nil, errors.Join(&failure, conn.Close())
	}
	if era == legacy && !wire.older {
		opened := make(chan struct{}, 1)
		conn.offers.openStream = func(ctx context.Context) error { return wire.readNotifications(ctx, opened) }
		conn.openChanges()
		// Some servers lose requests to the client that they send before the stream is open.
		pause(ctx, opened, openLimit)
	}
	return conn, nil
}

// newHTTPClient sets up the HTTP client of a user's connection, and the function that hides its secrets. It returns the server's URL.
func (c *Connector) newHTTPClient(s *registry.Server, user string, wire *web) (*url.URL, error) {
	headers, err := c.expand(s, s.HTTP.Headers)
	if err != nil {
		return nil, err
	}
	origin, err := url.Parse(s.HTTP.URL)
	if err != nil {
		return nil, Errorf(Misconfigured, "MCP server %s: its url cannot be read: %w", s.ID, err)
	}
	hide := newRedactor(s.HTTP.Secrets(headers)).Replace
	wire.client.hide = hide
	server := outbound.Server{Origin: origin, PublicOnly: s.HTTP.PublicOnly, Allowed: c.cfg.AllowAddresses, Advice: AddressAdvice, Headers: headers}
	if c.cfg.Credentials != nil {
		server.Login = c.cfg.Credentials(s, user)
	}
	if server.Login != nil {
		wire.client.hide = func(text string) string { return server.Login.Hide(hide(text)) }
	}
	wire.http = outbound.NewClient(server)
	return origin, nil
}

func (t *web) start(x *pendingRequest) {
	ctx, cancel := context.WithCancel(t.client.life)
	x.cancel = cancel
	if t.older {
		t.client.await(x) // the response may come while the POST is still in progress
	}
	begun := t.client.background(func() {
		defer cancel()
		if r, ok := t.send(ctx, x); ok {
			t.client.take(x.id)
			x.deliver(r)
		}
	})
	if !begun {
		cancel()
		x.deliver(response{err: errClosed})
	}
}

func (t *web) post(ctx context.Context, message []byte) error {
	resp, err := t.do(ctx, http.MethodPost, message, nil)
	if err != nil {
		return networkError(err, false)
	}
	defer discard(resp)
	if resp.StatusCode/100 != 2 {
		return httpError(resp.StatusCode, 0, nil)
	}
	return nil
}

func (t *web) close() {
	t.client.work.Wait() // requests in progress
	if t.session.Load() != nil {
		ctx, cancel := context.WithTimeout(context.Background(), byeLimit)
		defer cancel()
		if resp, err := t.do(ctx, http.MethodDelete, nil, nil); err == nil {
			discard(resp)
		}
	}
	t.http.CloseIdleConnections()
}

// do makes one HTTP request.
func (t *web) do(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, t.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	switch method {
	case http.MethodPost:
		req.Header.Set("Content-Type", jsonType)
		req.Header.Set("Accept", jsonType+", "+eventsType)
	case http.MethodGet:
		req.Header.Set("Accept", eventsType)
		req.Header.Set("Cache-Control", "no-cache")
	}
	if session := t.session.Load(); session != nil {
		req.Header.Set(mcp.HeaderSessionID, *session)
	}
	if version := t.version.Load(); version != nil {
		req.Header.Set(mcp.HeaderProtocolVersion, *version)
	}
	return t.http.Do(req)
}

// send makes a request and returns its response, or false if the response was delivered already or comes on the stream of all responses.
func (t *web) send(ctx context.Context, x *pendingRequest) (response, bool) {
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { x.sent.Store(false) }, // also before a redirect or a repetition
		WroteHeaders: func() { x.sent.Store(true) },
	})
	resp, err := t.do(traced, http.MethodPost, x.text, t.header(x))
	if err != nil {
		return response{err: networkError(err, x.sent.Load())}, true
	}
	defer func() {
		x.cancel() // before the body is closed: over HTTP/2, closing the body of an open stream may block
		discard(resp)
	}()
	if t.older && resp.StatusCode/100 == 2 {
		return response{}, false
	}
	if resp.StatusCode != http.StatusOK {
		return t.readRefusal(resp), true
	}
	if session := resp.Header.Get(mcp.HeaderSessionID); session != "" && x.method == methodInitialize {
		t.session.Store(&session)
	}
	switch kind := mediaType(resp); kind {
	case jsonType:
		return t.readJSON(ctx, x, resp.Body), true
	case eventsType:
		return t.readEvents(ctx, x, resp)
	default:
		return malformedResponse("unexpected content type: %s", Cut(kind)), true
	}
}

// header returns x.header with the headers by which HTTP intermediaries route a request since 2026-07-28, or nil in older revisions.
func (t *web) header(x *pendingRequest) http.Header {
	if !t.client.isModern() {
		return nil
	}
	header := x.header
	if header == nil {
		header = make(http.Header, 6)
	}
	header.Set(mcp.HeaderMethod, x.method)
	if x.name != "" {
		if name, ok := mcp.EncodeHeaderValue(x.name); ok {
			header.Set(mcp.HeaderName, name)
		}
	}
	return header
}

// readRefusal reads a response with a status other than 200. Its body may hold a JSON-RPC error.
func (*web) readRefusal(resp *http.Response) response {
	var rpcErr *Error
	if text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)); err == nil {
		if m := jsonrpc.ReadMessage(text); m.Err == nil && len(m.Error) > 0 {
			rpcErr = responseOf(m).err
		}
	}
	if resp.StatusCode/100 == 2 {
		return malformedResponse("HTTP %s, without a response", statusText(resp.StatusCode))
	}
	return response{err: httpError(resp.StatusCode, outbound.RetryAfter(resp.Header.Get("Retry-After"), time.Now()), rpcErr)}
}

// readJSON reads a response that is the whole body.
func (t *web) readJSON(ctx context.Context, x *pendingRequest, body io.Reader) response {
	limit := t.client.limit
	text, held, err := jsonrpc.ReadBody(body, limit, t.client.admitter(ctx))
	x.asker.hold(held)
	switch {
	case err != nil:
		return response{err: networkError(err, true)}
	case len(text) > limit:
		return response{err: unusableError(jsonrpc.ErrTooLong, limit)}
	}
	m := jsonrpc.ReadMessage(text)
	switch {
	case m.Err != nil && m.Answer && !m.Method:
		return response{err: unusableError(m.Err, limit)}
	case m.Err != nil:
		return malformedResponse("%w", m.Err)
	case !x.isAnsweredBy(m):
		return malformedResponse("its id is %.100q, not %d", m.ID, x.id)
	}
	return responseOf(m)
}

// readEvents reads a stream of events until the response comes. Before 2026-07-28 a server may end the stream early if it has sent an event id;
// then readEvents resumes the stream. It returns false if the response was delivered.
func (t *web) readEvents(ctx context.Context, x *pendingRequest, resp *http.Response) (response, bool) {
	events := jsonrpc.NewEventReader(resp.Body, t.client.limit, 2)
	events.SetAdmit(t.client.admitter(ctx))
	for {
		answered, err := t.receive(events, x)
		switch {
		case answered:
			return response{}, false
		case err == nil:
			continue
		case errors.Is(err, jsonrpc.ErrEndless):
			return response{err: endlessError(t.client.limit)}, true
		case !errors.Is(err, io.EOF):
			return response{err: networkError(err, true)}, true
		case t.client.isModern() || events.LastID == "":
			return malformedResponse("the stream ended without a response"), true
		}
		resumed, err := t.resume(ctx, events.LastID, events.Retry)
		if err != nil {
			return response{err: networkError(fmt.Errorf("resuming the stream of the response: %w", err), true)}, true
		}
		defer func() { _ = resumed.Body.Close() }()
		last, retry := events.LastID, events.Retry
		events = jsonrpc.NewEventReader(resumed.Body, t.client.limit, 2)
		events.SetAdmit(t.client.admitter(ctx))
		events.LastID, events.Retry = last, retry
	}
}

// receive reads one event of a stream. x is the request on whose own stream it comes, or nil. An error ends the stream.
func (t *web) receive(events *jsonrpc.EventReader, x *pendingRequest) (answered bool, err error) {
	e, err := events.Next()
	if err != nil || !e.IsMessage() {
		e.Held.Release()
		return false, err
	}
	m := jsonrpc.ReadMessage(e.Data)
	m.Own, m.Held = true, e.Held
	if e.Tail != nil {
		if m = m.CutOff(e.Tail); !m.Method && m.ID == nil {
			e.Held.Release()
			return false, jsonrpc.ErrEndless
		}
	}
	return t.client.receive(m, e.Data, x), nil
}

// resume waits, for resumeAfter if after is 0, and opens the stream of a response again.
func (t *web) resume(ctx context.Context, lastID string, after time.Duration) (*http.Response, error) {
	if after == 0 {
		after = resumeAfter
	}
	if !pause(ctx, nil, after) {
		return nil, ctx.Err()
	}
	resp, err := t.do(ctx, http.MethodGet, nil, http.Header{mcp.HeaderLastEventID: {lastID}})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || mediaType(resp) != eventsType {
		discard(resp)
		return nil, fmt.Errorf("the server answered HTTP %s", statusText(resp.StatusCode))
	}
	return resp, nil
}

// readNotifications reads the stream on which the server sends messages that belong to no request, until the stream ends. opened gets a value
// once the server has answered, or cannot be reached.
func (t *web) readNotifications(ctx context.Context, opened chan<- struct{}) error {
	resp, err := t.do(ctx, http.MethodGet, nil, nil)
	select {
	case opened <- struct{}{}:
	default:
	}
	if err != nil {
		return err
	}
	defer discard(resp)
	if resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotFound {
		return errNoStream // a server that no longer knows the session also answers 404: the next request finds out
	}
	if resp.StatusCode != http.StatusOK || mediaType(resp) != eventsType {
		return &statusError{resp.StatusCode}
	}
	events := jsonrpc.NewEventReader(resp.Body, t.client.limit, 2)
	events.SetAdmit(t.client.admitter(ctx))
	for err == nil {
		_, err = t.receive(events, nil)
	}
	return err
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// discard closes a response. Except for a stream of events, it first reads a limited part of the body, so that the TCP connection can be used
// again.
func discard(resp *http.Response) {
	if resp.Request.Context().Err() == nil && mediaType(resp) != eventsType {
		_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal)
	}
	_ = resp.Body.Close()
}

// networkError returns the error of a request that got no complete response. sent reports whether the server may have received the request.
func networkError(err error, sent bool) *Error {
	if known := Find(err); known != nil {
		e := *known
		_, notExecuted := errors.AsType[outbound.NotExecuted](err)
		e.MayHaveRun = sent && !notExecuted
		return &e
	}
	if wrapper, ok := errors.AsType[*url.Error](err); ok {
		err = wrapper.Err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Kind: Interrupted, Message: err.Error(), MayHaveRun: sent, Err: err}
	}
	return &Error{Kind: Unavailable, MayHaveRun: sent, Lost: true, Transient: outbound.IsTransient(err), Err: err, Message: "the server cannot be reached: " + Cut(err.Error())}
}

// errNoStream means that the server offers no stream of events at an address.
var errNoStream = errors.New("the server offers no stream of events there")

// open opens the stream of the transport of 2024-11-05 (https://modelcontextprotocol.io/specification/2024-11-05/basic/transports): the server
// sends all its messages as events in the response to one GET. The client sends each message as a POST to the address that the first event
// names. ctx bounds the wait for that event, not the stream's life.
func (t *web) open(ctx context.Context) error {
	stop := context.AfterFunc(ctx, t.client.finish)
	defer stop()
	resp, err := t.do(t.client.life, http.MethodGet, nil, nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return t.client.noAnswer(ctx)
	case err != nil:
		return networkError(err, false)
	case resp.StatusCode != http.StatusOK || mediaType(resp) != eventsType:
		defer discard(resp)
		e := Errorf(Protocol, "%w: it answered HTTP %s, %q", errNoStream, statusText(resp.StatusCode), Cut(mediaType(resp)))
		if resp.StatusCode/100 != 2 {
			e = httpError(resp.StatusCode, outbound.RetryAfter(resp.Header.Get("Retry-After"), time.Now()), nil)
			e.Err = errors.Join(errNoStream, e.Err)
		}
		e.MayHaveRun = false // no tool was called
		return e
	}
	endpoint := make(chan string, 1)
	t.client.background(func() { t.readStream(resp, endpoint) })
	select {
	case t.url = <-endpoint:
		return nil
	case <-t.client.Done():
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return t.client.noAnswer(ctx)
	}
	e := *As(t.client.Err())
	e.MayHaveRun = false
	return &e
}

// readStream reads the stream until it ends, and then ends the connection. endpoint gets the address for the client's messages.
func (t *web) readStream(resp *http.Response, endpoint chan<- string) {
	defer func() { _ = resp.Body.Close() }()
	events := jsonrpc.NewEventReader(resp.Body, t.client.limit, jsonrpc.SkipFactor)
	events.SetAdmit(t.client.admitter(t.client.life))
	err := t.readEndpoint(events, resp.Request.URL, endpoint)
	for err == nil {
		_, err = t.receive(events, nil)
	}
	if errors.Is(err, jsonrpc.ErrEndless) {
		err = endlessError(t.client.limit)
	}
	why := Find(err)
	if why == nil {
		reason := "the server closed it"
		if !errors.Is(err, io.EOF) {
			reason = Cut(err.Error())
		}
		why = &Error{Kind: Unavailable, MayHaveRun: true, Lost: true, Err: err, Message: "the stream of the server's messages was lost: " + reason}
	}
	t.client.fail(why)
}

// readEndpoint reads events up to the one that names the address for the client's messages. The address must have the server's origin, because
// all messages go there.
func (*web) readEndpoint(events *jsonrpc.EventReader, server *url.URL, endpoint chan<- string) error {
	for {
		e, err := events.Next()
		if err != nil {
			return err
		}
		if e.Name != "endpoint" {
			continue
		}
		address, err := server.Parse(string(bytes.TrimSpace(e.Data)))
		if err != nil {
			return Errorf(Protocol, "the server names an address for messages that cannot be read: %w", err)
		}
		if !outbound.SameOrigin(address, server) {
			return Errorf(AddressRefused, "the server at %s wants messages sent to %s; only its own origin is allowed", outbound.Place(server), outbound.Place(address))
		}
		endpoint <- address.String()
		return nil
	}
}
