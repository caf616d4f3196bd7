package mcppool

import (
	"net/http/httptest"
	"testing"
	"time"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// A server over HTTP that was stopped is shown as failed, with the reason and since when, although no call was made;
// and as ready once it is back and was used.
func TestStoppedServerIsShownAsFailed(t *testing.T) {
	for _, mode := range []string{mcptest.Good, mcptest.Modern} {
		t.Run(mode, func(t *testing.T) {
			web := httptest.NewServer(mcptest.Web(mode))
			t.Cleanup(web.Close)
			s := start(t, Config{ProbeAfter: time.Nanosecond, MCPConfigs: []string{writeConfig(t, map[string]any{
				"mcpServers": map[string]any{"web": map[string]any{"url": web.URL}},
			})}})
			ann := s.as("ann")
			shown := func() *mcppoolv1.McpServer {
				t.Helper()
				list, err := ann.ListMcpServers(t.Context(), &mcppoolv1.ListMcpServersRequest{})
				if err != nil {
					t.Fatal(err)
				}
				return list.GetMcpServers()[0]
			}
			if m := shown(); m.GetState() != mcppoolv1.ConnectionState_CONNECTION_STATE_IDLE || m.GetStateTime() != nil {
				t.Errorf("before: %v since %v", m.GetState(), m.GetStateTime())
			}
			began := time.Now()
			if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "web", Name: "echo", InputJson: `{"text":"x"}`}); o.err != nil {
				t.Fatal(o.err)
			}
			if m := shown(); m.GetState() != mcppoolv1.ConnectionState_CONNECTION_STATE_READY || m.GetStateTime().AsTime().Before(began) {
				t.Errorf("in use: %v since %v", m.GetState(), m.GetStateTime())
			}
			web.CloseClientConnections()
			web.Close()
			stopped := time.Now()
			if m := shown(); m.GetState() != mcppoolv1.ConnectionState_CONNECTION_STATE_FAILED || m.GetStateTime().AsTime().Before(stopped) || m.GetLastError() == "" {
				t.Errorf("stopped: %v since %v, %q", m.GetState(), m.GetStateTime(), m.GetLastError())
			}
		})
	}
}
