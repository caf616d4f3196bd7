package executor_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/fake"
)

// The observer is told of each point of a task in the order in which a crash would meet it: the intent is durable before
// the call, and the outcome after it.
func TestObserver(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	r.stop()
	var mu sync.Mutex // guards points
	var points []string
	r.observe = func(point string) {
		mu.Lock()
		defer mu.Unlock()
		points = append(points, point)
	}
	r.start()
	id := r.create(manual("x")).GetId()
	if _, err := r.approve(id, r.untilWait(id, executorv1.WaitKind_WAIT_KIND_APPROVAL).GetId(), ""); err != nil {
		t.Fatal(err)
	}
	r.until(id, executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS)
	r.stop()
	want := []string{
		"Create.before", "Create.after",
		"Commit.before", "Commit.after", // begun, planned, asked
		"Send.before", "Send.after", // the approval
		"Commit.before", "Commit.after", // the intent
		"CallTool.before", "CallTool.sent", "CallTool.end",
		"Commit.before", "Commit.after", // the outcome
		"Commit.before", "Commit.after", // the answer is begun
		"Commit.before", "Commit.after", // the answer
	}
	if len(points) <= len(want) || !slices.Contains(points[len(want):], "ReleaseSession.after") {
		t.Errorf("nothing is released: %q", points)
	}
	// The order of the releases at the end does not matter.
	if d := cmp.Diff(want, points[:min(len(want), len(points))]); d != "" {
		t.Errorf("points (-want +got):\n%s", d)
	}
}
