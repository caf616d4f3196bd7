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
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

const (
	jsonType   = "application/json"
	eventsType = "text/event-stream"
	// byeLimit bounds the DELETE that ends a session.
	byeLimit = 2 * time.Second
	// maxRefusal bounds what is read of an answer that only its status matters of.
	maxRefusal = 64 << 10
	// resumeAfter is how long to wait before a response stream is resumed if the server does not say.
	resumeAfter = time.Second
)

// streamable is the transport of streamable HTTP: each message is a POST, answered by JSON or by a stream of events
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports).
type streamable struct {
	url    string
	web    *http.Client
	limit  int // bytes of one message
	client *client

	life context.Context // of all requests
	end  context.CancelFunc
	work sync.WaitGroup // requests in progress

	notifications notificationStream

	mu      sync.Mutex
	closed  bool   // guarded by mu
	session string // guarded by mu
	version string // guarded by mu; the revision in use
}

// connectHTTP connects by streamable HTTP.
func (c *Connector) connectHTTP(ctx context.Context, s *registry.Server, user string, e era) (*client, error) {
	web, err := c.newWeb(s, user)
	if err != nil {
		return nil, err
	}
	conn := newClient(s, e, c.cfg.Version, c.log)
	conn.hide = web.hide
	wire := &streamable{url: s.HTTP.URL, web: web.client, limit: c.cfg.MaxMessage, client: conn}
	wire.life, wire.end = context.WithCancel(context.Background())
	conn.wire = wire
	if e == modern {
		wire.version, conn.stopCancels, conn.hangsUp = string(modern), true, true
	}
	if err := conn.handshake(ctx); err != nil {
		failure := *As(err)
		if who := "MCP server " + s.ID; !strings.Contains(failure.Message, who) { // login errors name it already
			failure.Message = who + " at " + place(web.origin) + ": " + failure.Message
		}
		if failure.Kind == Unavailable && failure.Lost {
			failure.Message += "; check that it runs and that its url is right"
		}
		return nil, errors.Join(&failure, conn.Close())
	}
	if e == legacy {
		conn.background(wire.listen)
	}
	return conn, nil
}

// start implements transport.
func (t *streamable) start(x *pendingRequest) {
	ctx, cancel := context.WithCancel(t.life)
	x.cancel = cancel
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		cancel()
		x.deliver(response{err: errClosed})
		return
	}
	t.work.Go(func() {
		defer cancel()
		x.deliver(t.send(ctx, x))
	})
}

// stop implements transport.
func (*streamable) stop(x *pendingRequest) { x.cancel() }

// post implements transport.
func (t *streamable) post(ctx context.Context, message []byte) error {
	resp, err := t.do(ctx, http.MethodPost, message, nil)
	if err != nil {
		return networkError(err, false)
	}
	defer discard(resp)
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return nil
	}
	return refused(resp.StatusCode, 0, nil)
}

// close implements transport.
func (t *streamable) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.end()
	t.work.Wait()
	if t.sessionID() != "" {
		ctx, cancel := context.WithTimeout(context.Background(), byeLimit)
		defer cancel()
		if resp, err := t.do(ctx, http.MethodDelete, nil, nil); err == nil {
			discard(resp)
		}
	}
	t.web.CloseIdleConnections()
}

// setVersion sets the revision that requests say they are of.
func (t *streamable) setVersion(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version = version
}

func (t *streamable) sessionID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session
}

// do makes one HTTP request.
func (t *streamable) do(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, error) {
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
	}
	t.mu.Lock()
	session, version := t.session, t.version
	t.mu.Unlock()
	if session != "" {
		req.Header.Set(mcp.HeaderSessionID, session)
	}
	if version != "" {
		req.Header.Set(mcp.HeaderProtocolVersion, version)
	}
	return t.web.Do(req)
}

// send makes a request and returns its response.
func (t *streamable) send(ctx context.Context, x *pendingRequest) response {
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { x.sent.Store(false) }, // first, or again elsewhere
		WroteHeaders: func() { x.sent.Store(true) },
	})
	resp, err := t.do(traced, http.MethodPost, x.text, t.header(x))
	if err != nil {
		return response{err: networkError(err, x.sent.Load())}
	}
	defer func() {
		x.cancel() // first: over HTTP/2, closing the body of an open stream may block until then
		discard(resp)
	}()
	if resp.StatusCode != http.StatusOK {
		return t.refusal(resp)
	}
	if x.method == methodInitialize {
		t.mu.Lock()
		t.session = resp.Header.Get(mcp.HeaderSessionID)
		t.mu.Unlock()
	}
	switch kind := mediaType(resp); kind {
	case jsonType:
		return t.readJSON(x, resp.Body)
	case eventsType:
		return t.readEvents(ctx, x, resp)
	default:
		return malformed("unexpected content type: %s", cut(kind))
	}
}

// header is what lets HTTP intermediaries route a request, since 2026-07-28.
func (t *streamable) header(x *pendingRequest) http.Header {
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

// mirror adds HTTP headers to a request.
func (x *pendingRequest) mirror(headers map[string]string) {
	x.header = make(http.Header, len(headers)+6)
	for name, value := range headers {
		x.header.Set(name, value)
	}
}

// refusal reads an answer with another status than 200, which may have a JSON-RPC error.
func (*streamable) refusal(resp *http.Response) response {
	var said *Error
	if text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)); err == nil {
		if m := readMessage(text); m.Err == nil && len(m.Error) > 0 {
			said = responseOf(m).err
		}
	}
	if resp.StatusCode/100 == 2 {
		return malformed("HTTP %s, without a response", statusText(resp.StatusCode))
	}
	e := refused(resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"), time.Now()), said)
	return response{err: e}
}

// readJSON reads a response that is the whole body.
func (t *streamable) readJSON(x *pendingRequest, body io.Reader) response {
	text, err := io.ReadAll(io.LimitReader(body, int64(t.limit)+1))
	switch {
	case err != nil:
		return response{err: networkError(err, true)}
	case len(text) > t.limit:
		return response{err: refusal(errTooLong, t.limit)}
	}
	m := readMessage(text)
	id, ok := integer(m.ID)
	switch {
	case m.Err != nil && m.Answer && !m.Method:
		return response{err: refusal(m.Err, t.limit)}
	case m.Err != nil:
		return malformed("%w", m.Err)
	case strictjson.Absent(m.ID) && len(m.Error) > 0: // a server that could not read the request does not know its id
	case !ok || id != x.id:
		return malformed("its id is %.100q, not %d", m.ID, x.id)
	}
	return responseOf(m)
}

// readEvents reads a stream of events until the response comes. Before 2026-07-28 a server may end the stream before that,
// once it has sent the id of an event, and have it resumed.
func (t *streamable) readEvents(ctx context.Context, x *pendingRequest, resp *http.Response) response {
	pass := t.client.passer(newThrottle())
	events := newEventReader(resp.Body, t.limit, 2)
	for {
		e, err := events.next()
		switch {
		case err == nil && !e.isMessage():
			continue
		case err == nil:
			if r, ok := t.readEvent(x, e, pass); ok {
				return r
			}
			continue
		case !errors.Is(err, io.EOF):
			return response{err: networkError(err, true)}
		case t.client.isModern() || events.lastID == "":
			return malformed("the stream ended without a response")
		}
		again, err := t.resume(ctx, events.lastID, events.retry)
		if err != nil {
			return response{err: networkError(fmt.Errorf("resuming the stream of the response: %w", err), true)}
		}
		defer func() { _ = again.Body.Close() }()
		last, retry := events.lastID, events.retry
		events = newEventReader(again.Body, t.limit, 2)
		events.lastID, events.retry = last, retry
	}
}

// readEvent handles one message of the stream of a request. It returns the response if the message is that.
func (t *streamable) readEvent(x *pendingRequest, e event, pass passFunc) (response, bool) {
	m := readMessage(e.data)
	id, ok := integer(m.ID)
	own := m.Answer && !m.Method && (ok && id == x.id || strictjson.Absent(m.ID) && len(m.Error) > 0)
	switch {
	case e.long:
		return response{err: tooLong(t.limit)}, true
	case m.Err != nil && own:
		return response{err: refusal(m.Err, t.limit)}, true
	case m.Err != nil:
		return response{}, false
	case m.Method:
		pass(m, e.data, x.asker)
		return response{}, false
	}
	return responseOf(m), own
}

// resume opens the stream of a response again after a wait.
func (t *streamable) resume(ctx context.Context, lastID string, after time.Duration) (*http.Response, error) {
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

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// discard closes an answer, of which a little is read so that its connection can be used again.
func discard(resp *http.Response) {
	if resp.Request.Context().Err() == nil && mediaType(resp) != eventsType {
		_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal)
	}
	_ = resp.Body.Close()
}

// networkError is the error of a request that got no answer.
func networkError(err error, sent bool) *Error {
	var known *Error
	var of *url.Error
	var unsent unsentError
	if errors.As(err, &known) {
		e := *known
		e.Sent = sent && !errors.As(err, &unsent)
		return &e
	}
	if errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Kind: Interrupted, Message: err.Error(), Sent: sent, Err: err}
	}
	return &Error{Kind: Unavailable, Sent: sent, Lost: true, Transient: networkPasses(err), Err: err, Message: "the server cannot be reached: " + cut(err.Error())}
}
