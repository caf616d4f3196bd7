// Command tool is the MCP server of the crash suite: small, so that it starts fast, and killed with its pool.
package main

import (
	"fmt"
	"os"

	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/test/mcpserver"
)

func main() {
	s := server.NewMCPServer("crash", "1.0.0", server.WithToolCapabilities(true), server.WithElicitation())
	mcpserver.AddRecorders(s, "read", "put", "write", "wipe")
	if err := server.ServeStdio(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
