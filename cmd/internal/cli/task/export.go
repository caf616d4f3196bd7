package task

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

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
	n, err := exportFile(c.Output, stream)
	return u.Result(map[string]any{"task": id, "file": c.Output, "bytes": n}, err, "task %s is exported to %s (%s)", ui.ShortID(id), ui.Line(c.Output), ui.Bytes(n))
}

type pieces = grpc.ServerStreamingClient[executorv1.ExportTaskResponse]

// exportFile writes a temporary file and renames it, so that no half document is left.
func exportFile(path string, stream pieces) (n int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return 0, ui.Errorf("write the document: %v", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if n, err = copyPieces(f, stream); err != nil {
		return 0, err
	}
	if err = errors.Join(f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return 0, ui.Errorf("write the document: %v", err)
	}
	return n, nil
}

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
