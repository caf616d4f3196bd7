package api

import (
	"context"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/services/identity"
)

const callsPerTask = 10

// BenchmarkTask measures a task without the transports of gRPC and MCP: it lists the tools, makes callsPerTask calls over a stream, each
// with a call id and the acknowledgement of the previous call, and releases its session.
func BenchmarkTask(b *testing.B) {
	for _, at := range []int{1, 32} {
		b.Run("at-"+strconv.Itoa(at), func(b *testing.B) {
			s := serverOf(b, echo{done: make(chan struct{})})
			ctx := identity.NewContext(b.Context(), identity.Principal{Sub: "ann"})
			var tasks atomic.Int64
			left := make(chan struct{}, b.N)
			for range b.N {
				left <- struct{}{}
			}
			close(left)
			ended := make(chan struct{})
			b.ReportAllocs()
			before := cpuTime(b)
			b.ResetTimer()
			for range at {
				go func() {
					defer func() { ended <- struct{}{} }()
					for range left {
						benchTask(ctx, b, s, "task-"+strconv.FormatInt(tasks.Add(1), 10))
					}
				}()
			}
			for range at {
				<-ended
			}
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/task")
		})
	}
}

func benchTask(ctx context.Context, b *testing.B, s *Server, task string) {
	tools, err := s.ListTools(ctx, &mcppoolv1.ListToolsRequest{McpId: "echo", SessionId: task})
	if err != nil {
		b.Error(err)
		return
	}
	tool := tools.GetTools()[0]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &wire{ctx: ctx, requests: make(chan *mcppoolv1.CallToolsRequest), answers: make(chan *mcppoolv1.CallToolsResponse)}
	ended := make(chan error, 1)
	go func() { ended <- s.CallTools(w) }()
	var ack []string
	for n := range callsPerTask {
		id := task + "/" + strconv.Itoa(n)
		w.requests <- &mcppoolv1.CallToolsRequest{Call: &mcppoolv1.CallToolRequest{
			McpId: "echo", Name: "echo", InputJson: echoInput, CallId: id, IdempotencyKey: id, SessionId: task, Epoch: 1, PoolId: "pool",
			Timeout: durationpb.New(time.Minute), StartBy: timestamppb.New(time.Now().Add(time.Minute)), AckCallIds: ack,
			ExpectedDefinitionHash: tool.GetDefinitionHash(), ExpectedConfigRevision: tool.GetConfigRevision(),
		}}
		if m := <-w.answers; m.GetCall().GetResult() == nil {
			b.Errorf("no result: %v", m)
		}
		ack = []string{id}
	}
	close(w.requests)
	if err := <-ended; err != nil {
		b.Error(err)
	}
	if _, err := s.ReleaseSession(ctx, &mcppoolv1.ReleaseSessionRequest{SessionId: task, AckCallIds: ack}); err != nil {
		b.Error(err)
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
