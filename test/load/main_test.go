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

// TestMain builds the programs, or makes this binary an MCP server or an attacker if a variable says so.
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
	if value := os.Getenv(attackVariable); value != "" {
		if err := runAttack(value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(rig.Run(m, &binaries))
}
