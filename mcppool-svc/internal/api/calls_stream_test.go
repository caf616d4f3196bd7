package api

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// broken is a stream whose Send panics.
type broken struct{ wire }

func (*broken) Send(*mcppoolv1.CallToolsResponse) error { panic("the stream is broken") }

// A panic in a goroutine of CallTools is raised again in the handler, where it is recovered, and names its place.
func TestCallToolsPanicsInItsHandler(t *testing.T) {
	s := serverOf(t, echo{done: make(chan struct{})})
	w := &broken{wire{ctx: identity.NewContext(t.Context(), identity.Principal{Sub: "ann"}),
		requests: make(chan *mcppoolv1.CallToolsRequest, 1)}}
	w.requests <- echoCall("c1")
	defer func() {
		if p, ok := recover().(error); !ok || !strings.Contains(p.Error(), "the stream is broken") || !strings.Contains(p.Error(), "calls_stream_test.go") {
			t.Errorf("CallTools panicked with %v", p)
		}
	}()
	t.Errorf("CallTools ended with %v", s.CallTools(w))
}

// slow is a server whose calls last until the pool stops.
type slow struct {
	echo
	begun chan struct{}
}

func (s slow) CallTool(ctx context.Context, _ mcp.Call) (json.RawMessage, error) {
	s.begun <- struct{}{}
	<-serve.Stopping(ctx)
	return json.RawMessage(echoResult), nil
}

// A call that runs when the server stops may end. The next one on the same stream is not made.
func TestCallToolsWhileTheServerStops(t *testing.T) {
	server := slow{echo{done: make(chan struct{})}, make(chan struct{}, 2)}
	srv, err := serve.New(serve.Options{Auth: identity.Local(), Local: true})
	if err != nil {
		t.Fatal(err)
	}
	mcppoolv1.RegisterMcpPoolServiceServer(srv, serverOf(t, server))
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
	for _, id := range []string{"c1", "c2"} {
		if err := stream.Send(echoCall(id)); err != nil {
			t.Fatal(err)
		}
	}
	<-server.begun
	stop()
	if m, err := stream.Recv(); m.GetCall().GetResult().GetCallId() != "c1" {
		t.Errorf("the call that ran: %v, %v", m, err)
	}
	_, err = stream.Recv()
	if errs.ReasonName(errs.Reason(err)) != "SHUTTING_DOWN" || errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeNotExecuted {
		t.Errorf("the next call: %v", err)
	}
	if len(server.begun) > 0 {
		t.Error("the next call was made")
	}
	if err := errors.Join(<-served, conn.Close()); err != nil {
		t.Error(err)
	}
}

func echoCall(id string) *mcppoolv1.CallToolsRequest {
	return &mcppoolv1.CallToolsRequest{Call: &mcppoolv1.CallToolRequest{McpId: "echo", Name: "echo", InputJson: echoInput, CallId: id}}
}
