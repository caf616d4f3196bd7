package security

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/test/rig"
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
	in, out := rig.Message(rpc.Input()), rig.Message(rpc.Output())
	if err := protojson.Unmarshal([]byte(body), in); err != nil {
		return answer{codes.Unknown, "the test's request: " + err.Error()}
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: rpc.IsStreamingClient()}, rig.FullMethod(rpc))
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

// statusCodes has the codes of the HTTP statuses that this suite expects.
var statusCodes = map[int]codes.Code{
	http.StatusOK: codes.OK, http.StatusBadRequest: codes.InvalidArgument, http.StatusUnauthorized: codes.Unauthenticated,
	http.StatusForbidden: codes.PermissionDenied, http.StatusNotFound: codes.NotFound, http.StatusConflict: codes.FailedPrecondition,
}

// overREST makes a call through the gateway.
func overREST(ctx context.Context, base string, rpc protoreflect.MethodDescriptor, body string, c caller) answer {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := rig.RESTRequest(ctx, base, rpc, body)
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
