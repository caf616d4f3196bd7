package cli

import (
	"context"
	"encoding/json"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// ShowCmd is `pawl show`.
type ShowCmd struct {
	Task  string `arg:"" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	Steps bool   `help:"Show each step's whole input and output."`
}

// Help is shown by --help.
func (ShowCmd) Help() string {
	return `With --json the task is printed; with --json --steps an object {"task": …, "steps": […]}.

Examples:

    pawl show last
    pawl show 3fa29c01 --steps
    pawl show last --json | jq -r .fullAnswer`
}

// Run shows a task.
func (c *ShowCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		client := executorv1.NewExecutorServiceClient(session)
		id, err := taskID(ctx, client, c.Task)
		if err != nil {
			return err
		}
		task, err := client.GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
		if err != nil {
			return err
		}
		if g.JSON && !c.Steps {
			return render.JSONDocument(a.Console.Out, task)
		}
		steps, err := allSteps(ctx, client, id)
		if err != nil {
			return err
		}
		if g.JSON {
			return showJSON(a, task, steps)
		}
		detail := render.Detail{
			Style: a.outStyle(), Clean: a.Console.OutTTY, Now: a.Now(), Whole: c.Steps,
			Alias: a.knownFolder(ctx, session).alias, Asked: asked,
			Ways: func(w *executorv1.Wait) []render.Way { return ways(render.ShortID(id), w, which(task, w)+g.again()) },
		}
		if a.Console.OutTTY {
			detail.Columns = a.Console.Columns()
		}
		return detail.Task(a.Console.Out, task, steps)
	})
}

func allSteps(ctx context.Context, client executorv1.ExecutorServiceClient, id string) ([]*executorv1.Step, error) {
	var steps []*executorv1.Step
	req := &executorv1.ListStepsRequest{Id: id, PageSize: 1000}
	for {
		list, err := client.ListSteps(ctx, req)
		if err != nil {
			return nil, err
		}
		steps = append(steps, list.GetSteps()...)
		if req.PageToken = list.GetNextPageToken(); req.GetPageToken() == "" {
			return steps, nil
		}
	}
}

func showJSON(a *App, task *executorv1.Task, steps []*executorv1.Step) error {
	var doc struct {
		Task  json.RawMessage   `json:"task"`
		Steps []json.RawMessage `json:"steps"`
	}
	var err error
	if doc.Task, err = render.MarshalJSON(task); err != nil {
		return err
	}
	doc.Steps = []json.RawMessage{}
	for _, s := range steps {
		raw, err := render.MarshalJSON(s)
		if err != nil {
			return err
		}
		doc.Steps = append(doc.Steps, raw)
	}
	return render.JSONValue(a.Console.Out, doc)
}
