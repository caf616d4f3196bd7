package agent_test

import (
	"testing"
	"time"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
)

// What is left of a call is not begun once the task's run time is spent (A18): not by another pool, nor again with its answers.
func TestNothingBeginsBehindTheRunTime(t *testing.T) {
	for name, in := range map[string]flow.Input{
		"moved": flow.Moved{Ordinal: 1, Attempt: 2, PoolID: "pool-2"}, "undelivered": flow.Undelivered{Ordinal: 1, Attempt: 2},
	} {
		t.Run(name, func(t *testing.T) {
			task := calling()
			task.Head.Limits.MaxRunTime, task.State.RunTime = int64(time.Second), int64(5*time.Second)
			task.State.ActiveSteps[0].RequestState = "state"
			got, err := agent.Flow{}.Apply(task, in)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range got.Effects {
				if call, begun := e.(flow.Call); begun {
					t.Errorf("%+v is begun", call)
				}
			}
		})
	}
}
