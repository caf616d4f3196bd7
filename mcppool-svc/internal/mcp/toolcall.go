package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

// head is what each request says of this client since 2026-07-28, as mcp-go writes it.
type head struct {
	once sync.Once
	meta []byte // members of _meta, with a comma after each; none with older revisions
	err  error
}

// toolRequest is one request of a call. It is written here: mcp-go's client would go through it four times.
func (c *client) toolRequest(r *running, next round) (transport.JSONRPCRequest, error) {
	request := transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: c.nextID(), Method: string(mcp.MethodToolsCall)}
	if c.isModern() {
		c.head.once.Do(func() { c.head.meta, c.head.err = c.readHead() })
		err := c.head.err
		if err == nil && c.web {
			request.Header, err = c.toolHeader(r.call)
		}
		if err != nil {
			return request, unwritten(err)
		}
	}
	params, err := c.toolParams(r, next)
	if err != nil {
		return request, unwritten(err)
	}
	request.Params = params
	return request, nil
}

// unwritten is a request that cannot be written.
func unwritten(err error) *Error {
	return Errorf(Protocol, "the call cannot be written: %w", err)
}

func (c *client) toolParams(r *running, next round) (json.RawMessage, error) {
	call := r.call
	arguments, err := oneLine(call.Arguments)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, 256+len(arguments)+len(c.head.meta))
	text = append(strictjson.AppendQuote(append(text, `{"name":`...), call.Name), `,"arguments":`...)
	text = append(append(append(text, arguments...), `,"_meta":{`...), c.head.meta...)
	text = strictjson.AppendQuote(append(text, `"progressToken":`...), r.token)
	for _, m := range call.Meta {
		text = append(strictjson.AppendQuote(append(text, ','), m.Key), ':')
		text = strictjson.AppendQuote(text, m.Value)
	}
	text = append(text, '}')
	if c.asTask(call) {
		text = append(strconv.AppendInt(append(text, `,"task":{"ttl":`...), call.TaskTTL.Milliseconds(), 10), '}')
	}
	if len(next.responses) > 0 {
		responses, err := json.Marshal(next.responses)
		if err != nil {
			return nil, err
		}
		text = append(append(text, `,"inputResponses":`...), responses...)
	}
	if next.state != nil {
		text = strictjson.AppendQuote(append(text, `,"requestState":`...), *next.state)
	}
	return append(text, '}'), nil
}

// oneLine is JSON without anything that some reader takes for the end of a line.
func oneLine(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return []byte("{}"), nil
	}
	if bytes.IndexByte(raw, '\n') >= 0 || bytes.IndexByte(raw, '\r') >= 0 || bytes.Contains(raw, []byte("\u2028")) || bytes.Contains(raw, []byte("\u2029")) {
		return json.Marshal(raw)
	}
	if !json.Valid(raw) {
		return nil, strictjson.ErrInvalid
	}
	return raw, nil
}

// toolHeader is what is mirrored into the headers of a call (HTTP, 2026-07-28). Where tools have inputs of which that is so, mcp-go knows
// them.
func (c *client) toolHeader(call Call) (http.Header, error) {
	if c.annotated.Load() {
		request, err := c.dictate(call)
		return request.Header, err
	}
	header := make(http.Header, 2)
	route(header, string(mcp.MethodToolsCall), call.Name)
	return header, nil
}

// dictate has mcp-go write a call that is not sent.
func (c *client) dictate(call Call) (request transport.JSONRPCRequest, err error) {
	ctx := withExchange(context.Background(), &exchange{written: &request, ownCancel: true})
	_, err = c.mcp.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: call.Name, RawArguments: call.Arguments}})
	if request.Method != "" {
		err = nil
	}
	return request, err
}

// readHead asks mcp-go what it says of this client in each request.
func (c *client) readHead() ([]byte, error) {
	request, err := c.dictate(Call{Name: "any", Arguments: json.RawMessage("{}")})
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(request.Params)
	if err != nil {
		return nil, err
	}
	params, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	meta, err := strictjson.MemberMap(params["_meta"])
	if err != nil {
		return nil, err
	}
	var text []byte
	for k, v := range meta {
		text = append(strictjson.AppendQuote(text, k), ':')
		text = append(append(text, v...), ',')
	}
	return text, nil
}
