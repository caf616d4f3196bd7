package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// New returns the server. Its tools: echo, add, fail, slow, picture (READ); append, wipe (write a line to `path`);
// falter (writes a line, and ends the server if the file did not exist); stall (writes a line and returns only when it
// is cancelled); book (asks a person, and writes a line if they accept); die (ends the server).
func New() *server.MCPServer {
	s := server.NewMCPServer("pawl-test", "1.0.0", server.WithToolCapabilities(true), server.WithElicitation())
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("Gives the text back."),
		mcp.WithString("text", mcp.Required(), mcp.Description("What to give back."))), echo)
	s.AddTool(mcp.NewTool("add", mcp.WithDescription("Adds two numbers."),
		mcp.WithNumber("a", mcp.Required()), mcp.WithNumber("b", mcp.Required())), add)
	s.AddTool(mcp.NewTool("fail", mcp.WithDescription("Fails."),
		mcp.WithString("message", mcp.Required())), fail)
	s.AddTool(mcp.NewTool("slow", mcp.WithDescription("Takes its time and says how far it is."),
		mcp.WithNumber("steps", mcp.Required()), mcp.WithString("path", mcp.Description("Gets a line if the call is cancelled."))), slow)
	s.AddTool(mcp.NewTool("append", mcp.WithDescription("Writes a line to the end of a file."),
		mcp.WithString("path", mcp.Required()), mcp.WithString("line", mcp.Required())), appendLine)
	s.AddTool(mcp.NewTool("wipe", mcp.WithDescription("Says in a file that it was wiped."),
		mcp.WithString("path", mcp.Required())), wipe)
	s.AddTool(mcp.NewTool("falter", mcp.WithDescription("Writes a line to the end of a file; the first time, the server ends before it can say so."),
		mcp.WithString("path", mcp.Required()), mcp.WithString("line", mcp.Required())), falter)
	s.AddTool(mcp.NewTool("stall", mcp.WithDescription("Writes a line to the end of a file, and does not come back."),
		mcp.WithString("path", mcp.Required())), stall)
	s.AddTool(mcp.NewTool("book", mcp.WithDescription("Asks a person for a city and the number of days, and writes that to a file."),
		mcp.WithString("path", mcp.Required())), book)
	s.AddTool(mcp.NewTool("picture", mcp.WithDescription("Draws a dot.")), picture)
	s.AddTool(mcp.NewTool("die", mcp.WithDescription("Ends the server in the middle of the call.")), die)
	return s
}

// ServeStdio serves on standard input and output until the input ends.
func ServeStdio() error { return server.ServeStdio(New()) }

func echo(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(req.GetString("text", "")), nil
}

func add(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(fmt.Sprint(req.GetFloat("a", 0) + req.GetFloat("b", 0))), nil
}

func fail(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultError(req.GetString("message", "")), nil
}

func slow(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	steps := req.GetInt("steps", 1)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range steps {
		select {
		case <-tick.C:
		case <-ctx.Done():
			if path := req.GetString("path", ""); path != "" {
				_, _ = write(path, "cancelled") // the client is gone
			}
			return nil, ctx.Err()
		}
		progress(ctx, req, i+1, steps)
	}
	return mcp.NewToolResultText(fmt.Sprintf("%d steps", steps)), nil
}

func progress(ctx context.Context, req mcp.CallToolRequest, done, total int) {
	if req.Params.Meta == nil || req.Params.Meta.ProgressToken == nil {
		return
	}
	// The client may not listen.
	_ = server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{
		"progressToken": req.Params.Meta.ProgressToken, "progress": done, "total": total, "message": fmt.Sprintf("step %d", done),
	})
}

func appendLine(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return write(req.GetString("path", ""), req.GetString("line", ""))
}

// falter writes its line. If the file did not exist, it then ends the server, so that the outcome of the call is unknown.
func falter(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	_, err := os.Stat(req.GetString("path", ""))
	res, appendErr := appendLine(ctx, req)
	if errors.Is(err, os.ErrNotExist) && appendErr == nil && !res.IsError {
		os.Exit(3)
	}
	return res, appendErr
}

func wipe(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return write(req.GetString("path", ""), "wiped")
}

func stall(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if res, err := write(req.GetString("path", ""), "stalled"); err != nil || res.IsError {
		return res, err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// book asks a person in the middle of the call, and writes its line if the person accepts.
func book(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	res, err := server.ServerFromContext(ctx).RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
		Message: "Where to, and for how long?",
		RequestedSchema: map[string]any{
			"type": "object", "required": []string{"city"}, "properties": map[string]any{
				"city": map[string]any{"type": "string", "minLength": 2}, "days": map[string]any{"type": "integer", "minimum": 1},
			},
		},
	}})
	if err != nil {
		return nil, err
	}
	if res.Action != mcp.ElicitationResponseActionAccept {
		return mcp.NewToolResultText("nothing is booked: " + string(res.Action)), nil
	}
	values, _ := res.Content.(map[string]any)
	return write(req.GetString("path", ""), fmt.Sprintf("%v for %v days", values["city"], values["days"]))
}

func write(path, line string) (*mcp.CallToolResult, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	_, err = fmt.Fprintln(f, line)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return mcp.NewToolResultText("written"), nil
}

// picture returns a PNG of one pixel.
func picture(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	return mcp.NewToolResultImage("drawn", dot, "image/png"), nil
}

func die(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	os.Exit(3)
	return nil, nil
}
