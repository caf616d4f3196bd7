package engine_test

import (
	"fmt"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// checkLog holds for each task at any time: seqs 1..N (A26), FLOW_START once (A3), each attempt begins once and ends once
// (A17), nothing after the end (A19).
func checkLog(t testing.TB, events []*executorv1.ExecutorEvent) {
	t.Helper()
	const open, closed = 1, 2
	attempts := map[string]int{}
	starts, ended := 0, false
	for i, e := range events {
		if e.GetSeq() != uint64(i+1) {
			t.Errorf("event %d has seq %d", i+1, e.GetSeq())
		}
		if ended {
			t.Errorf("%s after the end", e.GetType())
		}
		attempt := fmt.Sprintf("%s/%d", e.GetFlow().GetStepId(), e.GetAttempt())
		switch e.GetType() {
		case executorv1.EventType_EVENT_TYPE_FLOW_START:
			starts++
		case executorv1.EventType_EVENT_TYPE_STEP_INPUT:
			if attempts[attempt] != 0 {
				t.Errorf("attempt %s begins twice", attempt)
			}
			attempts[attempt] = open
		case executorv1.EventType_EVENT_TYPE_STEP_OUTPUT, executorv1.EventType_EVENT_TYPE_STEP_ERROR, executorv1.EventType_EVENT_TYPE_STEP_CANCEL:
			if e.GetAttempt() == 0 {
				break // it is about the step: its newest attempt, if any, has ended already
			}
			if attempts[attempt] != open {
				t.Errorf("attempt %s ends with %s, but it does not run", attempt, e.GetType())
			}
			attempts[attempt] = closed
		case executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, executorv1.EventType_EVENT_TYPE_FLOW_FAILED, executorv1.EventType_EVENT_TYPE_FLOW_CANCEL:
			ended = true
		}
	}
	if starts > 1 {
		t.Errorf("FLOW_START %d times", starts)
	}
	for attempt, state := range attempts {
		if ended && state != closed {
			t.Errorf("attempt %s has no end", attempt)
		}
	}
}
