package rest_test

import (
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"pawl.dev/gateway/internal/rest"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Issue 13: only where everyone is an operator does the error of an absent service tell how to set up the gateway.
func TestAdviceIfAServiceIsGone(t *testing.T) {
	unreachable, err := grpc.NewClient("127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unreachable.Close() })
	for _, authenticated := range []bool{false, true} {
		conn := rest.Conn(unreachable, "executor", authenticated, slog.New(slog.DiscardHandler))
		_, err := executorv1.NewExecutorServiceClient(conn).ListTasks(t.Context(), &executorv1.ListTasksRequest{})
		if err == nil || strings.Contains(err.Error(), "--executor") == authenticated || !strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("authenticated %v: %v", authenticated, err)
		}
	}
}
