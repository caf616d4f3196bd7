package suite_test

import (
	"testing"

	"pawl.dev/cmd/suite"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// A watcher of MCP servers is told that the suite stops, and does not delay the stop.
func TestStopEndsThePoolsStreams(t *testing.T) {
	s, stop := start(t, suite.Config{GRPCAddr: here, Workspace: t.TempDir()})
	stream, err := mcppoolv1.NewMcpPoolServiceClient(dial(t, s.GRPCAddr(), "")).WatchMcpServers(t.Context(), &mcppoolv1.WatchMcpServersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.GetMcpServer().GetId() != "workspace" {
		t.Fatalf("%v, %v", m, err)
	}
	stop()
	if _, err := stream.Recv(); errs.ReasonName(errs.Reason(err)) != "SHUTTING_DOWN" {
		t.Errorf("the stream ended with %v", err)
	}
}
