package cli

import (
	"cmp"
	"context"
	"strconv"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// TasksCmd is `pawl tasks`.
type TasksCmd struct {
	Status       []string `enum:"new,running,waiting,done,failed,cancelled" placeholder:"S" help:"Only tasks in this state (repeatable): ${enum}."`
	Agent        string   `placeholder:"ID" help:"Only tasks of this agent."`
	Conversation string   `placeholder:"ID" help:"Only tasks of this conversation."`
	Limit        int32    `short:"n" default:"20" help:"At most this many."`
	PageToken    string   `placeholder:"T" help:"Go on where a list ended."`
}

// Help is shown by --help.
func (TasksCmd) Help() string {
	return `Examples:

    pawl tasks
    pawl tasks --status waiting
    pawl tasks --json --limit 1 | jq -r .tasks[0].id`
}

// Run lists tasks, newest first.
func (c *TasksCmd) Run(ctx context.Context, a *App, g *Globals) error {
	req, err := c.request()
	if err != nil {
		return err
	}
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		list, err := executorv1.NewExecutorServiceClient(session).ListTasks(ctx, req)
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, list)
		}
		return a.showTasks(g, list)
	})
}

func (c *TasksCmd) request() (*executorv1.ListTasksRequest, error) {
	if c.Limit < 1 || c.Limit > 1000 {
		return nil, exit.Usagef("--limit must be from 1 to 1000").Then("use --page-token to see more")
	}
	req := &executorv1.ListTasksRequest{
		PageSize: c.Limit, PageToken: c.PageToken, AgentId: c.Agent, ConversationId: c.Conversation,
	}
	for _, word := range c.Status {
		status, _ := render.ParseStatus(word) // the grammar lets no other word through
		req.Statuses = append(req.Statuses, status)
	}
	return req, nil
}

func (a *App) showTasks(g *Globals, list *executorv1.ListTasksResponse) error {
	if len(list.GetTasks()) == 0 {
		a.note(`no tasks; pawl run "what you want" makes one`)
		return nil
	}
	t := a.table()
	t.Mark(1, t.Style.StatusStyle)
	t.Row("ID", "STATE", "AGE", "STEPS", "GOAL")
	for _, task := range list.GetTasks() {
		state := render.StateName(task)
		t.Row(render.ShortID(task.GetId()), state, render.Age(task.GetCreateTime().AsTime(), a.Now()),
			strconv.FormatUint(uint64(task.GetStepCount()), 10), cmp.Or(task.GetGoal(), task.GetName()))
	}
	if err := t.Write(a.Console.Out); err != nil {
		return err
	}
	if token := list.GetNextPageToken(); token != "" {
		a.note("there are more: pawl tasks --page-token " + token + g.again())
	}
	return nil
}
