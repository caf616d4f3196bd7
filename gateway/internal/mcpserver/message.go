package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// Error codes of JSON-RPC and MCP.
const (
	parseError         = -32700
	invalidRequest     = -32600
	methodNotFound     = -32601
	invalidParams      = -32602
	internalError      = -32603
	resourceNotFound   = -32002 // until 2025-11-25
	headerMismatch     = -32020
	missingCapability  = -32021
	unsupportedVersion = -32022
)

// rpcError is an error as a client sees it.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
	reason  commonv1.ErrorReason
	status  int // of the HTTP response; 0: 400 in revisions without sessions, else 200
}

func (e *rpcError) Error() string { return e.Message }

func errorf(code int, format string, args ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *rpcError) with(status int) *rpcError { e.status = status; return e }

func unknownRevision(requested string) *rpcError {
	e := errorf(unsupportedVersion, "the revision %.40q is not known here", requested)
	e.Data = map[string]any{"supported": revisions, "requested": requested}
	return e
}

// errorOf returns the rpcError of an error of the pool.
func errorOf(err error) *rpcError {
	if e, ok := err.(*rpcError); ok { //nolint:errorlint // they are never wrapped
		return e
	}
	e := errs.From(err)
	code := internalError
	switch e.Code {
	case codes.InvalidArgument, codes.NotFound:
		code = invalidParams
	case codes.Unimplemented:
		code = methodNotFound
	}
	data := map[string]any{"reason": errs.ReasonName(e.Reason)}
	for key, value := range e.Metadata {
		data[key] = value
	}
	if e.RetryAfter > 0 {
		data["retryAfterSeconds"] = e.RetryAfter.Seconds()
	}
	return &rpcError{Code: code, Message: e.Message, Data: data, reason: e.Reason, status: statusOf(e)}
}

// statusOf returns the HTTP status of errors that concern the transport: clients react to it, not to the body.
func statusOf(e *errs.Error) int {
	switch {
	case e.Code == codes.Unauthenticated:
		return http.StatusUnauthorized
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED:
		return http.StatusTooManyRequests
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN:
		return http.StatusServiceUnavailable
	}
	return 0
}

// message is one JSON-RPC message of a client.
type message struct {
	id            json.RawMessage // nil: a notification
	method        string          // empty: a response
	params        fields
	result, error json.RawMessage
}

// fields are the members of an object.
type fields map[string]json.RawMessage

// text returns a member that is a string, or "".
func (f fields) text(key string) string {
	if value := f[key]; strictjson.Kind(value) == "string" {
		return strictjson.UnquoteString(value)
	}
	return ""
}

// object returns the members of a member that is an object, or nil.
func (f fields) object(key string) fields {
	members, err := strictjson.MemberMap(f[key])
	if err != nil {
		return nil
	}
	return members
}

func (f fields) has(key string) bool { return !strictjson.Absent(f[key]) }

// parse reads a message, which is JSON.
func parse(text []byte) (m message, err *rpcError) {
	members, failed := strictjson.MemberMap(bytes.TrimSpace(text))
	if failed != nil {
		return m, errorf(invalidRequest, "the body is not a JSON-RPC message: %v", failed)
	}
	all := fields(members)
	if id, given := all["id"]; given {
		if k := strictjson.Kind(id); k != "string" && k != "number" || len(id) > maxToken {
			return m, errorf(invalidRequest, "the id is neither a short string nor a number")
		}
		m.id = id
	}
	m.method, m.result, m.error = all.text("method"), all["result"], all["error"]
	switch {
	case all.text("jsonrpc") != "2.0":
		return m, errorf(invalidRequest, "the member jsonrpc is not \"2.0\"")
	case m.method == "" && (m.id == nil || all.has("method") || all.has("result") == all.has("error")):
		return m, errorf(invalidRequest, "the message is neither a request, nor a notification, nor a response")
	case all.has("params") && strictjson.Kind(all["params"]) != "object":
		return m, errorf(invalidParams, "params is not an object")
	}
	if all.has("params") {
		members, failed := strictjson.MemberMap(all["params"])
		if failed != nil {
			return m, errorf(invalidParams, "params: %v", failed)
		}
		m.params = members
	}
	return m, nil
}

// response encodes the response to a request. result is an object.
func response(id json.RawMessage, result string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func errorResponse(id json.RawMessage, e *rpcError) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, quote(e))
}

// notification encodes a notification, or a request if it has an id.
func notification(id, method string, params any) []byte {
	if id != "" {
		id = `"id":` + strictjson.Quote(id) + `,`
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0",%s"method":%s,"params":%s}`, id, strictjson.Quote(method), quote(params))
}

// quote encodes a value of maps, strings, numbers and raw JSON; such values always encode.
func quote(v any) string {
	text, err := strictjson.Marshal(v)
	if err != nil {
		return `{}`
	}
	return text
}

// extend adds members, as JSON text without braces, to the front of an object.
func extend(object, members string) string {
	rest := strings.TrimLeft(strings.TrimSpace(object)[1:], " \t\r\n")
	if rest == "}" {
		return "{" + members + "}"
	}
	return "{" + members + "," + rest
}
