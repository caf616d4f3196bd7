package stream

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/protobuf/proto"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/gateway/internal/problem"
)

// documentName returns the file name of a download.
func documentName(in proto.Message) string {
	switch in := in.(type) { // the protos allow only UUIDs as ids
	case *executorv1.ExportTaskRequest:
		return "pawl-task-" + in.GetId() + ".json"
	case *conversationv1.ExportTopicRequest:
		return "pawl-topic-" + in.GetId() + ".json"
	}
	return "document.json"
}

// serveDocument forwards the pieces unchanged: the response is the document itself. An error before the first piece has its HTTP
// status. A later error breaks the connection, so that half a document is not taken for a whole one.
func (h *Handler) serveDocument(w http.ResponseWriter, r *http.Request, call Call) {
	ctx, cancel := context.WithCancel(r.Context())
	incoming, err := startCall(ctx, call)
	if err != nil {
		cancel()
		problem.Write(w, err)
		return
	}
	defer func() { // the receiver ends before the handler does
		cancel()
		for range incoming {
		}
	}()
	d := &download{w: w, name: documentName(call.In)}
	for got := range incoming {
		if !d.receive(got) {
			break
		}
		got.written <- struct{}{}
	}
	if d.cut != nil {
		h.cfg.Log.WarnContext(r.Context(), "a document was cut off", "path", r.URL.Path, "error", d.cut)
		panic(http.ErrAbortHandler)
	}
}

// download is one document on its way to a client.
type download struct {
	w      http.ResponseWriter
	name   string
	opened bool
	cut    error // the error that ended the document in the middle
}

// receive forwards a piece and reports whether there may be more.
func (d *download) receive(got received) (more bool) {
	switch {
	case errors.Is(got.err, io.EOF):
		d.open()
		return false
	case got.err != nil && d.opened:
		d.cut = got.err
		return false
	case got.err != nil:
		problem.Write(d.w, got.err)
		return false
	}
	d.open()
	piece, ok := got.message.(interface{ GetData() []byte })
	if !ok {
		return true
	}
	_, err := d.w.Write(piece.GetData())
	return err == nil // else the client is gone
}

func (d *download) open() {
	if d.opened {
		return
	}
	d.opened = true
	h := d.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
	h.Set("Cache-Control", "no-store")
	d.w.WriteHeader(http.StatusOK)
}
