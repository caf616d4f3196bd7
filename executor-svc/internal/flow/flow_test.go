package flow_test

import (
	"testing"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A server that calls itself pawl gets neither the executor's tool nor its freedom from approval.
func TestReadOutputIsNotForServers(t *testing.T) {
	if !flow.IsReadOutput(&storagev1.ActiveStep{ToolId: flow.ReadOutput}) {
		t.Error("the executor's own tool is not served from history")
	}
	if flow.IsReadOutput(&storagev1.ActiveStep{ToolId: flow.ReadOutput, DefinitionHash: "hash"}) {
		t.Error("a server's tool is served from history")
	}
}
