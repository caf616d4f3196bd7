package test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/rig"
)

// BenchmarkTasks runs 10-step playbook tasks with a READ tool over stdio, each step durable: one operation is one task.
func BenchmarkTasks(b *testing.B) {
	for name, start := range map[string]func(testing.TB, rig.Options) *rig.Target{
		"one-process":    func(t testing.TB, o rig.Options) *rig.Target { return rig.Binary(t, binaries, o) },
		"four-processes": func(t testing.TB, o rig.Options) *rig.Target { return rig.FourProcesses(t, binaries, o) },
	} {
		b.Run(name, func(b *testing.B) {
			target := start(b, rig.Options{Workspace: workspace(b), MaxRunning: 256})
			client := rig.NewGRPC(target.Executor)
			for _, at := range []int{1, 32, 128} {
				b.Run(fmt.Sprintf("at-%d", at), func(b *testing.B) { runTasks(b, client, at) })
			}
		})
	}
}

func runTasks(b *testing.B, client rig.Client, at int) {
	playbook := "steps:\n" + strings.Repeat("  - {tool: t/echo, input: {text: hello}}\n", 10)
	yes := true
	work := make(chan struct{})
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for range work {
				task, err := client.Create(context.Background(), &executorv1.CreateTaskRequest{AutoExecute: &yes, Playbook: playbook, McpIds: []string{"t"}})
				if err == nil {
					err = client.Watch(context.Background(), task.GetId(), task.GetLastSeq(), func(*executorv1.ExecutorEvent) bool { return true })
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
