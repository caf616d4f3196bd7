package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/strict"
)

// lines is mcp-go's transport over a child's lines, with requests of its own: mcp-go's read an answer three times, and write a
// request twice, which was a quarter of what a short call costs the pool. What is no answer still goes mcp-go's way.
type lines struct {
	*transport.Stdio
	in     *lineReader
	out    *lineWriter
	closed chan struct{}
	close  func()
}

func newLines(in *lineReader, out *lineWriter) *lines {
	l := &lines{Stdio: transport.NewIO(in, out, nil), in: in, out: out, closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Close implements transport.Interface.
func (l *lines) Close() error {
	l.close()
	return l.Stdio.Close()
}

// SendRequest implements transport.Interface.
func (l *lines) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id, ok := request.ID.Value().(int64)
	if !ok {
		return nil, fmt.Errorf("the request's id %s is no integer", request.ID)
	}
	text, err := encodeRequest(request)
	if err != nil {
		return nil, fmt.Errorf("failed to marshal request: %w", err)
	}
	key := strconv.FormatInt(id, 10)
	answered := l.in.expect(key)
	defer l.in.forget(key)
	if _, err := l.out.Write(append(text, '\n')); err != nil {
		return nil, fmt.Errorf("failed to write request: %w", err)
	}
	select {
	case r := <-answered:
		return r.response(request.ID)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
	case <-l.in.eof:
	}
	select {
	case r := <-answered: // it came before the end
		return r.response(request.ID)
	default:
		return nil, transport.ErrTransportClosed
	}
}

// encodeRequest writes a request as mcp-go does, and a plain tool call in one go.
func encodeRequest(request transport.JSONRPCRequest) ([]byte, error) {
	p, ok := request.Params.(mcp.CallToolParams)
	if !ok || len(p.RawArguments) == 0 || p.Task != nil || p.InputResponses != nil || p.RequestState != "" {
		return json.Marshal(request)
	}
	name, err := json.Marshal(p.Name)
	if err != nil {
		return nil, err
	}
	arguments, err := oneLine(p.RawArguments)
	if err != nil {
		return nil, err
	}
	text := fmt.Appendf(make([]byte, 0, 256+len(arguments)), `{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":%s,"arguments":`, request.ID.Value(), name)
	text = append(text, arguments...)
	if p.Meta != nil {
		meta, err := p.Meta.MarshalJSON()
		if err != nil {
			return nil, err
		}
		text = append(append(text, `,"_meta":`...), meta...)
	}
	return append(text, `}}`...), nil
}

// oneLine is JSON without anything that some reader takes for the end of a line.
func oneLine(raw json.RawMessage) ([]byte, error) {
	if bytes.IndexByte(raw, '\n') >= 0 || bytes.IndexByte(raw, '\r') >= 0 || bytes.Contains(raw, []byte("\u2028")) || bytes.Contains(raw, []byte("\u2029")) {
		return json.Marshal(raw)
	}
	if !json.Valid(raw) {
		return nil, strict.ErrInvalid
	}
	return raw, nil
}

// reply is what came back to a request: its result or error, raw, or why it is refused.
type reply struct {
	result, failure json.RawMessage
	verdict         *mcp.JSONRPCErrorDetails
}

func (r reply) response(id mcp.RequestId) (*transport.JSONRPCResponse, error) {
	out := &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: id, Result: r.result, Error: r.verdict}
	if r.failure != nil {
		if err := json.Unmarshal(r.failure, &out.Error); err != nil {
			return nil, fmt.Errorf("%w: its error cannot be read: %w", errMalformed, err)
		}
	}
	return out, nil
}

// mailbox gives answers to who waits for them, by id.
type mailbox struct {
	mu      sync.Mutex
	waiting map[string]chan reply // guarded by mu
}

// expect says that somebody waits for an answer with that id.
func (m *mailbox) expect(id string) <-chan reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == nil {
		m.waiting = make(map[string]chan reply)
	}
	one := make(chan reply, 1)
	m.waiting[id] = one
	return one
}

func (m *mailbox) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, id)
}

// take returns where an answer with that id, as it was written, is waited for; nil where it is not.
func (m *mailbox) take(raw []byte) chan<- reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := string(raw)
	one := m.waiting[key]
	if one == nil && len(m.waiting) > 0 && len(raw) > 0 && raw[0] != '"' {
		var id mcp.RequestId // 5.0 is 5 too
		if json.Unmarshal(raw, &id) == nil {
			key = fmt.Sprint(id.Value())
			one = m.waiting[key]
		}
	}
	delete(m.waiting, key) // a second answer is nobody's
	return one
}
