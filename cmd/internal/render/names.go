package render

import (
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// shortID is how many of an id's last characters are shown: they are random, the first ones are the time.
const shortID = 8

// ShortID is the end of an id, enough to tell tasks apart and taken by every command.
func ShortID(id string) string {
	if len(id) <= shortID {
		return id
	}
	return id[len(id)-shortID:]
}

// StatusName is a task's status as people write it: waiting, running, done, failed …
func StatusName(s executorv1.ExecutorStatus) string {
	switch s {
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS:
		return "done"
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR:
		return "failed"
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT:
		return "new"
	}
	return lower(s.String(), "EXECUTOR_STATUS_")
}

// StateName is a task's status with what is said beside it: queued, pausing, paused.
func StateName(task *executorv1.Task) string {
	waiting := task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	switch {
	case task.GetEndTime() != nil:
	case task.GetPauseRequested() && waiting:
		return "paused"
	case task.GetPauseRequested():
		return "pausing"
	case task.GetQueued():
		return "queued"
	}
	return StatusName(task.GetStatus())
}

// StatusWords are the words that ParseStatus takes.
func StatusWords() []string {
	return []string{"new", "running", "waiting", "done", "failed", "cancelled"}
}

// ParseStatus reads a word of StatusWords.
func ParseStatus(word string) (executorv1.ExecutorStatus, bool) {
	for n := range executorv1.ExecutorStatus_name {
		if s := executorv1.ExecutorStatus(n); n != 0 && StatusName(s) == word {
			return s, true
		}
	}
	return 0, false
}

// StatusStyle colours a status by what it means.
func (s Style) StatusStyle(text string) string {
	switch strings.TrimSpace(text) {
	case "done":
		return s.Green(text)
	case "failed":
		return s.Red(text)
	case "waiting", "paused", "pausing":
		return s.Yellow(text)
	case "running", "new", "queued":
		return s.Cyan(text)
	}
	return s.Dim(text)
}

// StepMark is the mark of a step's status.
func (s Style) StepMark(status executorv1.StepStatus) string {
	switch status {
	case executorv1.StepStatus_STEP_STATUS_SUCCESS:
		return s.Green("✓")
	case executorv1.StepStatus_STEP_STATUS_ERROR:
		return s.Red("✗")
	case executorv1.StepStatus_STEP_STATUS_CANCELLED:
		return s.Yellow("⊘")
	case executorv1.StepStatus_STEP_STATUS_WAITING, executorv1.StepStatus_STEP_STATUS_PARAM:
		return s.Yellow("⏸")
	}
	return s.Cyan("…")
}

// EffectName is read, write or destructive.
func EffectName(e commonv1.Effect) string {
	if e == commonv1.Effect_EFFECT_UNSPECIFIED {
		return "write"
	}
	return lower(e.String(), "EFFECT_")
}

// ConfirmName is always, by-risk or never.
func ConfirmName(c executorv1.Confirm) string {
	if c == executorv1.Confirm_CONFIRM_UNSPECIFIED {
		return ""
	}
	return strings.ReplaceAll(lower(c.String(), "CONFIRM_"), "_", "-")
}

// OnUnknownName is ask, retry or fail.
func OnUnknownName(o executorv1.OnUnknownOutcome) string {
	if o == executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_UNSPECIFIED {
		return "ask"
	}
	return lower(o.String(), "ON_UNKNOWN_OUTCOME_")
}

// ConnectionName is idle, connecting, ready or failed.
func ConnectionName(c mcppoolv1.ConnectionState) string {
	if c == mcppoolv1.ConnectionState_CONNECTION_STATE_UNSPECIFIED {
		return ""
	}
	return lower(c.String(), "CONNECTION_STATE_")
}

func lower(name, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(name, prefix))
}
