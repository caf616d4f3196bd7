package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc/test/bufconn"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/gateway/gateway"
	"pawl.dev/services/conf"
)

// ServeCmd is `pawl mcp serve`.
type ServeCmd struct {
	ID     string `arg:"" optional:"" complete:"server" help:"Serve this MCP server alone, with its own names (default: all that your tasks use)."`
	Search bool   `help:"Offer the tools search_tools and call_tool instead of those of servers."`
}

// Run passes messages between standard input and output and the MCP endpoint of a gateway in this process, which calls the server as all commands do: with
// its certificates, keys, logins and reconnections. It ends when standard input does, after the requests.
func (c *ServeCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if _, err := s.Server(ctx); err != nil {
		return err
	}
	g, err := gateway.New(gateway.Config{
		Authenticated: true, // the gateway asks the server who the caller is before each request, which also finds a server that has moved
		Version:       conf.Version(),
	}, gateway.Deps{Executor: s, Pool: s, Planner: s, Log: slog.New(slog.NewTextHandler(u.Err, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return err
	}
	lis := bufconn.Listen(1 << 20)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- g.Serve(serving, lis) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return lis.DialContext(ctx) }}
	b := &bridge{
		address: "http://127.0.0.1/mcp", client: &http.Client{Transport: transport}, ui: u, running: map[string]context.CancelFunc{}, asked: map[string]bool{},
	}
	if c.ID != "" {
		b.address += "/" + c.ID
	}
	if c.Search {
		b.address += "?mode=search"
	}
	err = b.run(ctx)
	transport.CloseIdleConnections()
	stop()
	return errors.Join(err, <-served)
}

// bridge passes messages between a client on standard input and output and an MCP endpoint.
type bridge struct {
	address  string
	client   *http.Client
	ui       *ui.UI
	requests sync.WaitGroup

	mu      sync.Mutex                    // guards the following, and standard output
	session string                        // empty before initialize, and since 2026-07-28
	running map[string]context.CancelFunc // requests, by id
	asked   map[string]bool               // ids of questions that the client has not answered
	ended   bool                          // the client sends nothing more
}

// message is what the bridge reads of a message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		TaskID    string          `json:"taskId"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Revision string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
}

// run reads messages until standard input ends, and then waits for the requests. When ctx ends, it waits for nothing.
func (b *bridge) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer b.requests.Wait()
	defer stop()
	streams, stopStreams := context.WithCancel(ctx)
	defer stopStreams()
	for {
		line, err := b.ui.Lines().Read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF):
			stopStreams()
			b.end(ctx)
			b.requests.Wait()
			return nil
		case err != nil:
			return ui.Errorf("read from the client: %v", err)
		case strings.TrimSpace(line) != "":
			b.take(ctx, streams, line)
		}
	}
}

// take passes a message of the client on. Notifications and answers keep their order; requests run side by side.
func (b *bridge) take(ctx, streams context.Context, line string) {
	var m message
	_ = json.Unmarshal([]byte(line), &m) // the endpoint answers if it is no message
	switch {
	case m.Method == "initialize":
		b.post(ctx, line, m)
		if b.sessionID() != "" {
			b.requests.Go(func() { b.listen(streams) })
		}
	case m.Method == "notifications/cancelled" && b.sessionID() == "": // without sessions, the end of the HTTP request cancels it
		b.mu.Lock()
		defer b.mu.Unlock()
		if cancel := b.running[string(m.Params.RequestID)]; cancel != nil {
			cancel()
		}
	case m.ID == nil:
		b.post(ctx, line, m)
	case m.Method == "":
		b.mu.Lock()
		delete(b.asked, string(m.ID))
		b.mu.Unlock()
		b.post(ctx, line, m)
	default:
		if m.Method == "subscriptions/listen" {
			ctx = streams
		}
		ctx, cancel := context.WithCancel(ctx)
		b.mu.Lock()
		b.running[string(m.ID)] = cancel
		b.mu.Unlock()
		b.requests.Go(func() {
			defer cancel()
			b.post(ctx, line, m)
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.running, string(m.ID))
		})
	}
}

// post sends a message to the endpoint and passes on what it answers.
func (b *bridge) post(ctx context.Context, line string, m message) {
	headers := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	if m.Params.Meta.Revision != "" {
		headers["Mcp-Protocol-Version"], headers["Mcp-Method"] = m.Params.Meta.Revision, m.Method
		headers["Mcp-Name"] = "=?base64?" + base64.StdEncoding.EncodeToString([]byte(m.Params.Name+m.Params.URI+m.Params.TaskID)) + "?="
	}
	err := b.exchange(ctx, http.MethodPost, line, headers)
	switch {
	case err == nil, ctx.Err() != nil:
	case m.ID == nil || m.Method == "":
		b.ui.Note("a message of the client was not taken: %v", err)
	default:
		text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32603, "message": err.Error()}})
		b.deliver(ctx, text)
	}
}

// listen passes on the notifications of the session that belong to no request.
func (b *bridge) listen(ctx context.Context) {
	if err := b.exchange(ctx, http.MethodGet, "", map[string]string{"Accept": "text/event-stream"}); err != nil && ctx.Err() == nil {
		b.ui.Note("changes of the tools are not reported: %v", err)
	}
}

// exchange makes a request to the endpoint and delivers the messages in its response.
func (b *bridge) exchange(ctx context.Context, method, body string, headers map[string]string) error {
	req, err := http.NewRequestWithContext(ctx, method, b.address, strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	if session := b.sessionID(); session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if session := resp.Header.Get("Mcp-Session-Id"); session != "" {
		b.mu.Lock()
		b.session = session
		b.mu.Unlock()
	}
	switch kind := resp.Header.Get("Content-Type"); {
	case resp.StatusCode == http.StatusUnauthorized:
		return errors.New("the Pawl server needs a valid key or a login: set PAWL_KEY in the environment of `pawl mcp serve`, or run `pawl login`")
	case kind == "text/event-stream":
		return b.deliverStream(ctx, resp.Body)
	case kind == "application/json":
		text, err := io.ReadAll(resp.Body)
		if err == nil {
			b.deliver(ctx, text)
		}
		return err
	case kind == "":
		return nil // a notification or an answer was taken
	}
	var problem struct {
		Detail string `json:"detail"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil {
		return fmt.Errorf("HTTP status %s", resp.Status)
	}
	return errors.New(problem.Detail)
}

// deliverStream delivers the messages of an event stream, of which each is one line.
func (b *bridge) deliverStream(ctx context.Context, stream io.Reader) error {
	for r := bufio.NewReader(stream); ; {
		line, err := r.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			b.deliver(ctx, data)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// deliver writes a message to the client. A question that the client can no longer answer is cancelled.
func (b *bridge) deliver(ctx context.Context, text []byte) {
	var m message
	_ = json.Unmarshal(text, &m) // the endpoint sends only messages
	var line bytes.Buffer
	if json.Compact(&line, text) != nil {
		return
	}
	line.WriteByte('\n')
	b.mu.Lock()
	question := m.Method != "" && m.ID != nil
	if question && !b.ended {
		b.asked[string(m.ID)] = true
	}
	unheard := question && b.ended
	if !unheard {
		_, _ = b.ui.Out.Write(line.Bytes()) // FirstError keeps the error
	}
	b.mu.Unlock()
	if unheard {
		b.dismiss(ctx, string(m.ID))
	}
}

// end cancels the questions that the client has not answered.
func (b *bridge) end(ctx context.Context) {
	b.mu.Lock()
	b.ended = true
	asked := b.asked
	b.mu.Unlock()
	for id := range asked {
		b.dismiss(ctx, id)
	}
}

func (b *bridge) dismiss(ctx context.Context, id string) {
	line := `{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"cancel"}}`
	b.post(ctx, line, message{ID: json.RawMessage(id)})
}

func (b *bridge) sessionID() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}
