package task

import (
	"context"
	"errors"
	"io"
	"os"

	"google.golang.org/grpc"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// ExportCmd is `pawl export`.
type ExportCmd struct {
	OneTask
	Output string `short:"o" type:"path" placeholder:"FILE" help:"Write it to this file, which appears once it is whole (default: standard output)."`
}

// Run exports a task.
func (c *ExportCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.Tasks.ExportTask(ctx, &executorv1.ExportTaskRequest{Id: id})
	if err != nil {
		return err
	}
	if c.Output == "" {
		_, err := copyPieces(ui.HarmlessJSON(u.Out), stream)
		return err
	}
	var n int64
	err = discover.WriteFile(c.Output, func(f *os.File) error {
		if n, err = copyPieces(f, stream); err != nil {
			return err
		}
		return f.Sync()
	})
	return u.Result(map[string]any{"task": id, "file": c.Output, "bytes": n}, err, "task %s is exported to %s (%s)", ui.ShortID(id), ui.Line(c.Output), ui.Bytes(n))
}

type pieces = grpc.ServerStreamingClient[executorv1.ExportTaskResponse]

func copyPieces(w io.Writer, stream pieces) (n int64, err error) {
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		written, err := w.Write(piece.GetData())
		n += int64(written)
		if err != nil {
			return n, ui.Errorf("write the document: %v", err)
		}
	}
}
