package mcp

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// logLevelLimit bounds the wait for a server's word on which logs it is to send.
const logLevelLimit = 5 * time.Second

// wantLogs asks a server that logs for what it has to say: without that some send nothing, and since 2026-07-28 they must not.
// Nobody waits for its answer.
func (c *client) wantLogs(can mcp.ServerCapabilities) {
	if can.Logging == nil {
		return
	}
	ask := func() {
		ctx, cancel := context.WithTimeout(c.life, logLevelLimit)
		defer cancel()
		//nolint:staticcheck // deprecated with 2026-07-28, where mcp-go sends the level with each request instead
		_ = c.mcp.SetLevel(ctx, mcp.SetLevelRequest{Params: mcp.SetLevelParams{Level: mcp.LoggingLevelInfo}})
	}
	if c.isModern() {
		ask() // goes nowhere by itself
		return
	}
	c.notes.Go(ask)
}
