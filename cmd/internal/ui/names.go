package ui

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
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

// StatusName is a task's status as people write it: new, running, waiting, done, failed, cancelled.
func StatusName(s executorv1.ExecutorStatus) string {
	switch s {
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS:
		return "done"
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR:
		return "failed"
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT:
		return "new"
	}
	return EnumName(s)
}

// ParseStatus is the contrary of StatusName.
func ParseStatus(word string) executorv1.ExecutorStatus {
	for n := range executorv1.ExecutorStatus_name {
		if s := executorv1.ExecutorStatus(n); n != 0 && StatusName(s) == word {
			return s
		}
	}
	return 0
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

// EnumName is the value of an enum as people write it: lower case with hyphens, without the prefix of its type; "" if it is unspecified or unknown.
func EnumName(e protoreflect.Enum) string {
	v := e.Descriptor().Values().ByNumber(e.Number())
	if v == nil || e.Number() == 0 {
		return ""
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(v.Name()), enumPrefix(e.Descriptor())), "_", "-"))
}

// EnumValue is the contrary of EnumName; unknown words are 0.
func EnumValue[E interface {
	~int32
	protoreflect.Enum
}](word string) E {
	var zero E
	d := zero.Descriptor()
	name := enumPrefix(d) + strings.ToUpper(strings.ReplaceAll(word, "-", "_"))
	if v := d.Values().ByName(protoreflect.Name(name)); v != nil {
		return E(v.Number())
	}
	return zero
}

// enumPrefix begins the names of all values: that of 0 ends with UNSPECIFIED.
func enumPrefix(d protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

// EffectName is read, write or destructive.
func EffectName(e commonv1.Effect) string { return cmp.Or(EnumName(e), "write") }
