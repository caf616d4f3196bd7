package security

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

const (
	callTimeout = 30 * time.Second
	// quiet is how long a stream is read after its first message.
	quiet = 300 * time.Millisecond
	// maxMessages bounds how many messages of a stream are read.
	maxMessages = 200
)

// caller is what a request says about who sends it.
type caller struct {
	name          string
	authorization []string
	onBehalf      []string // over gRPC only: the gateway does not forward it
}

// answer is how a call ended.
type answer struct {
	code codes.Code
	text string // all messages as JSON, or the error
}

// overGRPC makes a call. A stream that has no end of its own has succeeded when it sent a message.
func overGRPC(ctx context.Context, conn *grpc.ClientConn, rpc protoreflect.MethodDescriptor, body string, c caller) answer {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, value := range c.authorization {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", value)
	}
	for _, value := range c.onBehalf {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-pawl-on-behalf-of", value)
	}
	in, out := message(rpc.Input()), message(rpc.Output())
	if err := protojson.Unmarshal([]byte(body), in); err != nil {
		return answer{codes.Unknown, "the test's request: " + err.Error()}
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: rpc.IsStreamingClient()}, fullMethod(rpc))
	if err == nil {
		if err = stream.SendMsg(in); errors.Is(err, io.EOF) {
			err = nil // RecvMsg says why
		}
	}
	if err == nil {
		err = stream.CloseSend()
	}
	var text strings.Builder
	for n := 0; err == nil && n < maxMessages; n++ {
		if err = stream.RecvMsg(out); err == nil {
			text.WriteString(compact(out))
			if of, ok := out.(*mcppoolv1.CallToolsResponse); ok && of.GetError() != nil { // the end of a call, not of the stream
				return answer{codes.Code(of.GetError().GetCode()), text.String()}
			}
			if n == 0 {
				defer time.AfterFunc(quiet, cancel).Stop()
			}
		}
	}
	if err == nil || errors.Is(err, io.EOF) || text.Len() > 0 && status.Code(err) == codes.Canceled {
		return answer{codes.OK, text.String()}
	}
	return answer{status.Code(err), text.String() + err.Error()}
}

func message(md protoreflect.MessageDescriptor) proto.Message {
	mt, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName())
	if err != nil {
		panic(err)
	}
	return mt.New().Interface()
}

// compact returns a message as JSON without spaces and newlines.
func compact(m proto.Message) string {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return err.Error()
	}
	var text bytes.Buffer
	if err := json.Compact(&text, raw); err != nil {
		return err.Error()
	}
	return text.String()
}

func fullMethod(rpc protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", rpc.Parent().FullName(), rpc.Name())
}

// route returns an RPC's HTTP annotation; nil if it is not served over REST.
func route(rpc protoreflect.MethodDescriptor) *annotations.HttpRule {
	rule, _ := proto.GetExtension(rpc.Options(), annotations.E_Http).(*annotations.HttpRule)
	return rule
}

func methodAndPath(rule *annotations.HttpRule) (method, path string) {
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

// restRequest splits the JSON of a request into path, query and body, as the RPC's annotation says.
func restRequest(ctx context.Context, base string, rpc protoreflect.MethodDescriptor, body string) (*http.Request, error) {
	var fields map[string]any
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		return nil, err
	}
	rule := route(rpc)
	method, path := methodAndPath(rule)
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

// statusCodes has the codes of the HTTP statuses that this suite expects.
var statusCodes = map[int]codes.Code{
	http.StatusOK: codes.OK, http.StatusBadRequest: codes.InvalidArgument, http.StatusUnauthorized: codes.Unauthenticated,
	http.StatusForbidden: codes.PermissionDenied, http.StatusNotFound: codes.NotFound, http.StatusConflict: codes.FailedPrecondition,
}

// overREST makes a call through the gateway.
func overREST(ctx context.Context, base string, rpc protoreflect.MethodDescriptor, body string, c caller) answer {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := restRequest(ctx, base, rpc, body)
	if err != nil {
		return answer{codes.Unknown, "the test's request: " + err.Error()}
	}
	for _, value := range c.authorization {
		req.Header.Add("Authorization", value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{codes.Unknown, err.Error()}
	}
	defer func() { _ = res.Body.Close() }()
	if rpc.IsStreamingServer() {
		defer time.AfterFunc(quiet, cancel).Stop()
	}
	text, err := io.ReadAll(res.Body)
	if err != nil && !errors.Is(err, context.Canceled) {
		return answer{codes.Unknown, err.Error()}
	}
	code, ok := statusCodes[res.StatusCode]
	if !ok {
		code = codes.Unknown
	}
	return answer{code, fmt.Sprintf("%d %s", res.StatusCode, text)}
}
