package mcpserver

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// slowTimeout bounds how long a call in mode slow waits to be cancelled.
const slowTimeout = 20 * time.Second

// Line is the record that a recording tool writes of each call.
type Line struct {
	Call string `json:"call"` // the call id
	Key  string `json:"key"`  // the idempotency key
	Line string `json:"line"` // the text that the caller gave
}

// AddRecorders adds tools with these names, which all do the same: they write a Line to `path` and then act by `mode`.
//
//	""    succeed
//	fail  fail
//	slow  wait to be cancelled
//	die   end the server in the middle of the call, if the file was empty or missing
//	ask   ask a person before writing; if the person does not accept, fail and write nothing
func AddRecorders(s *server.MCPServer, names ...string) {
	for _, name := range names {
		s.AddTool(mcp.NewTool(name, mcp.WithDescription("Writes a line that says which call it was."),
			mcp.WithString("path", mcp.Required()), mcp.WithString("line", mcp.Required()),
			mcp.WithString("mode", mcp.Enum("", "fail", "slow", "die", "ask"))), record)
	}
}

func record(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	path, mode := req.GetString("path", ""), req.GetString("mode", "")
	if mode == "ask" {
		if action, err := askSure(ctx); err != nil || action != mcp.ElicitationResponseActionAccept {
			return mcp.NewToolResultError("nothing was written"), err
		}
	}
	info, err := os.Stat(path)
	first := err != nil || info.Size() == 0
	raw, err := json.Marshal(Line{Call: meta(req, "pawl.dev/call-id"), Key: meta(req, "pawl.dev/idempotency-key"), Line: req.GetString("line", "")})
	if err != nil {
		return nil, err
	}
	if res, err := write(path, string(raw)); err != nil || res.IsError {
		return res, err
	}
	switch {
	case mode == "fail":
		return mcp.NewToolResultError("it failed, as it was told to"), nil
	case mode == "die" && first:
		os.Exit(3)
	case mode == "slow":
		timer := time.NewTimer(slowTimeout)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
	return mcp.NewToolResultText("wrote " + req.GetString("line", "")), nil
}

// askSure asks a person whether to write, and returns the action of the answer.
func askSure(ctx context.Context) (mcp.ElicitationResponseAction, error) {
	res, err := server.ServerFromContext(ctx).RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
		Message: "Write it?", RequestedSchema: map[string]any{
			"type": "object", "required": []string{"sure"}, "properties": map[string]any{"sure": map[string]any{"type": "boolean"}},
		},
	}})
	if err != nil {
		return "", err
	}
	return res.Action, nil
}

func meta(req mcp.CallToolRequest, key string) string {
	if req.Params.Meta == nil {
		return ""
	}
	value, _ := req.Params.Meta.AdditionalFields[key].(string)
	return value
}

// AddHolders adds tools with these names, which all do the same: they write a Line to `path`, and return when the file `path`.go exists.
func AddHolders(s *server.MCPServer, names ...string) {
	for _, name := range names {
		s.AddTool(mcp.NewTool(name, mcp.WithDescription("Writes a line that says which call it was, and waits."),
			mcp.WithString("path", mcp.Required()), mcp.WithString("line", mcp.Required())), hold)
	}
}

func hold(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	res, err := record(ctx, req)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for err == nil && !res.IsError {
		if _, statErr := os.Stat(req.GetString("path", "") + ".go"); statErr == nil {
			break
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return res, err
}
