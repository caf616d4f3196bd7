package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/rig"
)

// A stream that is dropped after each event and resumed with Last-Event-ID loses nothing and repeats nothing.
func TestStreamDroppedAndResumed(t *testing.T) {
	target := rig.Binary(t, binaries, rig.Options{Workspace: workspace(t)})
	client := rig.REST{Base: target.HTTP}
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	yes := true
	task, err := client.Create(ctx, &executorv1.CreateTaskRequest{Goal: "Which files mention the word ratchet, and how many Go files are there?", AutoExecute: &yes})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	last, ended := uint64(0), false
	for !ended {
		err := client.Events(ctx, task.GetId(), last, func(e rig.Event) bool {
			if e.Name == "end" {
				ended = true
				return false
			}
			if want := strings.ToLower(strings.TrimPrefix(e.Task.GetType().String(), "EVENT_TYPE_")); e.Name != want || e.ID != strconv.FormatUint(e.Task.GetSeq(), 10) {
				t.Errorf("event %q id %q of %v", e.Name, e.ID, e.Task)
			}
			got = append(got, e.ID+" "+e.Name)
			last = e.Task.GetSeq()
			// The connection is dropped after each event but the last.
			ended = strings.HasPrefix(e.Name, "flow_success")
			return false
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	if err := client.Events(ctx, task.GetId(), 0, func(e rig.Event) bool {
		if e.Name != "end" {
			want = append(want, e.ID+" "+e.Name)
		}
		return e.Name != "end"
	}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" || len(got) < 8 {
		t.Errorf("%d events (-whole +dropped):\n%s", len(got), d)
	}
}

// Without text/event-stream the same stream is one JSON document a line.
func TestNDJSON(t *testing.T) {
	target := rig.InProcess(t, rig.Options{Workspace: workspace(t)})
	body := strings.NewReader(`{"goal":"List the files in docs","autoExecute":true}`)
	res, err := http.Post(target.HTTP+"/v1/tasks:run", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/x-ndjson") {
		t.Errorf("Content-Type %q", kind)
	}
	lines, n, final := bufio.NewScanner(res.Body), 0, ""
	for lines.Scan() {
		n++
		var e struct{ Seq, Type string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Seq != strconv.Itoa(n) {
			t.Fatalf("line %d: %s: %v", n, lines.Text(), err)
		}
		final = e.Type
	}
	if final != "EVENT_TYPE_FLOW_SUCCESS" {
		t.Errorf("%d lines, the last one %s", n, final)
	}
}

// A server that is killed while a client watches: the client continues from its last seq once the server is back.
func TestWatchAcrossAKill(t *testing.T) {
	dir, addr, web := t.TempDir(), rig.FreeAddr(t), rig.FreeAddr(t)
	args := []string{"up", "--data", dir, "--grpc", addr, "--http", web, "--mcp-config", rig.MCPConfig(t, rig.Options{}), "--workspace", workspace(t)}
	p := rig.Start(t, binaries.Pawl, args...)
	client := rig.NewGRPC(rig.Dial(t, addr, ""))
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	awaitPort(ctx, t, addr)
	yes := true
	task, err := client.Create(ctx, &executorv1.CreateTaskRequest{AutoExecute: &yes, Playbook: `
steps:
  - {tool: t/echo, input: {text: before}}
  - {tool: t/slow, input: {steps: 20}}
  - {tool: t/echo, input: {text: after}}
`})
	if err != nil {
		t.Fatal(err)
	}
	var events []*executorv1.ExecutorEvent
	last := uint64(0)
	watch := func(until func(*executorv1.ExecutorEvent) bool) error {
		return client.Watch(ctx, task.GetId(), last, func(e *executorv1.ExecutorEvent) bool {
			if e.GetSeq() != last+1 {
				t.Errorf("seq %d after %d", e.GetSeq(), last)
			}
			events, last = append(events, e), e.GetSeq()
			return !until(e)
		})
	}
	if err := watch(func(e *executorv1.ExecutorEvent) bool { return e.GetToolProgress() != nil }); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	rig.Start(t, binaries.Pawl, args...)
	awaitPort(ctx, t, addr)
	if err := watch(func(*executorv1.ExecutorEvent) bool { return false }); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT",
		"STEP_INIT", "STEP_INPUT", "STEP_ERROR", "STEP_INPUT", "STEP_OUTPUT", // slow only reads: it is repeated
		"STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS",
	}
	if d := cmp.Diff(want, names(kinds(events))); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// If executor and pool are killed in the middle of a call that writes, the effect is not repeated, and the task asks a person how the
// call ended.
func TestKillInTheMiddleOfAWrite(t *testing.T) {
	dir, addr, web := t.TempDir(), rig.FreeAddr(t), rig.FreeAddr(t)
	args := []string{"up", "--data", dir, "--grpc", addr, "--http", web, "--mcp-config", rig.MCPConfig(t, rig.Options{})}
	p := rig.Start(t, binaries.Pawl, args...)
	client := rig.NewGRPC(rig.Dial(t, addr, ""))
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	awaitPort(ctx, t, addr)
	effects := filepath.Join(t.TempDir(), "effects.txt")
	task, err := client.Create(ctx, &executorv1.CreateTaskRequest{Playbook: fmt.Sprintf("steps: [{tool: t/stall, input: {path: %q}}]", effects)})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Watch(ctx, task.GetId(), 0, func(e *executorv1.ExecutorEvent) bool { return e.GetFlowStop() == nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resume(ctx, &executorv1.ResumeTaskRequest{
		Id: task.GetId(), WaitId: "wait-1", Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}},
	}); err != nil {
		t.Fatal(err)
	}
	awaitFile(ctx, t, effects)
	p.Kill()
	rig.Start(t, binaries.Pawl, args...)
	awaitPort(ctx, t, addr)
	unknown := func(e *executorv1.ExecutorEvent) bool { return !e.GetStepWaitingForStart().GetOutcomeUnknown() }
	if err := client.Watch(ctx, task.GetId(), 0, unknown); err != nil {
		t.Fatal(err)
	}
	asks, err := client.Get(ctx, task.GetId())
	if err != nil || len(asks.GetWaits()) != 1 || asks.GetWaits()[0].GetKind() != executorv1.WaitKind_WAIT_KIND_OUTCOME {
		t.Errorf("task %v, %v; want it to ask how the call ended", asks, err)
	}
	if raw, err := os.ReadFile(effects); err != nil || string(raw) != "stalled\n" {
		t.Errorf("effects %q, %v; want exactly one", raw, err)
	}
}

// awaitFile returns when the file is there.
func awaitFile(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if raw, err := os.ReadFile(path); err == nil && len(raw) > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s did not appear", path)
		}
	}
}

// awaitPort returns when something accepts connections there.
func awaitPort(ctx context.Context, t *testing.T, addr string) {
	t.Helper()
	dialer := &net.Dialer{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("nothing listens on %s: %v", addr, err)
		}
	}
}

// get reads a URL.
func get(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}
