package state_test

import (
	"strings"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/state"
)

// The tables are written down here a second time, from A4 and A5, as words: `from` → all that may follow.
var executorTable = map[string]string{
	"INIT":    "RUNNING ERROR CANCELLED",
	"RUNNING": "WAITING SUCCESS ERROR CANCELLED",
	"WAITING": "RUNNING ERROR CANCELLED",
}

var stepTable = map[string]string{
	"INIT":    "RUNNING WAITING CANCELLED",
	"WAITING": "RUNNING SUCCESS ERROR CANCELLED",
	"RUNNING": "SUCCESS ERROR WAITING CANCELLED",
	"ERROR":   "PARAM INIT CANCELLED",
	"PARAM":   "RUNNING WAITING ERROR CANCELLED",
}

// A4, A6
func TestExecutorEdges(t *testing.T) {
	check(t, executorTable, "EXECUTOR_STATUS_", executorv1.ExecutorStatus_value, func(from, to int32) error {
		return state.CheckTaskMove(executorv1.ExecutorStatus(from), executorv1.ExecutorStatus(to))
	})
}

// A5, A6
func TestStepEdges(t *testing.T) {
	check(t, stepTable, "STEP_STATUS_", executorv1.StepStatus_value, func(from, to int32) error {
		return state.CheckStepMove(executorv1.StepStatus(from), executorv1.StepStatus(to))
	})
}

func check(t *testing.T, table map[string]string, prefix string, values map[string]int32, move func(from, to int32) error) {
	t.Helper()
	for fromName, from := range values {
		for toName, to := range values {
			fromName, toName := fromName[len(prefix):], toName[len(prefix):]
			allowed := from == to
			for _, word := range strings.Fields(table[fromName]) {
				allowed = allowed || word == toName
			}
			err := move(from, to)
			if allowed != (err == nil) {
				t.Errorf("%s -> %s: %v, allowed is %v", fromName, toName, err, allowed)
			}
			if want := "Invalid state transition: " + fromName + " -> " + toName; err != nil && errs.From(err).Message != want {
				t.Errorf("message %q, want %q", errs.From(err).Message, want)
			}
		}
	}
}
