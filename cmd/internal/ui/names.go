package ui

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// shortIDLen is how many characters ShortID keeps. The last characters of an id are random; the first ones are the time.
const shortIDLen = 8

// ShortID returns the end of an id, which every command accepts.
func ShortID(id string) string {
	if len(id) <= shortIDLen {
		return id
	}
	return id[len(id)-shortIDLen:]
}

// IDMatches reports whether an id begins or ends with ref.
func IDMatches(id, ref string) bool {
	ref = strings.ToLower(ref)
	return strings.HasPrefix(id, ref) || strings.HasSuffix(id, ref)
}

// named is a resource of a user that has a name for people.
type named interface {
	GetId() string
	GetDisplayName() string
}

// Find returns the only member of all whose display name is ref, or whose id begins or ends with ref. kind is the word for a member, such as topic.
func Find[T named](all []T, ref, kind, flags string) (one T, err error) {
	const minRef = 4
	var found []T
	var ids []string
	for _, r := range all {
		if len(ref) >= minRef && IDMatches(r.GetId(), ref) || strings.EqualFold(r.GetDisplayName(), ref) {
			found, ids = append(found, r), append(ids, ShortID(r.GetId()))
		}
	}
	lists := fmt.Sprintf("pawl %ss%s lists your %ss", kind, flags, kind)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return one, Errorf("you have no %s %q", kind, ref).Then("%s", lists)
	}
	const shown = 5
	return one, Errorf("%q names %d %ss: %s", ref, len(found), kind, strings.Join(ids[:min(len(ids), shown)], ", ")).Then("give the end of one's id; %s", lists)
}

// StatusName returns the name of a task's status: new, running, waiting, done, failed or cancelled.
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

// StatusesOf returns the statuses that a task can have if its StatusName or StateName is word.
func StatusesOf(word string) []executorv1.ExecutorStatus {
	const initial, running, waiting = executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING, executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	switch word {
	case "queued":
		return []executorv1.ExecutorStatus{initial, running, waiting}
	case "pausing":
		return []executorv1.ExecutorStatus{initial, running}
	case "paused":
		return []executorv1.ExecutorStatus{waiting}
	}
	for n := range executorv1.ExecutorStatus_name {
		if s := executorv1.ExecutorStatus(n); n != 0 && StatusName(s) == word {
			return []executorv1.ExecutorStatus{s}
		}
	}
	return nil
}

// StateName returns queued, pausing or paused if one applies to the task, or else its StatusName.
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

// StatusStyle colours the name of a status or state.
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

// EnumName returns the name of an enum value in lower case with hyphens, without its type's prefix; "" if it is unspecified or unknown.
func EnumName(e protoreflect.Enum) string {
	v := e.Descriptor().Values().ByNumber(e.Number())
	if v == nil || e.Number() == 0 {
		return ""
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(v.Name()), enumPrefix(e.Descriptor())), "_", "-"))
}

// EnumValue is the inverse of EnumName. It returns 0 for an unknown word.
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

// enumPrefix returns the common prefix of an enum's value names: the name of 0 without UNSPECIFIED.
func enumPrefix(d protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

// EffectName returns read, write or destructive. An unspecified effect counts as write.
func EffectName(e commonv1.Effect) string { return cmp.Or(EnumName(e), "write") }

// Bytes formats a size: 512 B, 1.5 kB, 23.4 MB.
func Bytes(n int64) string {
	size, units := float64(n), []string{"kB", "MB", "GB", "TB"}
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	for i, unit := range units {
		if size /= 1000; size < 999.95 || i == len(units)-1 {
			return fmt.Sprintf("%.1f %s", size, unit)
		}
	}
	return ""
}

// Duration formats d: 0.04s, 1.3s, 2m05s, 3h07m.
func Duration(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Age formats the time from t to now: 5s, 3m, 2h, 4d; "" for the zero time and for the Unix epoch, which is the time of a nil Timestamp.
func Age(t, now time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return ""
	}
	d := max(now.Sub(t), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Plural formats a count: 1 step, 2 steps.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Set copies *from to *to if from is not nil.
func Set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Progress formats a progress with its message: "2.5/3 message".
func Progress(done, total float64, message string) string {
	text := Number(done)
	if total > 0 {
		text += "/" + Number(total)
	}
	return strings.TrimSpace(text + " " + Line(message))
}

// Number formats f with at most two decimals and no trailing zeros.
func Number(f float64) string {
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
}
