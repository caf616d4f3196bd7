package task

import (
	"cmp"
	"context"
	"fmt"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// TasksCmd is `pawl tasks`.
type TasksCmd struct {
	Status       []string `enum:"new,running,waiting,done,failed,cancelled" placeholder:"S" help:"Only tasks in this state (repeatable): ${enum}."`
	Agent        string   `complete:"agent" placeholder:"ID" help:"Only tasks of this agent."`
	Conversation string   `placeholder:"ID" help:"Only tasks of this conversation."`
	Limit        int32    `short:"n" default:"20" help:"At most this many."`
	PageToken    string   `placeholder:"T" help:"Go on where a list ended."`
}

// Run lists tasks, newest first.
func (c *TasksCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	req, err := c.request()
	if err != nil {
		return err
	}
	list, err := s.Tasks.ListTasks(ctx, req)
	if err != nil {
		return err
	}
	t := u.Table("ID", "STATE", "AGE", "STEPS", "GOAL")
	t.Mark(1, t.Style.StatusStyle)
	for _, task := range list.GetTasks() {
		t.Row(ui.ShortID(task.GetId()), ui.StateName(task), ui.Age(task.GetCreateTime().AsTime(), u.Now()),
			fmt.Sprint(task.GetStepCount()), cmp.Or(task.GetGoal(), task.GetName()))
	}
	empty := `no tasks; pawl run "what you want" makes one`
	if len(req.GetStatuses()) > 0 || c.Agent != "" || c.Conversation != "" || c.PageToken != "" {
		empty = "no such tasks; pawl tasks lists all"
	}
	if err := u.List(list, t, empty); err != nil {
		return err
	}
	if token := list.GetNextPageToken(); token != "" && !u.JSON {
		u.Note("there are more: pawl tasks --page-token %s%s", token, s.Flags())
	}
	return nil
}

func (c *TasksCmd) request() (*executorv1.ListTasksRequest, error) {
	if c.Limit < 1 || c.Limit > 1000 {
		return nil, ui.Usagef("--limit must be from 1 to 1000").Then("use --page-token to see more")
	}
	req := &executorv1.ListTasksRequest{
		PageSize: c.Limit, PageToken: c.PageToken, AgentId: c.Agent, ConversationId: c.Conversation,
	}
	for _, word := range c.Status {
		req.Statuses = append(req.Statuses, ui.ParseStatus(word))
	}
	return req, nil
}
