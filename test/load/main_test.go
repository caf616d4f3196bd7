package load

import (
	"fmt"
	"os"
	"testing"

	"pawl.dev/test/mcpserver"
	"pawl.dev/test/rig"
)

// binaries are the programs that the tests start.
var binaries rig.Binaries

// TestMain builds the programs; with rig.ServerVariable set, this binary is an MCP server instead.
func TestMain(m *testing.M) {
	if os.Getenv(rig.ServerVariable) != "" {
		if err := mcpserver.ServeStdio(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(resultsVariable) != "" {
		if err := serveResults(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(rig.Run(m, &binaries))
}
