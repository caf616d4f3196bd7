package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

// ask makes a request and returns the raw result. name is what the request is about, or "".
func (c *client) ask(ctx context.Context, method, name string, params map[string]any) (json.RawMessage, error) {
	x, err := c.newRequest(method, name, params)
	if err != nil {
		return nil, err
	}
	return c.roundTrip(ctx, x, nil)
}

// newRequest writes a request.
func (c *client) newRequest(method, name string, params map[string]any) (*pendingRequest, error) {
	all := make(map[string]any, len(params)+1)
	for k, v := range params {
		all[k] = v
	}
	if meta := bytes.TrimSuffix(c.meta, []byte(",")); len(meta) > 0 {
		all["_meta"] = json.RawMessage("{" + string(meta) + "}")
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, notWritten(err)
	}
	return c.newPending(method, name, text), nil
}

// newPending makes a request with params that are written already.
func (c *client) newPending(method, name string, params []byte) *pendingRequest {
	x := &pendingRequest{id: c.ids.Add(1), method: method, name: name, answered: make(chan response, 1)}
	text := make([]byte, 0, len(params)+len(method)+64)
	text = strconv.AppendInt(append(text, `{"jsonrpc":"2.0","id":`...), x.id, 10)
	text = strictjson.AppendQuote(append(text, `,"method":`...), method)
	text = append(append(text, `,"params":`...), params...)
	x.text = append(text, "}\n"...)
	return x
}

// notWritten is the error of a request that cannot be written.
func notWritten(err error) *Error { return Errorf(Protocol, "the call cannot be written: %w", err) }

// toolRequest writes one request of a call. It is written by hand, since it is on every call's path.
func (c *client) toolRequest(r *running, next round) (*pendingRequest, error) {
	params, err := c.toolParams(r, next)
	if err != nil {
		return nil, notWritten(err)
	}
	x := c.newPending(string(mcp.MethodToolsCall), r.call.Name, params)
	x.call, x.asker = r, r
	if mirrors := c.mirrors.Load(); mirrors != nil {
		if tool, ok := (*mirrors)[r.call.Name]; ok {
			headers := mcp.GenerateParamHeaders(&tool, params)
			x.header = make(http.Header, len(headers)+6)
			for name, value := range headers {
				x.header.Set(name, value)
			}
		}
	}
	return x, nil
}

func (c *client) toolParams(r *running, next round) (json.RawMessage, error) {
	call := r.call
	arguments := oneLine(call.Arguments.String())
	text := make([]byte, 0, 256+len(arguments)+len(c.meta))
	text = append(strictjson.AppendQuote(append(text, `{"name":`...), call.Name), `,"arguments":`...)
	text = append(append(append(text, arguments...), `,"_meta":{`...), c.meta...)
	text = strictjson.AppendQuote(append(text, `"progressToken":`...), r.token)
	for _, m := range call.Meta {
		text = append(strictjson.AppendQuote(append(text, ','), m.Key), ':')
		text = strictjson.AppendQuote(text, m.Value)
	}
	text = append(text, '}')
	if call.Task && c.canTask {
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

// oneLine returns a document's text without what some readers take for the end of a line.
func oneLine(text string) string {
	switch {
	case text == "":
		return "{}"
	case strings.Contains(text, "\u2028"), strings.Contains(text, "\u2029"):
		return lineEnds.Replace(text)
	}
	return text
}

// lineEnds escapes line ends of JavaScript, which JSON has in strings only.
var lineEnds = strings.NewReplacer("\u2028", `\u2028`, "\u2029", `\u2029`)
