package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Caller makes unary calls of any service, with requests and responses as JSON. Pawl's error responses are returned as *Refused.
type Caller interface {
	Call(ctx context.Context, rpc protoreflect.MethodDescriptor, body string) (response []byte, err error)
}

// CallGRPC is a Caller over gRPC.
type CallGRPC struct{ Conn grpc.ClientConnInterface }

// Call implements Caller.
func (c CallGRPC) Call(ctx context.Context, rpc protoreflect.MethodDescriptor, body string) ([]byte, error) {
	in, out := Message(rpc.Input()), Message(rpc.Output())
	if err := protojson.Unmarshal([]byte(body), in); err != nil {
		return nil, fmt.Errorf("the test's request: %w", err)
	}
	if err := c.Conn.Invoke(ctx, FullMethod(rpc), in, out); err != nil {
		return nil, refused(err)
	}
	return protojson.Marshal(out)
}

// Call implements Caller.
func (c REST) Call(ctx context.Context, rpc protoreflect.MethodDescriptor, body string) ([]byte, error) {
	req, err := RESTRequest(ctx, c.Base, rpc, body)
	if err != nil {
		return nil, fmt.Errorf("the test's request: %w", err)
	}
	res, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	return io.ReadAll(res.Body)
}

// Message returns a new message.
func Message(md protoreflect.MessageDescriptor) proto.Message {
	mt, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName())
	if err != nil {
		panic(err)
	}
	return mt.New().Interface()
}

// FullMethod returns the name of an RPC on the wire.
func FullMethod(rpc protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", rpc.Parent().FullName(), rpc.Name())
}

// Route returns an RPC's HTTP annotation; nil if it is not served over REST.
func Route(rpc protoreflect.MethodDescriptor) *annotations.HttpRule {
	rule, _ := proto.GetExtension(rpc.Options(), annotations.E_Http).(*annotations.HttpRule)
	return rule
}

// MethodAndPath returns the method and the path of an HTTP annotation.
func MethodAndPath(rule *annotations.HttpRule) (method, path string) {
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return http.MethodGet, p.Get
	case *annotations.HttpRule_Post:
		return http.MethodPost, p.Post
	case *annotations.HttpRule_Patch:
		return http.MethodPatch, p.Patch
	case *annotations.HttpRule_Delete:
		return http.MethodDelete, p.Delete
	}
	panic("a pattern that this test does not know")
}

var variable = regexp.MustCompile(`\{([a-z_.]+)\}`)

// RESTRequest splits the JSON of a request into path, query and body, as the RPC's annotation says.
func RESTRequest(ctx context.Context, base string, rpc protoreflect.MethodDescriptor, body string) (*http.Request, error) {
	var fields map[string]any
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		return nil, err
	}
	rule := Route(rpc)
	method, path := MethodAndPath(rule)
	path = variable.ReplaceAllStringFunc(path, func(name string) string { return url.PathEscape(take(fields, strings.Trim(name, "{}"))) })
	var payload io.Reader
	query := url.Values{}
	send := any(fields)
	if rule.GetBody() != "*" {
		name := jsonName(rule.GetBody())
		send = fields[name]
		delete(fields, name)
		for key, value := range fields {
			list, ok := value.([]any)
			if !ok {
				list = []any{value}
			}
			for _, v := range list {
				query.Add(key, fmt.Sprint(v))
			}
		}
	}
	if rule.GetBody() != "" {
		raw, err := json.Marshal(send)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path+"?"+query.Encode(), payload)
	if err == nil && payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// take removes the text at a path such as mcp_server.id from fields.
func take(fields map[string]any, path string) string {
	first, rest, deep := strings.Cut(path, ".")
	name := jsonName(first)
	if inner, ok := fields[name].(map[string]any); deep && ok {
		return take(inner, rest)
	}
	text, _ := fields[name].(string)
	delete(fields, name)
	return text
}

func jsonName(field string) string {
	words := strings.Split(field, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}
