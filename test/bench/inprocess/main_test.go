package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"google.golang.org/grpc"

	"pawl.dev/cmd/suite"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// A task calls the tool of this process without an approval: it only reads.
func TestTaskCallsTheToolOfThisProcess(t *testing.T) {
	pawl, err := suite.New(t.Context(), suite.Config{DataDir: t.TempDir(), Builtins: builtins(1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- pawl.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	yes := true
	stream, err := executorv1.NewExecutorServiceClient(pawl.Conn()).RunTask(t.Context(), &executorv1.RunTaskRequest{
		Task: &executorv1.CreateTaskRequest{AutoExecute: &yes, McpIds: []string{name}, Playbook: "steps:\n  - {tool: inprocess/echo, input: {text: hello}}\n"},
	}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	var types []executorv1.EventType
	for e := (*executorv1.ExecutorEvent)(nil); err == nil; e, err = stream.Recv() {
		types = append(types, e.GetType())
	}
	if !errors.Is(err, io.EOF) || !slices.Contains(types, executorv1.EventType_EVENT_TYPE_STEP_OUTPUT) || types[len(types)-1] != executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS {
		t.Errorf("it ended after %v with %v", types, err)
	}
}
