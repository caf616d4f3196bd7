package security

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/test/mcpserver"
	"pawl.dev/test/rig"
)

// TestMain makes this binary an MCP server if rig.ServerVariable is set; with the value stamps, one with the tool stamp only.
func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(rig.ServerVariable) {
	case "":
		os.Exit(m.Run())
	case "stamps":
		s := server.NewMCPServer("stamps", "1.0.0", server.WithToolCapabilities(true))
		s.AddTool(mcp.NewTool("stamp", mcp.WithDescription("Gives another text at each call, and logs it."), mcp.WithNumber("n", mcp.Required())), stamp)
		err = server.ServeStdio(s)
	default:
		err = mcpserver.ServeStdio()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func stamp(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text := "stamp-" + rand.Text()
	fmt.Fprintln(os.Stderr, text)
	return mcp.NewToolResultText(text), nil
}
