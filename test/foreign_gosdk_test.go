package test

import (
	"context"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/test/rig"
)

// The everything-server of the Go SDK speaks the revisions with a handshake and the one without: over stdio with a handshake, over
// stdio without one (see serveModern), and over HTTP, where each request stands alone.
func TestGoSDKServer(t *testing.T) {
	program := rig.GoEverything(t, ".")
	addr := rig.FreeAddr(t)
	rig.Start(t, program, "-http", addr)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	awaitPort(ctx, t, addr)
	roots := []string{"/srv/data"}
	target := rig.InProcess(t, rig.Options{Servers: map[string]any{
		"handshake": map[string]any{"command": program, "roots": roots},
		"stateless": map[string]any{"command": os.Args[0], "env": map[string]string{modernVariable: program}, "roots": roots},
		"http":      map[string]any{"url": "http://" + addr, "roots": roots},
	}})
	pool := mcppoolv1.NewMcpPoolServiceClient(target.Pool)
	for id, uses := range map[string][]use{
		"handshake": append(gosdkUses(pool, "handshake"), gosdkAsks()...),
		"stateless": append(gosdkUses(pool, "stateless"), gosdkCannotAsk()...),
		"http":      append(gosdkUses(pool, "http"), gosdkCannotAsk()...),
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			useAll(t, pool, id, uses)
		})
	}
}

// gosdkUses are the same with and without a handshake.
func gosdkUses(pool mcppoolv1.McpPoolServiceClient, id string) []use {
	const name, ok = `{"name":"Ann"}`, `{"ok":true}`
	return []use{
		{tool: "test_simple_text", wants: []string{"text This is a simple text response"}},
		{tool: "test_image_content", wants: []string{"image image/png 70 bytes"}},
		{tool: "test_audio_content", wants: []string{"audio audio/wav"}},
		{tool: "test_embedded_resource", wants: []string{"resource test://embedded-resource text/plain This is"}},
		{tool: "test_multiple_content_types", wants: []string{"text This is text", "image image/png", "resource test://embedded-in-multiple"}},
		{tool: "test_tool_with_logging", wants: []string{"executed successfully"}, logs: true},
		{tool: "test_logging_tool", wants: []string{"Log attempted"}, logs: true},
		{tool: "test_tool_with_progress", progress: true},
		{tool: "test_error_handling", failed: true, wants: []string{"intentionally returns an error"}},
		{tool: "json_schema_2020_12_tool", input: `{"contactMethod":"phone","phone":"1"}`, wants: []string{`"phone":"1"`}},
		{tool: "json_schema_2020_12_tool", input: `{"contactMethod":"phone"}`, refused: codes.InvalidArgument, wants: []string{"phone"}},
		{tool: "test_x_mcp_header", input: `{"region":"eu","level":3}`, wants: []string{"region=eu"}},
		{tool: "test_reconnection", wants: []string{"completed successfully"}},
		{tool: "test_streaming_elicitation", wants: []string{"result frames only"}},
		{tool: "test_sampling", input: `{"prompt":"hello"}`, failed: true, wants: []string{"sampling failed"}},
		{tool: "test_missing_capability", refused: codes.FailedPrecondition, wants: []string{"-32021", "sampling"}},
		{tool: "test_input_required_result_elicitation", answers: []string{name}, asks: []string{"What is your name?"}, wants: []string{"Hello, Ann!"}},
		{tool: "test_input_required_result_sampling", refused: codes.FailedPrecondition, wants: []string{"capital_question"}},
		{tool: "test_input_required_result_list_roots", wants: []string{"1 root(s): file:///srv/data"}},
		{tool: "test_input_required_result_request_state", answers: []string{ok}, asks: []string{"Please confirm"}, wants: []string{"state-ok"}},
		{tool: "test_input_required_result_multiple_inputs", answers: []string{name}, mayAsk: true, refused: codes.FailedPrecondition, wants: []string{"greeting"}},
		{tool: "test_input_required_result_tampered_state", answers: []string{ok}, asks: []string{"Please confirm"}, wants: []string{"state-ok"}},
		{tool: "test_input_required_result_capabilities", answers: []string{name}, asks: []string{"What is your name?"}, wants: []string{"fulfilled"}},
		{tool: "test_trigger_prompt_change", wants: []string{"published"}},
		{tool: "test_trigger_tool_change", wants: []string{"published"}, after: quarantines(pool, id, "__transient_tool_for_list_changed")},
	}
}

// gosdkAsks ask in the middle of a call, with a request of the server.
func gosdkAsks() []use {
	return []use{
		{tool: "test_elicitation", input: `{"message":"hello"}`, answers: []string{`{"username":"ann"}`}, asks: []string{"hello"}, wants: []string{"action=accept, content=map[username:ann]"}},
		{tool: "test_elicitation", input: `{"message":"hello"}`, answers: []string{decline}, asks: []string{"hello"}, wants: []string{"action=decline"}},
		{tool: "test_elicitation_sep1034_defaults", answers: []string{`{"age":31}`}, asks: []string{"Test defaults"}, wants: []string{"age:31", "name:John Doe", "score:95.5", "status:active", "verified:true"}},
		{tool: "test_elicitation_sep1330_enums", answers: []string{decline}, asks: []string{"Test enum"}, wants: []string{"action=decline"}},
		// The server asks older clients by itself, once.
		{tool: "test_input_required_result_multi_round", answers: []string{`{"name":"Ann"}`}, asks: []string{"Step 1"}},
	}
}

// gosdkCannotAsk are the same tools in the revision in which servers send no requests, but ask in their results.
func gosdkCannotAsk() []use {
	wants := []string{"cannot be sent while serving a request on protocol version 2026-07-28"}
	return []use{
		{tool: "test_elicitation", input: `{"message":"hello"}`, failed: true, wants: wants},
		{tool: "test_elicitation_sep1034_defaults", failed: true, wants: wants},
		{tool: "test_elicitation_sep1330_enums", failed: true, wants: wants},
		{tool: "test_input_required_result_multi_round", answers: []string{`{"name":"Ann"}`, `{"color":"green"}`}, asks: []string{"Step 1", "Step 2"}, wants: []string{"Ann likes green"}},
	}
}

// quarantines waits until a tool that came meanwhile is quarantined.
func quarantines(pool mcppoolv1.McpPoolServiceClient, id, tool string) func(*testing.T) {
	return func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
		defer cancel()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			list, err := pool.ListTools(ctx, &mcppoolv1.ListToolsRequest{McpId: id, Quarantined: true})
			if err != nil {
				t.Fatal(err)
			}
			if q := list.GetQuarantinedTools(); len(q) == 1 && q[0].GetTool().GetName() == tool {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("%s is not quarantined: %v", tool, list)
			}
		}
	}
}
