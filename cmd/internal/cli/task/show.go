package task

import (
	"context"
	"encoding/json"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// ShowCmd is `pawl show`.
type ShowCmd struct {
	Task  string `arg:"" complete:"task" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	Steps bool   `help:"Show each step's whole input and output."`
}

// Run shows a task.
func (c *ShowCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := taskID(ctx, s, c.Task)
	if err != nil {
		return err
	}
	task, err := s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
	if err != nil {
		return err
	}
	if u.JSON && !c.Steps {
		return u.Document(task)
	}
	list, err := discover.All(ctx, s.Tasks.ListSteps, &executorv1.ListStepsRequest{Id: id})
	if err != nil {
		return err
	}
	if u.JSON {
		return showJSON(u, task, list.GetSteps())
	}
	detail := Detail{
		Style: u.OutStyle(), Columns: u.OutColumns(), Now: u.Now(), Whole: c.Steps,
		Alias: s.KnownWorkspace(ctx).Alias, Asked: asked,
		Ways: func(w *executorv1.Wait) []Way { return ways(ui.ShortID(id), w, which(task, w)+s.Flags()) },
	}
	return detail.Task(u.Out, task, list.GetSteps())
}

func showJSON(u *ui.UI, task *executorv1.Task, steps []*executorv1.Step) error {
	var doc struct {
		Task  json.RawMessage   `json:"task"`
		Steps []json.RawMessage `json:"steps"`
	}
	var err error
	if doc.Task, err = ui.MarshalJSON(task); err != nil {
		return err
	}
	doc.Steps = []json.RawMessage{}
	for _, s := range steps {
		raw, err := ui.MarshalJSON(s)
		if err != nil {
			return err
		}
		doc.Steps = append(doc.Steps, raw)
	}
	return u.Document(doc)
}
