package security

import (
	"fmt"
	"os"
	"testing"

	"pawl.dev/test/mcpserver"
	"pawl.dev/test/rig"
)

// TestMain makes this binary an MCP server if rig.ServerVariable is set.
func TestMain(m *testing.M) {
	if os.Getenv(rig.ServerVariable) == "" {
		os.Exit(m.Run())
	}
	if err := mcpserver.ServeStdio(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
