package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

var errDisk = errors.New("fdatasync: input/output error")

func isOutput(f *storagev1.Fact) bool { return f.GetStepOutput() != "" }

func isInput(f *storagev1.Fact) bool { return f.GetStepInput() != "" }

// A commit that returned an error although it was stored counts as stored: the task goes on, and nothing is done twice.
func TestAmbiguousCommit(t *testing.T) {
	for name, like := range map[string]func(*storagev1.Fact) bool{"intent": isInput, "outcome": isOutput} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Script("write", "read"))
			var hit atomic.Bool
			r.j.onCommit = func(tr journal.Transition, do func() error) error {
				err := do()
				for _, f := range tr.Record.GetFacts() {
					if like(f) && hit.CompareAndSwap(false, true) {
						return errDisk
					}
				}
				return err
			}
			r.start()
			id := r.create(never)
			r.await(id, success)
			r.events(id)
			if n := len(r.pool.CalledFor(id)); n != 2 || !hit.Load() {
				t.Errorf("%d calls, want 2; the commit was hit: %v", n, hit.Load())
			}
		})
	}
}

// A read that fails once strands no task.
func TestReadFailsOnce(t *testing.T) {
	for _, method := range []string{"Load", "Records", "Inbox"} {
		t.Run(method, func(t *testing.T) {
			r := newRig(t, fake.Script("read"))
			var hit atomic.Bool
			reached := make(chan struct{})
			r.j.onRead = func(m, _ string) error {
				if m == method && hit.CompareAndSwap(false, true) {
					close(reached)
					return errDisk
				}
				return nil
			}
			r.start()
			n := newTask(never)
			if _, _, err := r.j.Create(t.Context(), n); err != nil { // as another process would
				t.Fatal(err)
			}
			id := n.ID
			r.e.Wake(id)
			receive(t, reached) // by the owner: there is no watcher yet
			r.await(id, success)
			r.events(id)
		})
	}
}

// A journal that fails for a while loses nothing and repeats nothing.
func TestJournalFailsForAWhile(t *testing.T) {
	r := newRig(t, fake.Script("write", "read", "write"))
	var n atomic.Int32
	r.j.onCommit = func(_ journal.Transition, do func() error) error {
		if n.Add(1)%2 != 0 {
			return errors.New("no space left on device")
		}
		return do()
	}
	r.start()
	id := r.create(never)
	r.await(id, success)
	r.events(id)
	if n := len(r.pool.CalledFor(id)); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

// insideTheProcess connects without encoding messages; only such a connection delivers text that is not UTF-8.
func insideTheProcess(t *testing.T) func(func(grpc.ServiceRegistrar)) grpc.ClientConnInterface {
	return func(register func(grpc.ServiceRegistrar)) grpc.ClientConnInterface {
		unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		conn := inproc.New(unary, stream)
		register(conn)
		return conn
	}
}

// Invalid UTF-8 is stored as U+FFFD, so that what a tool did can be recorded (A17).
func TestInvalidUTF8IsMended(t *testing.T) {
	for name, spoil := range map[string]func(*rig){
		"tool": func(r *rig) {
			r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
				return send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{StructuredJson: "{\"a\":\"\xff\"}"}}})
			}
		},
		"error": func(r *rig) {
			r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
				return send(fake.TextResult("caf\xe9", true))
			}
		},
		"refusal": func(r *rig) {
			r.pool.CallFn = func(context.Context, *mcppoolv1.CallToolRequest, func(*mcppoolv1.CallToolResponse) error) error {
				return errors.New("caf\xe9")
			}
		},
		"planner": func(r *rig) { r.planner.Steps[0].Description = "caf\xe9" },
		"answer": func(r *rig) {
			r.planner.AnswerFn = func(_ context.Context, _ *plannerv1.GenerateAnswerRequest, send func(string) error) error {
				return send("caf\xe9")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigOver(t, fake.Script("read"), slog.New(slog.DiscardHandler), insideTheProcess(t))
			spoil(r)
			r.start()
			id := r.create(never)
			r.await(id, success)
			r.events(id)
		})
	}
}

// A transition that can never be stored ends the task with an error that says so, and its attempt has an end (A17).
func TestUnstorableEndsTheTask(t *testing.T) {
	for name, like := range map[string]func(*storagev1.Fact) bool{"intent": isInput, "outcome": isOutput} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Script("write"))
			r.j.onCommit = func(tr journal.Transition, do func() error) error {
				if slices.ContainsFunc(tr.Record.GetFacts(), like) {
					return fmt.Errorf("a field is larger than can be encoded: %w", journal.ErrInvalid)
				}
				return do()
			}
			r.start()
			id := r.create(never)
			r.await(id, failed)
			if msg := r.task(id).Checkpoint.GetError().GetErrMsg(); !strings.Contains(msg, "cannot be stored") {
				t.Errorf("the error is %q", msg)
			}
			r.events(id)
			wantAnswer(t, "cancel", r.send(id, cancelCommand()), taskEnded)
		})
	}
}

// A journal that does not answer does not keep a process from stopping.
func TestJournalBlocksAtStop(t *testing.T) {
	r, commit := newRig(t, fake.Script("read")), newBarrier(t)
	r.log, r.stuck = slog.New(slog.DiscardHandler), true // the owner outlives the test
	r.j.onCommit = func(_ journal.Transition, do func() error) error {
		commit.pass()
		return do()
	}
	r.start()
	r.create(never)
	commit.await()
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	if err := receive(t, stopped); err == nil {
		t.Error("Run returned without an error, though a task was not left in an orderly way")
	}
}

// An inbox that cannot be read once, while there is no slot, strands no command.
func TestInboxFailsOnceWithoutASlot(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	r.cfg.MaxRunning = 1
	var failing atomic.Value
	r.j.onRead = func(method, id string) error {
		if method == "Inbox" && failing.CompareAndSwap(id, "") {
			return errDisk
		}
		return nil
	}
	r.start()
	id := r.create(always)
	r.await(id, waiting)
	blocker, call := r.takeSlot()
	failing.Store(id)
	wantAnswer(t, "reject", r.send(id, rejectCommand("wait-1")), 0)
	r.await(id, cancelled)
	call.open()
	r.await(blocker, success)
}

// While the journal cannot be written, senders get an error at once and the engine is not healthy; the commands are applied afterwards.
func TestFullDiskIsReportedAtOnce(t *testing.T) {
	r := newRig(t, fake.Script("write", "write"))
	var full atomic.Bool
	r.j.onCommit = func(_ journal.Transition, do func() error) error {
		if full.Load() {
			return errDisk
		}
		return do()
	}
	r.start()
	id := r.create(always)
	r.await(id, waiting)
	full.Store(true)
	err := r.send(id, approveCommand("wait-1"))
	wantAnswer(t, "an approval", err, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR)
	wantAnswer(t, "a second one", r.send(id, approveCommand("wait-1")), commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR)
	if r.e.StorageError() == nil {
		t.Error("the engine is healthy")
	}
	full.Store(false)
	r.await(id, waiting, success) // the approval was applied
	_ = r.e.Watch(t.Context(), id, 0, func(executorv1.ExecutorStatus) bool { return false }, func(e *executorv1.ExecutorEvent) error {
		if e.GetStepOutput() != nil {
			return errDisk // enough
		}
		return nil
	})
	if err := r.e.StorageError(); err != nil {
		t.Errorf("the engine is not healthy again: %v", err)
	}
}
