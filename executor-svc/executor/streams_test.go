package executor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/page"

	"pawl.dev/executor-svc/internal/fake"
)

// A watcher gets the events after the seq that it names, each once (A26). A seq beyond the newest event is refused.
func TestWatchersAtAnySeq(t *testing.T) {
	r := newRig(t, fake.Script("read", "read", "read"))
	id := r.create(auto("x")).GetId()
	last := r.until(id, flowSuccess).GetSeq()
	watch := func(after uint64) ([]*executorv1.ExecutorEvent, error) {
		stream, err := r.tasks.WatchTask(t.Context(), &executorv1.WatchTaskRequest{Id: id, AfterSeq: after})
		if err != nil {
			t.Fatal(err)
		}
		return readAll(stream)
	}
	for after := range last + 1 {
		got, err := watch(after)
		if err != nil || uint64(len(got)) != last-after {
			t.Errorf("after %d: %d events, want %d; %v", after, len(got), last-after, err)
		}
		for i, e := range got {
			if e.GetSeq() != after+1+uint64(i) {
				t.Errorf("after %d: event %d has seq %d", after, i, e.GetSeq())
			}
		}
	}
	for _, after := range []uint64{last + 1, last + 2, 1<<64 - 1} {
		if got, err := watch(after); status.Code(err) != codes.InvalidArgument {
			t.Errorf("after %d: %v, %v; want INVALID_ARGUMENT", after, got, err)
		}
	}
}

// watchedRegistrar sends the results of WatchTask's handler to ended, if that is not nil.
type watchedRegistrar struct {
	grpc.ServiceRegistrar
	ended chan<- error
}

func (r watchedRegistrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	d := *desc
	d.Streams = slices.Clone(desc.Streams)
	for i, s := range d.Streams {
		if r.ended != nil && s.StreamName == "WatchTask" {
			d.Streams[i].Handler = func(impl any, ss grpc.ServerStream) error {
				err := s.Handler(impl, ss)
				r.ended <- err
				return err
			}
		}
	}
	r.ServiceRegistrar.RegisterService(&d, impl)
}

// A stream that the server ended because its client did not read is resumed after the last event that arrived, without a gap.
func TestUnreadStreamIsResumed(t *testing.T) {
	r := &rig{t: t, dir: t.TempDir(), planner: fake.Script("read", "read", "read", "read", "read", "read", "read", "read"), pool: fake.NewPool(), watched: make(chan error, 1)}
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		return send(fake.TextResult(strings.Repeat("x", 50_000), false))
	}
	r.options.Limits.WriteTime = 100 * time.Millisecond
	r.start()
	id := r.run(auto("much"))[0].GetTaskId()
	watch := func(after uint64) interface {
		Recv() (*executorv1.ExecutorEvent, error)
	} {
		stream, err := r.tasks.WatchTask(t.Context(), &executorv1.WatchTaskRequest{Id: id, AfterSeq: after})
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	whole, err := readAll(watch(0))
	if err != nil || <-r.watched != nil {
		t.Fatal(err)
	}
	stream := watch(0)
	select { // nothing is read meanwhile
	case err := <-r.watched:
		if err == nil {
			t.Fatal("the server sent everything")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the server keeps a stream that is not read")
	}
	got, err := readAll(stream)
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TIMEOUT || len(got) == 0 || len(got) == len(whole) {
		t.Fatalf("%d of %d events arrived, then %v", len(got), len(whole), err)
	}
	rest, err := readAll(watch(got[len(got)-1].GetSeq()))
	if err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(whole, append(got, rest...), protocmp.Transform()); d != "" {
		t.Errorf("events (-whole +resumed):\n%s", d)
	}
}

// RunTask that attaches to a waiting task with the seq of its FLOW_STOP ends at once.
func TestRunTaskAttachedAtItsStop(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	req := auto("x")
	req.RequestId = "r"
	events := r.run(req)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := r.tasks.RunTask(ctx, &executorv1.RunTaskRequest{Task: req, AfterSeq: events[len(events)-1].GetSeq()})
	if err != nil {
		t.Fatal(err)
	}
	if more, err := readAll(stream); err != nil || len(more) > 0 {
		t.Errorf("%v, %v; want the end, and no event", types(more), err)
	}
}

// A page token with the right scope and an invalid key is refused.
func TestForgedPageTokens(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	id := r.run(auto("x"))[0].GetTaskId()
	steps := func(key string) error {
		_, err := r.tasks.ListSteps(t.Context(), &executorv1.ListStepsRequest{Id: id, PageToken: page.Encode("steps/"+id, []byte(key))})
		return err
	}
	tasks := func(key string) error {
		var none *timestamppb.Timestamp
		scope := fmt.Sprintf("tasks/local/%v///%s/%s", []executorv1.ExecutorStatus{}, none, none)
		_, err := r.tasks.ListTasks(t.Context(), &executorv1.ListTasksRequest{PageToken: page.Encode(scope, []byte(key))})
		return err
	}
	if err := steps("0@1"); err != nil {
		t.Errorf("ListSteps refuses a token of its own: %v", err)
	}
	if err := tasks(id); err != nil {
		t.Errorf("ListTasks refuses a token of its own: %v", err)
	}
	for _, key := range []string{"", "-5", "zz", "99999999999999999999", "\xff\x00"} {
		if err := steps(key); status.Code(err) != codes.InvalidArgument {
			t.Errorf("ListSteps with the key %q: %v, want INVALID_ARGUMENT", key, err)
		}
		if err := tasks(key); status.Code(err) != codes.InvalidArgument {
			t.Errorf("ListTasks with the key %q: %v, want INVALID_ARGUMENT", key, err)
		}
	}
}

// Pages neither repeat nor leave out a task while new ones are created.
func TestPagesWhileTasksAreCreated(t *testing.T) {
	r := newRig(t, fake.Script())
	for range 30 {
		r.create(auto("x"))
	}
	seen := map[string]bool{}
	for token, more := "", true; more; more = token != "" {
		res, err := r.tasks.ListTasks(t.Context(), &executorv1.ListTasksRequest{PageSize: 7, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range res.GetTasks() {
			if seen[task.GetId()] {
				t.Errorf("%s is listed twice", task.GetId())
			}
			seen[task.GetId()] = true
		}
		r.create(auto("y"))
		token = res.GetNextPageToken()
	}
	if len(seen) != 30 {
		t.Errorf("%d tasks are listed, want 30", len(seen))
	}
}
