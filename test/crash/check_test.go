package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/test/mcpserver"

	"pawl.dev/executor-svc/executor/executortest"
)

const (
	known       = commonv1.Outcome_OUTCOME_KNOWN
	notExecuted = commonv1.Outcome_OUTCOME_NOT_EXECUTED
	unknown     = commonv1.Outcome_OUTCOME_UNKNOWN

	stepInit   = executorv1.EventType_EVENT_TYPE_STEP_INIT
	stepOutput = executorv1.EventType_EVENT_TYPE_STEP_OUTPUT
	textAdd    = executorv1.EventType_EVENT_TYPE_TEXT_ADD
	stepInput  = executorv1.EventType_EVENT_TYPE_STEP_INPUT
	stepError  = executorv1.EventType_EVENT_TYPE_STEP_ERROR
	stepCancel = executorv1.EventType_EVENT_TYPE_STEP_CANCEL
	forStart   = executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START
)

// check returns the violations of a task that has ended; none are allowed, whatever was killed meanwhile.
func (r *run) check(res result) []string {
	lines, err := written(r.path)
	if err != nil {
		return []string{err.Error()}
	}
	problems := executortest.Violations(res.events)
	problems = append(problems, sameEvents(r.seen, res.events)...)
	if res.task.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR {
		// None of the flows fails by itself.
		problems = append(problems, "it failed: "+res.task.GetError().GetErrMsg())
	}
	problems = append(problems, still(res.events)...)
	problems = append(problems, r.calls(res, lines)...)
	return append(problems, r.effects(res, lines)...)
}

// sameEvents compares the events that a watcher received over all crashes with those that are read afterwards: none that was shown is
// lost or changed (A26).
func sameEvents(seen, read []*event) (problems []string) {
	for i := range max(len(seen), len(read)) {
		switch {
		case i >= len(read):
			problems = append(problems, fmt.Sprintf("event %d was shown and is lost: %s", i+1, seen[i].GetType()))
		case i >= len(seen):
			problems = append(problems, fmt.Sprintf("event %d was not shown: %s", i+1, read[i].GetType()))
		case !proto.Equal(seen[i], read[i]):
			problems = append(problems, fmt.Sprintf("event %d was shown as %s and is %s", i+1, seen[i], read[i]))
		}
	}
	return problems
}

// still checks that nothing begins while a task is paused.
func still(events []*event) (problems []string) {
	paused := false
	for _, e := range events {
		switch reason := e.GetStatusChanged().GetReason(); {
		case reason == "paused":
			paused = true
		case reason == "unpaused":
			paused = false
		case paused && (e.GetType() == stepInput || e.GetType() == stepInit || e.GetType() == textAdd):
			problems = append(problems, fmt.Sprintf("event %d begins something while the task is paused: %s", e.GetSeq(), e.GetType()))
		}
	}
	return problems
}

// calls checks each call by its id: its intent was durable; it was made once, except calls of repeatable tools, which the pool tries again
// by itself; and a call that is reported as NOT_EXECUTED did not run.
func (r *run) calls(res result, lines []mcpserver.Line) (problems []string) {
	intended, denied := map[string]bool{}, map[string]bool{}
	for _, e := range res.events {
		id := fmt.Sprintf("%s/%s/%d", e.GetTaskId(), e.GetFlow().GetStepId(), e.GetAttempt())
		switch e.GetType() {
		case stepInput:
			intended[id] = true
		case stepError, stepCancel:
			denied[id] = outcomeOf(e) == notExecuted
		}
	}
	made := map[string]bool{}
	for _, l := range lines {
		switch {
		case made[l.Call] && !repeatable(r.tool):
			problems = append(problems, "the call "+l.Call+" was made twice")
		case !intended[l.Call]:
			problems = append(problems, "the call "+l.Call+" was made without an intent")
		case denied[l.Call]:
			problems = append(problems, "the call "+l.Call+" was made, and is said not to have been executed")
		}
		made[l.Call] = true
	}
	return problems
}

func outcomeOf(e *event) commonv1.Outcome {
	return max(e.GetStepError().GetOutcome(), e.GetStepCancel().GetOutcome())
}

// effects checks each step: a tool that is not repeatable left at most one line, and one more for each retry that a person asked for
// and for each attempt that the tool itself reported as failed (A11); each call has the step's own input, or the one that a person
// supplied; repetitions with the same input have the same key; and a step that succeeded ran, unless a person supplied its output.
func (r *run) effects(res result, lines []mcpserver.Line) (problems []string) {
	count, keys := map[string]int{}, map[string]string{}
	for _, l := range lines {
		_, rest, _ := strings.Cut(l.Call, "/")
		step, _, _ := strings.Cut(rest, "/")
		count[step]++
		if key := keys[step+l.Line]; l.Key == "" || key != "" && key != l.Key {
			problems = append(problems, fmt.Sprintf("%s has the idempotency key %q, and had %q with the same input", l.Call, l.Key, key))
		}
		keys[step+l.Line] = l.Key
		if l.Line != step && l.Line != supplied {
			problems = append(problems, fmt.Sprintf("%s was called with the input of %s", step, l.Line))
		}
	}
	failed := map[string]int{}
	for _, e := range res.events {
		if e.GetAttempt() > 0 && e.GetStepError().GetOutcome() == known {
			failed[e.GetFlow().GetStepId()]++
		}
	}
	for _, s := range res.steps {
		n := count[s.GetId()]
		if most := 1 + r.retries[s.GetId()] + failed[s.GetId()]; !repeatable(r.tool) && n > most {
			problems = append(problems, fmt.Sprintf("%s has run %d times, and was asked for %d times", s.GetId(), n, most))
		}
		if s.GetStatus() == executorv1.StepStatus_STEP_STATUS_SUCCESS && !r.supplied[s.GetId()] && n == 0 {
			problems = append(problems, s.GetId()+" succeeded without having run")
		}
	}
	return problems
}

// written reads the lines that the tool wrote.
func written(path string) ([]mcpserver.Line, error) {
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lines []mcpserver.Line
	for text := range bytes.Lines(raw) {
		var l mcpserver.Line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("the tool's file: %w in %q", err, text)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// noUnknown checks that no outcome is unknown, because a pool that survives knows it. Only a cancelled call may have an unknown outcome:
// the pool cannot tell whether the effect came first.
func noUnknown(res result, cancelled bool) (problems []string) {
	for _, e := range res.events {
		if e.GetStepWaitingForStart().GetOutcomeUnknown() || e.GetStepError().GetOutcome() == unknown ||
			!cancelled && e.GetStepCancel().GetOutcome() == unknown {
			problems = append(problems, fmt.Sprintf("event %d says that an outcome is not known, but the pool knows it: %s", e.GetSeq(), e))
		}
	}
	return problems
}

// cancelledAt checks a task whose cancellation was durable at that time: unless it had ended before, it starts nothing after that time
// and ends as cancelled.
func cancelledAt(res result, at time.Time) (problems []string) {
	if res.task.GetEndTime().AsTime().Before(at) {
		return nil
	}
	if res.task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
		problems = append(problems, "its cancellation was stored, and it is "+res.task.GetStatus().String())
	}
	for _, e := range res.events {
		if e.GetType() == stepInput && e.GetTime().AsTime().After(at) {
			problems = append(problems, fmt.Sprintf("its cancellation was stored, and event %d starts %s", e.GetSeq(), e.GetFlow().GetStepId()))
		}
	}
	return problems
}

// summary is the result of a task, without parts that differ between two runs of one flow.
func (r *run) summary(res result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q\n", res.task.GetStatus(), res.task.GetFullAnswer())
	for _, s := range res.steps {
		fmt.Fprintf(&b, "%s %s %s %s in %s out %s error %q\n", s.GetId(), s.GetToolId(), s.GetStatus(), s.GetOutcome(), s.GetInputJson(), s.GetOutputJson(), s.GetError().GetErrMsg())
	}
	return strings.ReplaceAll(b.String(), r.path, "PATH")
}

// story is a task's events in short.
func story(events []*event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "\n  %3d %s %s/%d %s", e.GetSeq(), strings.TrimPrefix(e.GetType().String(), "EVENT_TYPE_"), e.GetFlow().GetStepId(), e.GetAttempt(), e.GetWaitId())
		switch {
		case e.GetStepError() != nil:
			fmt.Fprintf(&b, " %s %s", e.GetStepError().GetOutcome(), e.GetStepError().GetError().GetErrMsg())
		case e.GetStepCancel() != nil:
			fmt.Fprintf(&b, " %s", e.GetStepCancel())
		case e.GetStepWaitingForStart().GetOutcomeUnknown():
			fmt.Fprintf(&b, " unknown: %s", e.GetStepWaitingForStart().GetError().GetErrMsg())
		case e.GetFlowFailed() != nil:
			fmt.Fprintf(&b, " %s", e.GetFlowFailed().GetError().GetErrMsg())
		case e.GetStatusChanged() != nil:
			fmt.Fprintf(&b, " %s", e.GetStatusChanged())
		}
	}
	return b.String()
}
