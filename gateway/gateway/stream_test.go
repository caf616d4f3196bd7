package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"pawl.dev/gateway/gateway"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

const events = "/v1/tasks/" + taskID + "/events"

type eventStream = grpc.ServerStreamingServer[executorv1.ExecutorEvent]

func event(seq uint64, kind executorv1.EventType, status executorv1.ExecutorStatus) *executorv1.ExecutorEvent {
	return &executorv1.ExecutorEvent{TaskId: taskID, Seq: seq, Type: kind, Flow: &executorv1.Flow{ExecutorStatus: status}}
}

// story has the events of most tests; their texts have line breaks, which a frame must not have.
func story() []*executorv1.ExecutorEvent {
	text := event(2, executorv1.EventType_EVENT_TYPE_TEXT_ADD, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING)
	text.Payload = &executorv1.ExecutorEvent_TextAdd{TextAdd: &executorv1.TextAdd{AnswerId: "a", Text: "one\n\ndata: two\r\n"}}
	return []*executorv1.ExecutorEvent{
		event(1, executorv1.EventType_EVENT_TYPE_FLOW_START, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING),
		text,
		event(3, executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS),
	}
}

// tell sends the story after a seq.
func tell(s eventStream, after uint64) error {
	for _, e := range story() {
		if e.GetSeq() <= after {
			continue
		}
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) tellsStory() {
	b.executor.WatchTaskFn = func(r *executorv1.WatchTaskRequest, s eventStream) error { return tell(s, r.GetAfterSeq()) }
	b.executor.RunTaskFn = func(r *executorv1.RunTaskRequest, s eventStream) error { return tell(s, r.GetAfterSeq()) }
}

// frame is one event as a browser sees it.
type frame struct{ id, event, data string }

// frames parses a whole SSE body, by the rules of the HTML standard that matter here.
func frames(t *testing.T, body string) (comments []string, found []frame) {
	t.Helper()
	var f frame
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if f != (frame{}) {
				found = append(found, f)
			}
			f = frame{}
		case name == "":
			comments = append(comments, value)
		case name == "id":
			f.id = value
		case name == "event":
			f.event = value
		case name == "data" && f.data == "":
			f.data = value
		default:
			t.Errorf("line %q is no part of a one-line event", line)
		}
	}
	return comments, found
}

func TestSSE(t *testing.T) {
	for name, call := range map[string]func(b *bench, h header) (*http.Response, string){
		"watch": func(b *bench, h header) (*http.Response, string) { return b.text("GET", events, "", h) },
		"run": func(b *bench, h header) (*http.Response, string) {
			return b.text("POST", "/v1/tasks:run", `{"goal": "g"}`, h)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, gateway.Config{})
			b.tellsStory()
			resp, body := call(b, header{"Accept": "text/event-stream"})
			for h, want := range map[string]string{
				"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "Pawl-Task-Id": taskID,
			} {
				if got := resp.Header.Get(h); got != want {
					t.Errorf("%s %q, want %q", h, got, want)
				}
			}
			if !strings.HasPrefix(body, ": ok\n\n") {
				t.Errorf("the body begins %.20q, want the comment ok", body)
			}
			_, got := frames(t, body)
			checkFrames(t, got, 0)
		})
	}
}

// checkFrames wants the story after a seq, and the terminal event.
func checkFrames(t *testing.T, got []frame, after uint64) {
	t.Helper()
	want := []frame{{id: "1", event: "flow_start"}, {id: "2", event: "text_add"}, {id: "3", event: "flow_success"}, {event: "end"}}[after:]
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d: %v", len(got), len(want), got)
	}
	for i, w := range want {
		if got[i].id != w.id || got[i].event != w.event || !json.Valid([]byte(got[i].data)) || strings.Contains(got[i].data, `", "`) {
			t.Errorf("event %d is %+v, want id %q, event %q and compact JSON", i, got[i], w.id, w.event)
		}
	}
	if last := got[len(got)-1].data; last != `{"lastSeq":3,"status":"EXECUTOR_STATUS_SUCCESS"}` {
		t.Errorf("the end says %s", last)
	}
}

func TestNDJSON(t *testing.T) {
	b := start(t, gateway.Config{})
	b.tellsStory()
	for _, accept := range []string{"", "*/*", "application/json", "text/*", "text/event-stream;q=0", "text/event-stream;q=0.5, application/x-ndjson"} {
		t.Run(accept, func(t *testing.T) {
			b := b.in(t)
			resp, body := b.text("GET", events, "", header{"Accept": accept})
			if got := resp.Header.Get("Content-Type"); got != "application/x-ndjson" {
				t.Errorf("Content-Type %q", got)
			}
			got := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
			if len(got) != 3 {
				t.Fatalf("%d lines, want 3: %s", len(got), body)
			}
			for i, line := range got {
				var e struct{ Seq, Type string }
				if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != string(rune('1'+i)) || !strings.HasPrefix(e.Type, "EVENT_TYPE_") {
					t.Errorf("line %d: %v: %s", i, err, line)
				}
			}
		})
	}
}

func TestAcceptOfSSE(t *testing.T) {
	b := start(t, gateway.Config{})
	b.tellsStory()
	for _, accept := range []string{"text/event-stream", "Text/Event-Stream; charset=utf-8", "text/html, text/event-stream;q=0.1, */*", "application/json,text/event-stream"} {
		resp, _ := b.text("GET", events, "", header{"Accept": accept})
		if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("Accept %q: Content-Type %q", accept, got)
		}
	}
}

// TestResume: wherever the stream broke, a reconnect receives exactly the rest (issue 2, shown by 2).
func TestResume(t *testing.T) {
	b := start(t, gateway.Config{})
	b.tellsStory()
	sse := func(id string) header { return header{"Accept": "text/event-stream", "Last-Event-ID": id} }
	for after, id := range []string{"", "1", "2"} {
		_, body := b.text("GET", events, "", sse(id))
		_, got := frames(t, body)
		checkFrames(t, got, uint64(after))
	}
	t.Run("the header wins over the query", func(t *testing.T) {
		b := b.in(t)
		_, body := b.text("GET", events+"?afterSeq=1", "", sse("2"))
		_, got := frames(t, body)
		checkFrames(t, got, 2)
	})
	t.Run("of a run", func(t *testing.T) {
		b := b.in(t)
		_, body := b.text("POST", "/v1/tasks:run", `{"goal": "g", "requestId": "r"}`, sse("2"))
		_, got := frames(t, body)
		checkFrames(t, got, 2)
	})
	t.Run("nothing is left: 204 stops an EventSource", func(t *testing.T) {
		b := b.in(t)
		if resp, body := b.text("GET", events, "", sse("3")); resp.StatusCode != http.StatusNoContent || body != "" {
			t.Errorf("status %d, body %q; want 204", resp.StatusCode, body)
		}
	})
	t.Run("nothing is left, asked by the query", func(t *testing.T) {
		b := b.in(t)
		resp, body := b.text("GET", events+"?afterSeq=3", "", header{"Accept": "text/event-stream"})
		if resp.StatusCode != http.StatusOK || body != ": ok\n\nevent: end\ndata: {\"lastSeq\":3}\n\n" {
			t.Errorf("status %d, body %q; want the end", resp.StatusCode, body)
		}
	})
	t.Run("nothing yet of a task that may go on", func(t *testing.T) {
		b := b.in(t)
		if resp, _ := b.text("GET", events+"?noFollow=true", "", sse("3")); resp.StatusCode != http.StatusOK {
			t.Errorf("status %d, want 200", resp.StatusCode)
		}
	})
	t.Run("not a number", func(t *testing.T) {
		b := b.in(t)
		_, p := b.problem("GET", events, "", sse("three"), http.StatusBadRequest)
		if !strings.Contains(p.Detail, "Last-Event-ID") {
			t.Errorf("detail %q", p.Detail)
		}
	})
}

// TestErrorBeforeTheFirstMessage has its status, as any call's.
func TestErrorBeforeTheFirstMessage(t *testing.T) {
	b := start(t, gateway.Config{})
	b.executor.WatchTaskFn = func(*executorv1.WatchTaskRequest, eventStream) error {
		return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, "there is no such task")
	}
	for _, accept := range []string{"text/event-stream", "application/x-ndjson"} {
		if _, p := b.problem("GET", events, "", header{"Accept": accept}, http.StatusNotFound); p.Reason != "TASK_NOT_FOUND" {
			t.Errorf("reason %s", p.Reason)
		}
	}
}

func TestErrorInTheMiddle(t *testing.T) {
	b := start(t, gateway.Config{})
	b.executor.WatchTaskFn = func(_ *executorv1.WatchTaskRequest, s eventStream) error {
		if err := s.Send(story()[0]); err != nil {
			return err
		}
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "the executor stops").WithRetryAfter(time.Second)
	}
	t.Run("SSE", func(t *testing.T) {
		b := b.in(t)
		_, body := b.text("GET", events, "", header{"Accept": "text/event-stream"})
		_, got := frames(t, body)
		if len(got) != 2 || got[1].event != "error" || got[1].id != "" {
			t.Fatalf("events %v, want the second to be an error without an id", got)
		}
		checkStopped(t, []byte(got[1].data))
	})
	t.Run("NDJSON", func(t *testing.T) {
		b := b.in(t)
		_, body := b.text("GET", events, "", nil)
		_, last, _ := strings.Cut(body, "\n")
		var line struct{ Error json.RawMessage }
		if err := json.Unmarshal([]byte(last), &line); err != nil {
			t.Fatalf("%v: %s", err, last)
		}
		checkStopped(t, line.Error)
	})
}

func checkStopped(t *testing.T, data []byte) {
	t.Helper()
	var p problem
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	if p.Status != http.StatusServiceUnavailable || p.Reason != "SHUTTING_DOWN" || p.RetryAfterSeconds != 1 {
		t.Errorf("problem %+v", p)
	}
}

// TestHeartbeat: a stream with nothing to say opens and is kept open; the first event still comes at once.
func TestHeartbeat(t *testing.T) {
	b := start(t, gateway.Config{Heartbeat: 5 * time.Millisecond})
	speak := make(chan struct{})
	b.executor.WatchTaskFn = func(_ *executorv1.WatchTaskRequest, s eventStream) error {
		select {
		case <-speak:
			return tell(s, 0)
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
	resp := b.send("GET", events, "", header{"Accept": "text/event-stream"})
	l := readLines(t, resp.Body)
	l.want(": ok", "", ": keep-alive", "", ": keep-alive", "")
	close(speak)
	for line := l.next(); line != "id: 1"; line = l.next() {
		if line != "" && line != ": keep-alive" {
			t.Fatalf("line %q before the first event", line)
		}
	}
	l.want("event: flow_start")
	if got := resp.Header.Get("Pawl-Task-Id"); got != "" {
		t.Errorf("Pawl-Task-Id %q was known before the first event", got)
	}
}

// TestDisconnectEndsTheCall: no service works for a client that has gone.
func TestDisconnectEndsTheCall(t *testing.T) {
	b := start(t, gateway.Config{})
	ended := make(chan error, 1)
	b.pool.CallToolFn = func(_ *mcppoolv1.CallToolRequest, s grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
		if err := s.Send(progress(1)); err != nil {
			return err
		}
		<-s.Context().Done()
		ended <- s.Context().Err()
		return s.Context().Err()
	}
	resp := b.send("POST", "/v1/mcpServers/m/tools:call", `{"name": "t"}`, nil)
	readLines(t, resp.Body).next()
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v, want %v", err, context.Canceled)
	}
}

func progress(n float64) *mcppoolv1.CallToolResponse {
	return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Progress{Progress: &mcppoolv1.CallProgress{Progress: n, Total: 2}}}
}

func TestToolCallEvents(t *testing.T) {
	b := start(t, gateway.Config{})
	b.pool.CallToolFn = func(_ *mcppoolv1.CallToolRequest, s grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
		for _, m := range []*mcppoolv1.CallToolResponse{
			progress(1),
			{Event: &mcppoolv1.CallToolResponse_Log{Log: &mcppoolv1.CallLog{Level: "info", DataJson: `"x"`}}},
			{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{CallId: "c"}}},
		} {
			if err := s.Send(m); err != nil {
				return err
			}
		}
		return nil
	}
	_, body := b.text("POST", "/v1/mcpServers/m/tools:call", `{"name": "t"}`, header{"Accept": "text/event-stream"})
	_, got := frames(t, body)
	var names []string
	for _, f := range got {
		names = append(names, f.event)
		if f.id != "" {
			t.Errorf("the event %s has the id %s; calls cannot be resumed", f.event, f.id)
		}
	}
	if joined := strings.Join(names, " "); joined != "progress log result end" {
		t.Errorf("events %s", joined)
	}
	if got[len(got)-1].data != "{}" {
		t.Errorf("the end says %s", got[len(got)-1].data)
	}
}

// TestRefusedToolCall: the error keeps the outcome of the call.
func TestRefusedToolCall(t *testing.T) {
	b := start(t, gateway.Config{})
	b.pool.CallToolFn = func(*mcppoolv1.CallToolRequest, grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE, "activate it first").
			With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	_, p := b.problem("POST", "/v1/mcpServers/m/tools:call", `{"name": "t"}`, nil, http.StatusConflict)
	if p.Reason != "MCP_SERVER_NOT_ACTIVE" || p.Title != "MCP server not active" || p.Metadata["outcome"] != "NOT_EXECUTED" {
		t.Errorf("problem %+v", p)
	}
}

// TestGracefulStop: readiness is off, streams are told and end, running requests finish.
func TestGracefulStop(t *testing.T) {
	b := start(t, gateway.Config{})
	watching, running, finish := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.executor.WatchTaskFn = func(_ *executorv1.WatchTaskRequest, s eventStream) error {
		if err := s.Send(story()[0]); err != nil {
			return err
		}
		close(watching)
		<-s.Context().Done()
		return s.Context().Err()
	}
	b.executor.GetTaskFn = func(r *executorv1.GetTaskRequest) (*executorv1.Task, error) {
		close(running)
		<-finish
		return &executorv1.Task{Id: r.GetId()}, nil
	}
	stream := b.send("GET", events, "", header{"Accept": "text/event-stream"})
	<-watching
	unary := make(chan int, 1)
	go func() {
		resp, err := b.client.Get(b.url + "/v1/tasks/" + taskID)
		if err != nil {
			unary <- 0
			return
		}
		_ = resp.Body.Close()
		unary <- resp.StatusCode
	}()
	<-running
	stopped := make(chan struct{})
	go func() { defer close(stopped); b.stop() }()
	body, err := io.ReadAll(stream.Body)
	if err != nil {
		t.Fatalf("the stream broke: %v", err)
	}
	if !strings.HasSuffix(string(body), ": the gateway is stopping\n\n") || strings.Contains(string(body), "event: end") {
		t.Errorf("the stream ended %q, want the comment, and no terminal event", body)
	}
	close(finish)
	if status := <-unary; status != http.StatusOK {
		t.Errorf("the running request: status %d, want 200", status)
	}
	<-stopped
}
