package workspace

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// progressEvery is how many files lie between two progress notifications.
const progressEvery = 1000

// reporter is told the number of files a walk has come past so far.
type reporter func(files int)

// reporterOf sends progress if the caller asked for it. A notification that
// cannot be delivered is dropped: progress never holds up or fails a call.
func reporterOf(ctx context.Context, req mcp.CallToolRequest) reporter {
	if req.Params.Meta == nil || req.Params.Meta.ProgressToken == nil {
		return func(int) {}
	}
	srv, token := server.ServerFromContext(ctx), req.Params.Meta.ProgressToken
	return func(files int) {
		_ = srv.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), map[string]any{
			"progressToken": token,
			"progress":      files,
			"message":       fmt.Sprintf("%d files", files),
		})
	}
}
