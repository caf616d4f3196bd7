package flow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// StepID names a step within its task.
func StepID(ordinal uint32) string { return "step-" + strconv.FormatUint(uint64(ordinal), 10) }

// BranchStepID names the n-th step of a branch in references of the same branch.
func BranchStepID(n int) string { return "branch-step-" + strconv.Itoa(n) }

// WaitID names the n-th wait of a task.
func WaitID(n uint32) string { return "wait-" + strconv.FormatUint(uint64(n), 10) }

// WaitNumber returns the number in a wait's id, or 0.
func WaitNumber(id string) uint32 {
	digits, ok := strings.CutPrefix(id, "wait-")
	n, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil {
		return 0
	}
	return uint32(n)
}

// nameLength bounds a name that is the beginning of a goal.
const nameLength = 40

// Name returns the name of a task without one: its goal, shortened.
func Name(goal string) string {
	if utf8.RuneCountInString(goal) <= nameLength {
		return goal
	}
	return string([]rune(goal)[:nameLength-1]) + "…"
}

// AnswerID names the n-th answer to a task's goal.
func AnswerID(n uint32) string { return "answer-" + strconv.FormatUint(uint64(n), 10) }

// AttemptID names one attempt of a step: <task>/<step>/<attempt>.
func AttemptID(task string, ordinal, attempt uint32) string {
	return task + "/" + StepID(ordinal) + "/" + strconv.FormatUint(uint64(attempt), 10)
}

// CallID names a call of an attempt. The first call (round 0) has the attempt's id. Each further call continues an attempt whose call the pool
// lost while a person was asked; its id has a number appended.
func CallID(task string, ordinal, attempt, round uint32) string {
	id := AttemptID(task, ordinal, attempt)
	if round > 0 {
		id += "/" + strconv.FormatUint(uint64(round)+1, 10)
	}
	return id
}

// IdempotencyKey returns the idempotency key of a step's call with an input. All attempts with the same input have the same key.
func IdempotencyKey(task string, ordinal uint32, input string) string {
	sum := sha256.Sum256([]byte(input))
	return task + "/" + StepID(ordinal) + "/" + hex.EncodeToString(sum[:8])
}

// SuppliedHash returns the SHA-256 of the values that a person supplied.
func SuppliedHash(s *storagev1.Supplied) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(s.GetContentJson()), s.GetContentJson(), s.GetDescription()))
	return sum[:]
}

// ElicitationAnswerHash returns the SHA-256 of a person's answer to an elicitation.
func ElicitationAnswerHash(in *storagev1.SupplyInput) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s", in.GetAction(), in.GetContentJson()))
	return sum[:]
}

// ToolName splits a tool id into server and name.
func ToolName(toolID string) (mcpID, name string) {
	mcpID, name, _ = strings.Cut(toolID, "/")
	return mcpID, name
}

// InputHash returns the SHA-256 of an exact input.
func InputHash(input string) []byte {
	sum := sha256.Sum256([]byte(input))
	return sum[:]
}

// ApprovalHash returns the SHA-256 of what an approval approves: the edited plan, the edited input, or the input that was shown.
func ApprovalHash(a *storagev1.Approve, shown string) []byte {
	if a.GetPlan() == nil {
		return InputHash(cmp.Or(a.GetInputJson(), shown))
	}
	raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(a.GetPlan()) // it was decoded, so it encodes
	return InputHash(string(raw))
}

// ToolInputHash returns the SHA-256 of a tool id and an exact input.
func ToolInputHash(toolID, input string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(toolID), toolID, input))
	return sum[:]
}

// RequestHash returns the hash (hex) by which the pool recognises a call; see AttachCallRequest.
func RequestHash(mcpID, name, input string) string {
	sum := sha256.Sum256([]byte(mcpID + "\x00" + name + "\x00" + input))
	return hex.EncodeToString(sum[:])
}

// WaitHash returns the SHA-256 (hex) of the call that a wait is about: task, step, user, revision of the server's configuration, tool,
// definition and input.
func WaitHash(t *Task, s *storagev1.ActiveStep) string {
	h := sha256.New()
	for _, part := range []string{
		t.ID, StepID(s.GetOrdinal()), t.Head.GetUserSub(), strconv.FormatUint(s.GetConfigRevision(), 10), s.GetToolId(),
		s.GetDefinitionHash(), s.GetInputJson(),
	} {
		h.Write(fmt.Appendf(nil, "%d:%s", len(part), part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ElicitationHash returns the SHA-256 of a form that a tool's server asks a person to fill in, and of the step's call.
func ElicitationHash(t *Task, s *storagev1.ActiveStep, message, schema string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s%d:%s%s", WaitHash(t, s), len(message), message, schema))
	return sum[:]
}
