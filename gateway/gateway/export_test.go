package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"pawl.dev/gateway/gateway"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

const export = "/v1/tasks/" + taskID + ":export"

type pieceStream = grpc.ServerStreamingServer[executorv1.ExportTaskResponse]

// sends answers with these pieces, and then with the error.
func sends(err error, pieces ...string) func(*executorv1.ExportTaskRequest, pieceStream) error {
	return func(_ *executorv1.ExportTaskRequest, s pieceStream) error {
		for _, piece := range pieces {
			if err := s.Send(&executorv1.ExportTaskResponse{Data: []byte(piece)}); err != nil {
				return err
			}
		}
		return err
	}
}

// TestExport: the pieces come out as the document, whatever the client accepts; a piece may end anywhere.
func TestExport(t *testing.T) {
	document := `{"format": 1, "task": {"goal": "日本"}, "events": [` + strings.Repeat(`{"x": 1}, `, 50_000) + `{}]}` + "\n"
	middle := strings.Index(document, "日") + 1
	b := start(t, gateway.Config{})
	b.executor.ExportTaskFn = sends(nil, document[:middle], document[middle:100], "", document[100:])
	for _, accept := range []string{"", "application/json", "text/event-stream", "application/x-ndjson"} {
		resp, body := b.text("GET", export, "", header{"Accept": accept})
		if resp.StatusCode != http.StatusOK || body != document {
			t.Errorf("%q: status %d, %d bytes; want 200 and the document's %d", accept, resp.StatusCode, len(body), len(document))
		}
		for name, want := range map[string]string{
			"Content-Type": "application/json", "Cache-Control": "no-store",
			"Content-Disposition": `attachment; filename="pawl-task-` + taskID + `.json"`,
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%q: %s %q, want %q", accept, name, got, want)
			}
		}
	}
}

func TestExportThatFailsAtOnce(t *testing.T) {
	b := start(t, gateway.Config{})
	b.executor.ExportTaskFn = sends(errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, "there is no such task"))
	resp, p := b.problem("GET", export, "", nil, http.StatusNotFound)
	if p.Reason != "TASK_NOT_FOUND" || resp.Header.Get("Content-Disposition") != "" {
		t.Errorf("problem %+v, header %v", p, resp.Header)
	}
	b.problem("GET", "/v1/tasks/abc:export", "", nil, http.StatusBadRequest)
}

// TestExportThatFailsInTheMiddle breaks the connection, so that no client takes half a document for a whole one.
func TestExportThatFailsInTheMiddle(t *testing.T) {
	b := start(t, gateway.Config{})
	for name, size := range map[string]int{"of a small one": 10, "of a large one": 100_000} {
		t.Run(name, func(t *testing.T) {
			b.executor.ExportTaskFn = sends(errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "the executor stops"),
				strings.Repeat(" ", size))
			resp, err := b.client.Get(b.url + export)
			if err != nil {
				return // it broke before its header was read
			}
			defer func() { _ = resp.Body.Close() }()
			if body, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("the answer ended well: status %d, %d bytes", resp.StatusCode, len(body))
			}
		})
	}
}

// TestAttach: the events of a call that is followed again are called as those of the first stream.
func TestAttach(t *testing.T) {
	b := start(t, gateway.Config{})
	b.pool.AttachCallFn = func(_ *mcppoolv1.AttachCallRequest, s grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error {
		return s.Send(&mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Result{Result: &mcppoolv1.CallResult{CallId: "c"}}})
	}
	_, body := b.text("POST", "/v1/mcpCalls:attach", bodies()["AttachCall"], header{"Accept": "text/event-stream"})
	if _, got := frames(t, body); len(got) != 2 || got[0].event != "result" {
		t.Errorf("events %v, want result and end", got)
	}
}
