package test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/test/rig"
)

// server-everything does not say which call a question belongs to. Still, two calls of one user can ask at once, and each gets its own
// answer.
func TestForeignServerAsksTwiceAtOnce(t *testing.T) {
	bin := rig.NPM(t, ".", ".bin")
	target := rig.InProcess(t, rig.Options{Servers: map[string]any{
		"stdio": map[string]any{"command": filepath.Join(bin, "mcp-server-everything"), "args": []string{"stdio"}, "pinning": "allow_new"},
		"sse":   map[string]any{"url": everythingOver(t, bin, "sse") + "/sse", "pinning": "allow_new"},
	}})
	pool := mcppoolv1.NewMcpPoolServiceClient(target.Pool)
	for _, id := range []string{"stdio", "sse"} {
		t.Run(id, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
			defer cancel()
			ann, bea := asking(ctx, t, pool, id, "Ann"), asking(ctx, t, pool, id, "Bea")
			bea()
			ann()
		})
	}
}

// asking calls a tool up to its question; the function that it returns answers with a name, and expects that name in the result.
func asking(ctx context.Context, t *testing.T, pool mcppoolv1.McpPoolServiceClient, id, name string) func() {
	t.Helper()
	call := id + "/" + name
	stream, err := pool.CallTool(ctx, &mcppoolv1.CallToolRequest{McpId: id, Name: "trigger-elicitation-request", InputJson: "{}", CallId: call})
	var q *mcppoolv1.CallInputRequired
	for err == nil && q == nil {
		var m *mcppoolv1.CallToolResponse
		if m, err = stream.Recv(); m.GetResult() != nil {
			t.Fatalf("%s asks nothing: %s", call, show(m.GetResult()))
		}
		q = m.GetInputRequired()
	}
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	return func() {
		_, err := pool.AnswerCall(ctx, &mcppoolv1.AnswerCallRequest{CallId: call, Answer: &mcppoolv1.CallAnswer{
			InputId: q.GetInputId(), Action: mcppoolv1.CallAnswer_ACTION_ACCEPT, ContentJson: fmt.Sprintf(`{"name":%q}`, name),
		}})
		var m *mcppoolv1.CallToolResponse
		for err == nil && m.GetResult() == nil {
			m, err = stream.Recv()
		}
		if got := show(m.GetResult()); err != nil || !strings.Contains(got, "Name: "+name) {
			t.Errorf("%s: %v, %s", call, err, got)
		}
	}
}
