package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/view"
)

const (
	// exportFormat is the version of the exported document.
	exportFormat = 1
	// exportPiece is the size of the pieces of an exported document.
	exportPiece = 256 << 10
)

// ExportTask implements ExecutorService.
func (s *Tasks) ExportTask(req *executorv1.ExportTaskRequest, stream grpc.ServerStreamingServer[executorv1.ExportTaskResponse]) error {
	ctx := stream.Context()
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return err
	}
	whole, err := s.get(ctx, t.ID)
	if err != nil {
		return err
	}
	d := &document{out: bufio.NewWriterSize(pieces{stream}, exportPiece)}
	d.text(`{"format":` + strconv.Itoa(exportFormat) + `,"task":`)
	d.message(whole)
	d.text(`,"steps":[`)
	log, err := s.history(ctx, t.ID)
	if err != nil {
		return err
	}
	for _, e := range log.Entries {
		d.item(view.Step(t, e))
	}
	d.text(`],"events":[`)
	d.items = 0
	if err := s.events(ctx, t, d); err != nil {
		return err
	}
	d.text("]}\n")
	d.flush()
	return d.err
}

func (s *Tasks) events(ctx context.Context, t *journal.Task, d *document) error {
	return s.records(ctx, t.ID, func(r journal.Record) {
		for _, e := range view.Events(t, r, 0) {
			if e.GetSeq() <= t.Checkpoint.GetLastSeq() {
				d.item(e)
			}
		}
	})
}

// document writes JSON; the first error ends it.
type document struct {
	out   *bufio.Writer
	items int
	err   error
}

func (d *document) text(s string) {
	if d.err == nil {
		_, d.err = d.out.WriteString(s)
	}
}

func (d *document) message(m proto.Message) {
	raw, err := protojson.Marshal(m)
	var compact bytes.Buffer
	if err == nil {
		err = json.Compact(&compact, raw) // its own spacing differs from build to build
	}
	if err != nil && d.err == nil {
		d.err = err
	}
	d.text(compact.String())
}

// item writes one more element of an array, on a line of its own.
func (d *document) item(m proto.Message) {
	separator := ",\n"
	if d.items == 0 {
		separator = "\n"
	}
	d.items++
	d.text(separator)
	d.message(m)
}

func (d *document) flush() {
	if d.err == nil {
		d.err = d.out.Flush()
	}
}

// pieces is a writer that sends messages of a stream.
type pieces struct {
	stream grpc.ServerStreamingServer[executorv1.ExportTaskResponse]
}

func (p pieces) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		n := min(len(rest), exportPiece)
		if err := p.stream.Send(&executorv1.ExportTaskResponse{Data: rest[:n]}); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(data), nil
}
