package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// NPM returns the path of a file in the node_modules that `make npm` installs into test/npm; root is the path of the folder
// test. If the file is absent, the test is skipped, or fails if PAWL_TEST_NPM=required.
func NPM(t testing.TB, root, path string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "npm", "node_modules", path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("PAWL_TEST_NPM") == "required" {
			t.Fatalf("%v; run make npm", err)
		}
		t.Skipf("%s is not installed; run make npm to include this test", filepath.Base(path))
	}
	return path
}

// Node returns a Node of at least version 22: the one that npm installs if it has one for this machine, else the one in PATH; root is as for NPM.
func Node(t testing.TB, root string) string {
	t.Helper()
	for _, program := range []string{filepath.Join(root, "npm", "node_modules", ".bin", "node"), "node"} {
		out, err := exec.Command(program, "-p", "+process.versions.node.split('.')[0] >= 22").Output()
		if err == nil && strings.TrimSpace(string(out)) == "true" {
			return program
		}
	}
	return NPM(t, root, ".bin/node")
}

// everythingServer is the package of a server in the Go SDK of MCP, with a tool for each feature of servers.
const everythingServer = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

// GoEverything builds everythingServer in the version that tools/foreign pins, and returns the path of the program; root is the path of the
// folder test. If the build fails, the test fails or is skipped, as in NPM.
func GoEverything(t testing.TB, root string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "everything-server")
	cmd := exec.Command("go", "build", "-o", path, everythingServer)
	cmd.Dir = filepath.Join(root, "..", "tools", "foreign")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("PAWL_TEST_NPM") == "required" {
			t.Fatalf("building %s: %v\n%s", everythingServer, err, out)
		}
		t.Skipf("%s cannot be built here: %v\n%s", everythingServer, err, out)
	}
	return path
}
