package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/view"
)

const (
	// exportFormat is the version of the exported document.
	exportFormat = 1
	// exportPiece bounds the bytes of a piece of an exported document.
	exportPiece = 256 << 10
)

// ExportTask implements ExecutorService.
func (s *Tasks) ExportTask(req *executorv1.ExportTaskRequest, stream grpc.ServerStreamingServer[executorv1.ExportTaskResponse]) error {
	ctx := stream.Context()
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return err
	}
	task, err := s.get(ctx, t.ID)
	if err != nil {
		return err
	}
	log := &history.Log{}
	if err := s.records(ctx, t.ID, func(r journal.Record) { log.Add(r.Record) }); err != nil {
		return err
	}
	d := newDocument(func(piece []byte) error { return stream.Send(&executorv1.ExportTaskResponse{Data: piece}) })
	d.text(fmt.Sprintf(`{"format":%d,"task":`, exportFormat))
	d.message(task)
	d.text(`,"steps":[`)
	for i, e := range log.Entries {
		d.item(i, view.Step(t, e))
	}
	d.text(`],"events":[`)
	n := 0
	err = s.records(ctx, t.ID, func(r journal.Record) {
		for _, e := range view.Events(t, r) {
			if e.GetSeq() <= t.Checkpoint.GetLastSeq() {
				d.item(n, e)
				n++
			}
		}
	})
	if err != nil {
		return err
	}
	d.text("]}\n")
	return errors.Join(d.err, d.out.Flush()) // the writer keeps its first error
}

// ExportTopic implements TopicService.
func (s *Topics) ExportTopic(req *conversationv1.ExportTopicRequest, stream grpc.ServerStreamingServer[conversationv1.ExportTopicResponse]) error {
	ctx := stream.Context()
	v, err := s.enter(ctx, req.GetId())
	if err != nil {
		return err
	}
	d := newDocument(func(piece []byte) error { return stream.Send(&conversationv1.ExportTopicResponse{Data: piece}) })
	d.text(fmt.Sprintf(`{"format":%d,"topic":`, exportFormat))
	d.message(view.Topic(v.topic))
	d.text(`,"events":[`)
	n, last := 0, v.topic.State.GetLastSeq()
	for after := uint64(0); after < last; {
		records, err := s.Journal.TopicRecords(ctx, v.topic.ID, after, readBytes)
		if err != nil {
			return apiError(err, topicNotFound(v.topic.ID))
		}
		for _, r := range records {
			for _, e := range view.TopicEvents(v.topic, r) {
				if after = e.GetSeq(); after <= last {
					d.item(n, e)
					n++
				}
			}
		}
	}
	d.text("]}\n")
	return errors.Join(d.err, d.out.Flush())
}

// document writes JSON.
type document struct {
	out *bufio.Writer
	err error // from encoding messages
}

func newDocument(send pieces) *document {
	return &document{out: bufio.NewWriterSize(send, exportPiece)}
}

func (d *document) text(s string) { _, _ = d.out.WriteString(s) }

func (d *document) message(m proto.Message) {
	raw, err := protojson.Marshal(m)
	var compact bytes.Buffer
	if err == nil {
		err = json.Compact(&compact, raw) // protojson's spacing differs from build to build
	}
	d.err = errors.Join(d.err, err)
	_, _ = compact.WriteTo(d.out)
}

// item writes the i-th element of an array on a line of its own.
func (d *document) item(i int, m proto.Message) {
	if i > 0 {
		d.text(",")
	}
	d.text("\n")
	d.message(m)
}

// pieces is a writer that sends data in pieces.
type pieces func(piece []byte) error

func (send pieces) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		n := min(len(rest), exportPiece)
		if err := send(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(data), nil
}
