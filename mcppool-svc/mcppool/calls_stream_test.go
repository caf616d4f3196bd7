package mcppool

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

type callsStream = grpc.BidiStreamingClient[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]

// callOn makes a call on a stream and reads up to the call's end.
func callOn(t *testing.T, stream callsStream, req *mcppoolv1.CallToolRequest) (o reply) {
	t.Helper()
	if err := stream.Send(&mcppoolv1.CallToolsRequest{Call: req}); err != nil {
		t.Fatalf("sending a call: %v", err)
	}
	return readToEnd(stream)
}

func readToEnd(stream callsStream) (o reply) {
	for {
		m, err := stream.Recv()
		switch {
		case err != nil:
			o.err = err
			return o
		case m.GetError() != nil:
			o.err = status.ErrorProto(m.GetError())
			return o
		case m.GetCall().GetResult() != nil:
			o.result = m.GetCall().GetResult()
			return o
		}
		o.events = append(o.events, m.GetCall())
	}
}

// Calls on one stream have the same results as on streams of their own, whatever the result of the previous call.
func TestCallTools(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	stream, err := s.as("ann").CallTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o := callOn(t, stream, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", CallId: "c1", InputJson: `{"text":"a"}`}); o.text() != `{"text":"a"}` {
		t.Errorf("echo: %+v", o)
	}
	if o := callOn(t, stream, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "nothing-like-it", CallId: "c2"}); o.reason() != "TOOL_NOT_FOUND" || o.outcome() != "NOT_EXECUTED" {
		t.Errorf("an unknown tool: %+v", o)
	}
	if o := callOn(t, stream, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "steps", CallId: "c3"}); o.err != nil || len(o.events) < 2 || len(o.events) > 4 { // progress is coalesced
		t.Errorf("with progress: %+v", o)
	}
	// A repeated id makes no new call: it follows the first one.
	if o := callOn(t, stream, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", CallId: "c1", InputJson: `{"text":"a"}`}); o.text() != `{"text":"a"}` {
		t.Errorf("the same again: %+v", o)
	}
	if o := callOn(t, stream, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", CallId: "c1", InputJson: `{"text":"b"}`}); o.reason() != "REQUEST_ID_REUSED" {
		t.Errorf("another input with the same id: %+v", o)
	}
	// A call that is sent before the previous one has ended waits.
	for _, text := range []string{`"x"`, `"y"`} {
		if err := stream.Send(&mcppoolv1.CallToolsRequest{Call: &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", InputJson: `{"text":` + text + `}`}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`{"text":"x"}`, `{"text":"y"}`} {
		if o := readToEnd(stream); o.text() != want {
			t.Errorf("a call in line: %+v, want %s", o, want)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

// A message without a call ends the stream.
func TestCallToolsWithoutCall(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	stream, err := s.as("ann").CallTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o := callOn(t, stream, nil); status.Code(o.err) != codes.InvalidArgument {
		t.Errorf("without a call: %+v", o)
	}
}

// A call continues if its client gives up the stream; CallTool with the same id returns its result.
func TestCallToolsGivenUp(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	ann := s.as("ann")
	ctx, hangUp := context.WithCancel(t.Context())
	stream, err := ann.CallTools(ctx)
	if err != nil {
		t.Fatal(err)
	}
	req := &mcppoolv1.CallToolRequest{McpId: "fake", Name: "steps", CallId: "c1"}
	if err := stream.Send(&mcppoolv1.CallToolsRequest{Call: req}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	hangUp()
	if o := invoke(t, ann, req); o.err != nil || o.result == nil {
		t.Errorf("asked for again: %+v", o)
	}
}

// A stream between two calls does not delay the server's stop, and ends with NOT_EXECUTED.
func TestCallToolsEndWithTheServer(t *testing.T) {
	service, err := New(t.Context(), Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := serve.New(serve.Options{Auth: identity.Local(), Local: true})
	if err != nil {
		t.Fatal(err)
	}
	service.Register(srv)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := mcppoolv1.NewMcpPoolServiceClient(conn).CallTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o := callOn(t, stream, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", InputJson: `{"text":"a"}`}); o.err != nil {
		t.Fatal(o.err)
	}
	stop()
	_, err = stream.Recv()
	if errs.ReasonName(errs.Reason(err)) != "SHUTTING_DOWN" || errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeNotExecuted {
		t.Errorf("the end of a stream between two calls: %v", err)
	}
	if err := errors.Join(<-served, conn.Close(), service.Close()); err != nil {
		t.Error(err)
	}
}
