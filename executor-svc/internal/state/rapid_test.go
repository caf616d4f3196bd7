package state_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"pgregory.net/rapid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/state"
)

// table is one of the state machines of state_test.go, as the properties read it.
type table struct {
	edges map[string]string
	names map[int32]string
	move  func(from, to int32) error
	// final holds the statuses that are never left.
	final string
}

func (tb table) name(status int32) string {
	if name, ok := tb.names[status]; ok {
		_, word, _ := strings.Cut(name, "_STATUS_")
		return word
	}
	return fmt.Sprint(status)
}

func (tb table) listed(from, to string) bool {
	return from == to || strings.Contains(" "+tb.edges[from]+" ", " "+to+" ")
}

func executors() table {
	return table{
		edges: executorTable, names: executorv1.ExecutorStatus_name, final: "SUCCESS ERROR CANCELLED",
		move: func(from, to int32) error {
			return state.CheckTaskMove(executorv1.ExecutorStatus(from), executorv1.ExecutorStatus(to))
		},
	}
}

func steps() table {
	return table{
		edges: stepTable, names: executorv1.StepStatus_name, final: "SUCCESS CANCELLED",
		move: func(from, to int32) error {
			return state.CheckStepMove(executorv1.StepStatus(from), executorv1.StepStatus(to))
		},
	}
}

func agents() table {
	return table{
		edges: agentTable, names: executorv1.AgentStatus_name, final: "COMPLETED FAILED ABORTED",
		move: func(from, to int32) error {
			return state.CheckAgentMove(executorv1.AgentStatus(from), executorv1.AgentStatus(to))
		},
	}
}

func subtasks() table {
	return table{
		edges: subtaskTable, names: executorv1.SubtaskStatus_name, final: "COMPLETED FAILED CANCELLED",
		move: func(from, to int32) error {
			return state.CheckSubtaskMove(executorv1.SubtaskStatus(from), executorv1.SubtaskStatus(to))
		},
	}
}

// statuses draws statuses that exist and some that do not, as a newer version may have stored.
var statuses = rapid.OneOf(rapid.Int32Range(0, 9), rapid.Int32())

// Only listed edges pass, with any status at all; the others are refused in exactly these words (A4, A5, A6, D2, D7).
func TestOnlyListedEdgesPass(t *testing.T) {
	for name, tb := range map[string]table{"executor": executors(), "step": steps(), "agent": agents(), "subtask": subtasks()} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			from, to := statuses.Draw(t, "from"), statuses.Draw(t, "to")
			err := tb.move(from, to)
			if listed := tb.listed(tb.name(from), tb.name(to)); listed != (err == nil) {
				t.Fatalf("%s -> %s: %v, listed is %v", tb.name(from), tb.name(to), err, listed)
			}
			if err == nil {
				return
			}
			e := errs.From(err)
			want := "Invalid state transition: " + tb.name(from) + " -> " + tb.name(to)
			if e.Message != want || e.Code != codes.FailedPrecondition || e.Reason != commonv1.ErrorReason_ERROR_REASON_INVALID_STATE_TRANSITION {
				t.Fatalf("%s %s %q, want %q", e.Code, e.Reason, e.Message, want)
			}
		}))
	}
}

// Along any sequence of moves, a final status is never left, and any other can be cancelled (A4, A5, D7). A step's ERROR is not final: an
// attempt may follow.
func TestWalks(t *testing.T) {
	for name, tb := range map[string]table{"executor": executors(), "step": steps(), "subtask": subtasks()} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			first := "INIT"
			if name == "subtask" {
				first = "PENDING"
			}
			at, path := statusOf(tb, first), []string{first}
			for _, to := range rapid.SliceOfN(statuses, 1, 30).Draw(t, "moves") {
				final := strings.Contains(" "+tb.final+" ", " "+tb.name(at)+" ")
				cancelled := tb.move(at, statusOf(tb, "CANCELLED"))
				if !final && cancelled != nil {
					t.Fatalf("%v cannot be cancelled: %v", path, cancelled)
				}
				if tb.move(at, to) != nil || at == to {
					continue
				}
				if final {
					t.Fatalf("%v is final, and moves to %s", path, tb.name(to))
				}
				at, path = to, append(path, tb.name(to))
			}
			if tb.name(at) == "UNKNOWN" || tb.name(at) == "UNSPECIFIED" {
				t.Fatalf("%v ends in no known status", path)
			}
		}))
	}
}

// Ended reports exactly the statuses of a task that are never left.
func TestEndedIsFinal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := executorv1.ExecutorStatus(statuses.Draw(t, "from"))
		to := executorv1.ExecutorStatus(statuses.Draw(t, "to"))
		if state.Ended(from) && from != to && state.CheckTaskMove(from, to) == nil {
			t.Fatalf("%s has ended, and moves to %s", from, to)
		}
		known := strings.Contains(executors().final, executors().name(int32(from)))
		if state.Ended(from) != known {
			t.Fatalf("Ended(%s) is %v", from, state.Ended(from))
		}
	})
}

// SubtaskEnded reports exactly the statuses of a subtask that are never left (D7).
func TestSubtaskEndedIsFinal(t *testing.T) {
	for status := range executorv1.SubtaskStatus_name {
		from := executorv1.SubtaskStatus(status)
		if known := strings.Contains(subtasks().final, subtasks().name(status)); state.SubtaskEnded(from) != known {
			t.Errorf("SubtaskEnded(%s) is %v", from, !known)
		}
	}
}

func statusOf(tb table, word string) int32 {
	for status := range tb.names {
		if tb.name(status) == word {
			return status
		}
	}
	return -1
}
