package scale

import (
	"fmt"
	"os"
	"testing"

	"pawl.dev/test/rig"
)

// binaries are the programs that the tests start.
var binaries rig.Binaries

// TestMain builds the programs; with serverVariable set, this binary is an MCP server instead.
func TestMain(m *testing.M) {
	if name := os.Getenv(serverVariable); name != "" {
		if err := serveTool(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(rig.Run(m, &binaries))
}
