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

// D2
var agentTable = map[string]string{
	"IDLE":     "PLANNING",
	"PLANNING": "RUNNING FAILED ABORTED WAITING",
	"RUNNING":  "WAITING COMPLETED FAILED ABORTED",
	"WAITING":  "RUNNING PLANNING FAILED ABORTED",
}

// D7
var subtaskTable = map[string]string{
	"PENDING":     "BLOCKED IN_PROGRESS CANCELLED",
	"BLOCKED":     "PENDING CANCELLED",
	"IN_PROGRESS": "COMPLETED FAILED CANCELLED",
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

// D2, A6
func TestAgentEdges(t *testing.T) {
	check(t, agentTable, "AGENT_STATUS_", executorv1.AgentStatus_value, func(from, to int32) error {
		return state.CheckAgentMove(executorv1.AgentStatus(from), executorv1.AgentStatus(to))
	})
}

// D7, A6
func TestSubtaskEdges(t *testing.T) {
	check(t, subtaskTable, "SUBTASK_STATUS_", executorv1.SubtaskStatus_value, func(from, to int32) error {
		return state.CheckSubtaskMove(executorv1.SubtaskStatus(from), executorv1.SubtaskStatus(to))
	})
}

// D2: an agent's status is a view of the task's, and follows its own table along every edge of the task's. A task that ends before it has
// planned passes PLANNING; a plan is made once.
func TestAgentIsAViewOfTheTask(t *testing.T) {
	for name, want := range map[string]string{
		"INIT": "IDLE", "WAITING": "WAITING", "SUCCESS": "COMPLETED", "ERROR": "FAILED", "CANCELLED": "ABORTED", "RUNNING": "RUNNING",
		"UNSPECIFIED": "UNSPECIFIED",
	} {
		if got := state.Agent(task(name), false).String(); got != "AGENT_STATUS_"+want {
			t.Errorf("%s is shown as %s, want %s", name, got, want)
		}
	}
	if got := state.Agent(task("RUNNING"), true); got != executorv1.AgentStatus_AGENT_STATUS_PLANNING {
		t.Errorf("a task that makes its plan is shown as %s", got)
	}
	for from, follow := range executorTable {
		for _, to := range strings.Fields(follow) {
			for _, planning := range []struct{ before, after bool }{{true, true}, {true, false}, {false, false}} {
				before, after := state.Agent(task(from), planning.before), state.Agent(task(to), planning.after)
				if from == "INIT" && to != "RUNNING" || from == "INIT" && !planning.after || to == "SUCCESS" && planning.before {
					before = state.Agent(task("RUNNING"), from == "INIT") // passed within the commit
				}
				if err := state.CheckAgentMove(before, after); err != nil {
					t.Errorf("task %s -> %s, planning %v: %v", from, to, planning, err)
				}
			}
		}
	}
}

func task(name string) executorv1.ExecutorStatus {
	return executorv1.ExecutorStatus(executorv1.ExecutorStatus_value["EXECUTOR_STATUS_"+name])
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
