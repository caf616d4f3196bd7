package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/grpc"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// ExportCmd is `pawl export`.
type ExportCmd struct {
	Task   string `arg:"" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	Output string `short:"o" type:"path" placeholder:"FILE" help:"Write it to this file, which appears once it is whole (default: standard output)."`
}

// Help is shown by --help.
func (ExportCmd) Help() string {
	return `One JSON document with all there is about the task: {"format": 1, "task": …, "steps": […], "events": […]}.

Examples:

    pawl export last -o task.json
    pawl export 3fa29c01 | jq '.steps[].toolId'`
}

// exportedView is what --json prints where the document went into a file.
type exportedView struct {
	Task  string `json:"task"`
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

// Run exports a task.
func (c *ExportCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		client := executorv1.NewExecutorServiceClient(session)
		id, err := taskID(ctx, client, c.Task)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := client.ExportTask(ctx, &executorv1.ExportTaskRequest{Id: id})
		if err != nil {
			return err
		}
		if c.Output == "" {
			return a.exportHere(stream)
		}
		n, err := exportFile(c.Output, stream)
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONValue(a.Console.Out, exportedView{Task: id, File: c.Output, Bytes: n})
		}
		a.printf("task %s is exported to %s (%s)\n", render.ShortID(id), render.Line(c.Output), render.Bytes(n))
		return nil
	})
}

type pieces = grpc.ServerStreamingClient[executorv1.ExportTaskResponse]

func (a *App) exportHere(stream pieces) error {
	out := a.Console.Out
	if a.Console.OutTTY {
		out = render.HarmlessJSON(out)
	}
	_, err := copyPieces(out, stream)
	return err
}

// exportFile writes beside the file first, so that nobody finds half a document.
func exportFile(path string, stream pieces) (n int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return 0, exit.Newf("write the document: %v", err)
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
		return 0, exit.Newf("write the document: %v", err)
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
			return n, exit.Newf("write the document: %v", err)
		}
	}
}
