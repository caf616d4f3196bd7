package gateway_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"pawl.dev/gateway/gateway"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// TestPoolStreams: the pool's own subscriptions are lines, or events if the client asks for them.
func TestPoolStreams(t *testing.T) {
	b := start(t, gateway.Config{})
	b.pool.WatchMcpServersFn = func(r *mcppoolv1.WatchMcpServersRequest, s grpc.ServerStreamingServer[mcppoolv1.WatchMcpServersResponse]) error {
		for _, id := range r.GetIds() {
			if err := s.Send(&mcppoolv1.WatchMcpServersResponse{McpServer: &mcppoolv1.McpServer{Id: id}}); err != nil {
				return err
			}
		}
		return nil
	}
	b.pool.SubscribeResourceFn = func(r *mcppoolv1.SubscribeResourceRequest, s grpc.ServerStreamingServer[mcppoolv1.SubscribeResourceResponse]) error {
		return s.Send(&mcppoolv1.SubscribeResourceResponse{Uri: r.GetUri()})
	}
	streams := map[string][]string{
		"/v1/mcpServers:watch?ids=a&ids=b":                    {`{"mcpServer":{"id":"a"}}`, `{"mcpServer":{"id":"b"}}`},
		"/v1/mcpServers/m/resources:subscribe?uri=demo://x/1": {`{"uri":"demo://x/1"}`},
	}
	for path, messages := range streams {
		var lines, events string
		for _, m := range messages {
			lines += m + "\n"
			events += "message " + m + "\n"
		}
		if _, body := b.text("GET", path, "", nil); body != lines {
			t.Errorf("GET %s: %q, want %q", path, body, lines)
		}
		_, body := b.text("GET", path, "", header{"Accept": "text/event-stream"})
		_, got := frames(t, body)
		var seen string
		for _, f := range got {
			seen += fmt.Sprintf("%s %s\n", f.event, f.data)
		}
		if diff := cmp.Diff(events+"end {}\n", seen); diff != "" {
			t.Errorf("GET %s as events (-want +got):\n%s", path, diff)
		}
	}
}
