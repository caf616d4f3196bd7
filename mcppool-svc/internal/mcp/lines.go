package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
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
	waiting, err := l.send(request)
	if err != nil {
		return nil, err
	}
	defer waiting.end()
	r, err := waiting.wait(ctx.Done())
	if errors.Is(err, errWaited) {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return r.response(request.ID)
}

// errWaited means that no answer came as long as it was waited for.
var errWaited = errors.New("no answer yet")

// waiting is a request that was sent.
type waiting struct {
	lines    *lines
	id       int64
	answered <-chan reply
}

// send writes a request. Call end on what it returns.
func (l *lines) send(request transport.JSONRPCRequest) (waiting, error) {
	id, ok := request.ID.Value().(int64)
	if !ok {
		return waiting{}, fmt.Errorf("the request's id %s is no integer", request.ID)
	}
	text, err := encodeRequest(id, request)
	if err != nil {
		return waiting{}, fmt.Errorf("failed to marshal request: %w", err)
	}
	w := waiting{l, id, l.in.expect(id)}
	if _, err := l.out.Write(text); err != nil {
		w.end()
		return waiting{}, fmt.Errorf("failed to write request: %w", err)
	}
	return w, nil
}

// wait returns what is answered. It may be called again where done came before.
func (w waiting) wait(done <-chan struct{}) (reply, error) {
	why := transport.ErrTransportClosed
	select {
	case r := <-w.answered:
		return r, nil
	case <-done:
		why = errWaited
	case <-w.lines.closed:
	case <-w.lines.in.eof:
	}
	select {
	case r := <-w.answered: // it came before the end
		return r, nil
	default:
		return reply{}, why
	}
}

// end stops waiting.
func (w waiting) end() { w.lines.in.forget(w.id) }

// encodeRequest writes a request as mcp-go does, in one line, and one whose parameters are written already in one go.
func encodeRequest(id int64, request transport.JSONRPCRequest) ([]byte, error) {
	params, ok := request.Params.(json.RawMessage)
	if !ok {
		text, err := json.Marshal(request)
		return append(text, '\n'), err
	}
	text := make([]byte, 0, len(params)+128)
	text = strconv.AppendInt(append(text, `{"jsonrpc":"2.0","id":`...), id, 10)
	text = strictjson.AppendQuote(append(text, `,"method":`...), request.Method)
	text = append(append(text, `,"params":`...), params...)
	return append(text, "}\n"...), nil
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

// plain says that it is a result and nothing else.
func (r reply) plain() bool { return r.verdict == nil && r.failure == nil && len(r.result) > 0 }

// mailbox gives answers to who waits for them, by id.
type mailbox struct {
	mu      sync.Mutex
	waiting map[int64]chan reply // guarded by mu
}

// expect says that somebody waits for an answer with that id.
func (m *mailbox) expect(id int64) <-chan reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == nil {
		m.waiting = make(map[int64]chan reply)
	}
	one := make(chan reply, 1)
	m.waiting[id] = one
	return one
}

func (m *mailbox) forget(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, id)
}

// take returns where an answer with that id, as it was written, is waited for; nil where it is not.
func (m *mailbox) take(raw []byte) chan<- reply {
	id, ok := integer(raw)
	if !ok {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.waiting[id]
	delete(m.waiting, id) // a second answer is nobody's
	return one
}

// integer reads an id that is a number.
func integer(raw []byte) (int64, bool) {
	const most = 18 // digits that always fit
	var n int64
	for _, c := range raw {
		if c < '0' || c > '9' || len(raw) > most {
			var id mcp.RequestId // 5.0 is 5 too
			if raw[0] == '"' || json.Unmarshal(raw, &id) != nil {
				return 0, false
			}
			n, ok := id.Value().(int64)
			return n, ok
		}
		n = 10*n + int64(c-'0')
	}
	return n, len(raw) > 0
}
