package engine_test

import (
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/executor/executortest"
)

// checkLog checks the invariants of an event log.
func checkLog(t testing.TB, events []*executorv1.ExecutorEvent) {
	t.Helper()
	for _, problem := range executortest.Violations(events) {
		t.Error(problem)
	}
}
