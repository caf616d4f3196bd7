package test

import (
	"context"
	"errors"
	"testing"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/services/identity"
	"pawl.dev/test/rig"
	testcasev1 "pawl.dev/test/testcase/v1"
)

// TestTooManyRequests: more than the window lets through are refused with the time to come back, over both protocols
// alike; finished tasks count, repeated requests and resumes do not (A28).
func TestTooManyRequests(t *testing.T) {
	for name, start := range map[string]func(testing.TB, rig.Options) *rig.Target{
		"in-process":     rig.InProcess,
		"pawl-up":        func(t testing.TB, o rig.Options) *rig.Target { return rig.Binary(t, binaries, o) },
		"four-processes": func(t testing.TB, o rig.Options) *rig.Target { return rig.FourProcesses(t, binaries, o) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const window = 6 * time.Second
			path, key := keys(t)
			user := key("ann", identity.RoleUser, identity.RoleOperator)
			target := start(t, rig.Options{
				Keys: path, Key: user, ServiceKey: key("executor", identity.RoleService), Workspace: workspace(t), MaxRequests: 1, RequestWindow: window,
			})
			first, second := rig.Client(rig.NewGRPC(target.Executor)), rig.Client(rig.REST{Base: target.HTTP, Key: user})
			ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
			defer cancel()
			task := tooMany(ctx, t, first, second, window, "")
			// The other way round, once the window has passed.
			wait := time.NewTimer(refusedFor(ctx, t, second))
			defer wait.Stop()
			select {
			case <-wait.C:
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
			tooMany(ctx, t, second, first, window, task)
		})
	}
}

// tooMany uses up the window with a task of the first client, and checks that a request of the second is refused, and so is a fork of
// the task ended, unless that is "". It returns the id of its own task, which has ended.
func tooMany(ctx context.Context, t *testing.T, first, second rig.Client, window time.Duration, ended string) string {
	t.Helper()
	req := &executorv1.CreateTaskRequest{Goal: "echo", Playbook: "steps: [{tool: t/echo, input: {text: a}}]", RequestId: time.Now().String()}
	task, err := first.Create(ctx, req)
	if err != nil {
		t.Fatalf("the first request: %v", err)
	}
	if after := refusedFor(ctx, t, second); after <= 0 || after > window {
		t.Errorf("come back in %s; the window is %s", after, window)
	}
	if ended != "" {
		if _, err := first.Fork(ctx, &executorv1.ForkTaskRequest{Id: ended}); reason(err) != "RATE_LIMITED" {
			t.Errorf("a fork is a request, too: %v", err)
		}
	}
	if again, err := second.Create(ctx, req); err != nil || again.GetId() != task.GetId() {
		t.Errorf("the same request again: %v, %v", again, err)
	}
	// A resume is no request.
	approve := &testcasev1.Answer{Answer: &testcasev1.Answer_Approve{Approve: &executorv1.Approve{}}}
	(&play{t: t, client: second}).follow(ctx, task.GetId(), 0, []*testcasev1.Answer{approve}, nil)
	return task.GetId()
}

// refusedFor checks that one more request is refused, and returns how long it is told to wait.
func refusedFor(ctx context.Context, t *testing.T, client rig.Client) time.Duration {
	t.Helper()
	_, err := client.Create(ctx, &executorv1.CreateTaskRequest{Goal: "one too many"})
	var r *rig.Refused
	if !errors.As(err, &r) || r.Reason != "RATE_LIMITED" {
		t.Fatalf("one too many: %v, want RATE_LIMITED", err)
	}
	if _, rest := client.(rig.REST); rest && r.HTTP != 429 {
		t.Errorf("HTTP status %d, want 429", r.HTTP)
	}
	return r.RetryAfter
}

func reason(err error) string {
	var r *rig.Refused
	if errors.As(err, &r) {
		return r.Reason
	}
	return ""
}
