package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/serve"
)

// floorVariable makes this program be a gRPC server at that address which passes calls on with mcp-go and does nothing else: no key,
// no permission, no check, no memory. It is what any pool behind gRPC adds at least.
const floorVariable = "PAWL_BENCH_FLOOR"

// plain is that server.
type plain struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
	client *mcpclient.Client
}

// CallTool implements McpPoolService.
func (p *plain) CallTool(req *mcppoolv1.CallToolRequest, stream grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
	m, err := p.call(stream.Context(), req)
	if err != nil {
		return err
	}
	return stream.Send(m)
}

// CallTools implements McpPoolService.
func (p *plain) CallTools(stream grpc.BidiStreamingServer[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		m, err := p.call(stream.Context(), req.GetCall())
		if err != nil {
			return err
		}
		if err := stream.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Call{Call: m}}); err != nil {
			return err
		}
	}
}

func (p *plain) call(ctx context.Context, req *mcppoolv1.CallToolRequest) (*mcppoolv1.CallToolResponse, error) {
	result, err := p.client.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{
		Name: req.GetName(), RawArguments: json.RawMessage(req.GetInputJson()),
	}})
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.CallResult{IsError: result.IsError}
	for _, c := range result.Content {
		if text, ok := c.(mcp.TextContent); ok {
			out.Content = append(out.Content, &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: text.Text}})
		}
	}
	return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: out}}, nil
}

// serveFloor serves until it is told to stop.
func serveFloor(addr string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := directClient(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	srv := grpc.NewServer()
	mcppoolv1.RegisterMcpPoolServiceServer(srv, &plain{client: client})
	healthpb.RegisterHealthServer(srv, health.NewServer())
	context.AfterFunc(ctx, srv.Stop)
	return srv.Serve(lis)
}

// startFloor starts it beside this program.
func (b *bench) startFloor(ctx context.Context) (*alone, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	a := &alone{}
	if a.process, err = b.start("floor", []string{floorVariable + "=" + addr}, self); err != nil {
		return nil, err
	}
	if err := a.await(ctx, func(ctx context.Context) bool { return serving(ctx, addr) }); err != nil {
		return nil, errors.Join(err, a.process.stop())
	}
	if a.conn, err = serve.Dial(addr, ""); err != nil {
		return nil, errors.Join(err, a.process.stop())
	}
	a.pool = mcppoolv1.NewMcpPoolServiceClient(a.conn)
	return a, nil
}

// directClient is mcp-go with the tool, over stdio.
func directClient(ctx context.Context) (*mcpclient.Client, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	client, err := mcpclient.NewStdioMCPClient(self, append(os.Environ(), toolVariable+"=1", floorVariable+"="))
	if err != nil {
		return nil, err
	}
	if _, err := client.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}
