package clitest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
)

// MCP is a minimal MCP server: tools that take an object and return a text.
type MCP struct {
	Tools []MCPTool
}

// MCPTool is one tool. The server returns an error of Call as a tool error (isError).
type MCPTool struct {
	Name   string
	Schema string // of the input, as JSON
	Call   func(ctx context.Context, input map[string]any) (string, error)
}

type rpc struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   any             `json:"error,omitempty"`
}

type object = map[string]any

// ServeStdio answers requests, one per line, until in ends. Calls run concurrently and may be cancelled.
func (m *MCP) ServeStdio(in io.Reader, out io.Writer) error {
	var mu sync.Mutex // guards out and running
	running := map[string]context.CancelFunc{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var req rpc
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			return err
		}
		if req.Method == "notifications/cancelled" {
			var p struct{ RequestID json.RawMessage }
			_ = json.Unmarshal(req.Params, &p)
			mu.Lock()
			if cancel := running[string(p.RequestID)]; cancel != nil {
				cancel()
			}
			mu.Unlock()
		}
		if req.ID == nil {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		mu.Lock()
		running[string(req.ID)] = cancel
		mu.Unlock()
		go func() {
			raw, err := json.Marshal(m.answer(ctx, req))
			mu.Lock()
			defer mu.Unlock()
			cancel()
			delete(running, string(req.ID))
			if err == nil {
				_, _ = out.Write(append(raw, '\n'))
			}
		}()
	}
	return lines.Err()
}

// ServeHTTP serves streamable HTTP without event streams.
func (m *MCP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req rpc
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&req) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if req.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m.answer(r.Context(), req))
}

func (m *MCP) answer(ctx context.Context, req rpc) rpc {
	resp := rpc{JSONRPC: "2.0", ID: req.ID}
	switch req.Method {
	case "initialize":
		resp.Result = object{
			"protocolVersion": "2025-06-18", "capabilities": object{"tools": object{}},
			"serverInfo": object{"name": "desk", "version": "1"},
		}
	case "ping":
		resp.Result = object{}
	case "tools/list":
		tools := []object{}
		for _, t := range m.Tools {
			tools = append(tools, object{"name": t.Name, "inputSchema": json.RawMessage(t.Schema)})
		}
		resp.Result = object{"tools": tools}
	case "tools/call":
		resp.Result = m.call(ctx, req.Params)
	default:
		resp.Error = object{"code": -32601, "message": "there is no method " + req.Method}
	}
	return resp
}

func (m *MCP) call(ctx context.Context, params json.RawMessage) object {
	var p struct {
		Name      string
		Arguments map[string]any
	}
	_ = json.Unmarshal(params, &p)
	text, failed := "there is no tool "+p.Name, true
	for _, t := range m.Tools {
		if t.Name == p.Name {
			var err error
			text, err = t.Call(ctx, p.Arguments)
			if failed = err != nil; failed {
				text = err.Error()
			}
		}
	}
	return object{"content": []object{{"type": "text", "text": text}}, "isError": failed}
}
