package pin

import (
	"testing"

	"pawl.dev/mcppool-svc/internal/registry"
)

// A server that is taken out of its file and put back later is not trusted as if it were new.
func TestPinsOfRemovedServersStay(t *testing.T) {
	st := newStore(t)
	files := &registry.Server{ID: "files", FromConfig: true, Stdio: &registry.Stdio{Command: "files"}}
	held(t, open(t, st), files, tools(t, "read=v1", "write=v1"))
	open(t, st) // without the server
	if got := held(t, open(t, st), files, tools(t, "read=v2", "write=v1")); got != "read" {
		t.Errorf("held: %q", got)
	}
}
