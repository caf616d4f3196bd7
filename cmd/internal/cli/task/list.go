package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// TasksCmd is `pawl tasks`.
type TasksCmd struct {
	Status       []string `enum:"new,queued,running,pausing,paused,waiting,done,failed,cancelled" placeholder:"S" help:"Only tasks in this state (repeatable): ${enum}."`
	Agent        string   `complete:"agent" placeholder:"ID" help:"Only tasks of this agent."`
	Conversation string   `placeholder:"ID" help:"Only tasks of this conversation."`
	Limit        int32    `short:"n" default:"20" placeholder:"N" help:"List at most N tasks (default ${default})."`
	PageToken    string   `placeholder:"T" help:"Continue a list; the note at its end has the token."`
}

// Run lists tasks, newest first.
func (c *TasksCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	req, err := c.request()
	if err != nil {
		return err
	}
	list, err := c.list(ctx, s, req)
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
	if err := u.List(list, err, t, empty); err != nil {
		return err
	}
	if token := list.GetNextPageToken(); token != "" && !u.JSON {
		u.Note("there are more: pawl tasks --page-token %s%s", token, s.Flags())
	}
	return nil
}

func (c *TasksCmd) request() (*executorv1.ListTasksRequest, error) {
	if c.Limit < 1 || c.Limit > 1000 {
		return nil, ui.Usagef("--limit must be from 1 to 1000").Then("leave it out to see 20 tasks; --page-token shows more")
	}
	req := &executorv1.ListTasksRequest{
		PageSize: c.Limit, PageToken: c.PageToken, AgentId: c.Agent, ConversationId: c.Conversation,
	}
	if c.Status != nil && len(c.Status) == 0 {
		return nil, ui.Usagef("--status is empty").Then("name a state, or leave --status out to see all tasks")
	}
	for _, word := range c.Status {
		req.Statuses = append(req.Statuses, ui.StatusesOf(word)...)
	}
	return req, nil
}

// list returns at most Limit tasks in the requested states. It filters the pages itself, because the server filters by status only, and tasks of
// one status can be in different states, such as queued and running.
func (c *TasksCmd) list(ctx context.Context, s *discover.Session, req *executorv1.ListTasksRequest) (*executorv1.ListTasksResponse, error) {
	list := &executorv1.ListTasksResponse{}
	for {
		req.PageSize = c.Limit - int32(len(list.GetTasks()))
		page, err := s.Tasks.ListTasks(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, task := range page.GetTasks() {
			if len(c.Status) == 0 || slices.Contains(c.Status, ui.StateName(task)) || slices.Contains(c.Status, ui.StatusName(task.GetStatus())) {
				list.Tasks = append(list.Tasks, task)
			}
		}
		list.NextPageToken, req.PageToken = page.GetNextPageToken(), page.GetNextPageToken()
		if req.GetPageToken() == "" || len(list.GetTasks()) == int(c.Limit) {
			return list, nil
		}
	}
}

// ShowCmd is `pawl show`.
type ShowCmd struct {
	OneTask
	Steps bool `help:"Show each step's whole input and output."`
}

// Run shows a task.
func (c *ShowCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	task, err := c.get(ctx, s)
	if err != nil {
		return err
	}
	if u.JSON && !c.Steps {
		return u.Document(task)
	}
	list, err := discover.All(ctx, s.Tasks.ListSteps, &executorv1.ListStepsRequest{Id: task.GetId()})
	if err != nil {
		return err
	}
	if u.JSON {
		return showJSON(u, task, list.GetSteps())
	}
	result := &executorv1.TaskResult{}
	if task.GetAgentStatus() != executorv1.AgentStatus_AGENT_STATUS_UNSPECIFIED {
		if result, err = s.Tasks.GetTaskResult(ctx, &executorv1.GetTaskResultRequest{Id: task.GetId()}); err != nil {
			return err
		}
	}
	d := &detail{result: result, task: task, st: u.OutStyle(), columns: u.OutColumns(), now: u.Now(), whole: c.Steps, alias: s.KnownWorkspace(ctx).TaskAlias, flags: s.Flags()}
	d.diff = func(wait *executorv1.Wait) string {
		diff, _ := inputDiff(ctx, s, d.st, wait.GetToolId(), wait.GetInputJson(), 0)
		return diff
	}
	u.Printf("%s", d.text(list.GetSteps()))
	noteShown(u, s, task)
	return nil
}

func showJSON(u *ui.UI, task *executorv1.Task, steps []*executorv1.Step) (err error) {
	var doc struct {
		Task  json.RawMessage   `json:"task"`
		Steps []json.RawMessage `json:"steps"`
	}
	doc.Steps = make([]json.RawMessage, len(steps))
	doc.Task, err = ui.MarshalJSON(task)
	for i := 0; err == nil && i < len(steps); i++ {
		doc.Steps[i], err = ui.MarshalJSON(steps[i])
	}
	return cmp.Or(err, u.Document(doc))
}

// WatchCmd is `pawl watch`.
type WatchCmd struct {
	OneTask
	After uint64 `placeholder:"N" help:"Begin after the event with this number."`
}

// Run follows a task.
func (c *WatchCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	t := newWatcher(u, s, id, c.After, u.Out, s.KnownWorkspace(ctx).TaskAlias)
	t.keepWatching = true
	return t.run(ctx)
}

const (
	lastTask    = "last" // the newest task
	minRef      = 6      // the fewest characters of an id that may name a task
	maxSearched = 10_000 // tasks that search looks at
)

// OneTask names the task of a command.
type OneTask struct {
	Task string `arg:"" complete:"task" help:"The task: its id, 6 or more characters of its beginning or end, or last, which is the newest task whatever its state."`
}

// find returns the task's id.
func (a OneTask) find(ctx context.Context, s *discover.Session) (string, error) {
	return taskID(ctx, s, a.Task)
}

// get returns the task.
func (a OneTask) get(ctx context.Context, s *discover.Session) (*executorv1.Task, error) {
	id, err := a.find(ctx, s)
	if err != nil {
		return nil, err
	}
	return s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
}

// taskID resolves a reference to a task: an id, the beginning or end of one, or "last".
func taskID(ctx context.Context, s *discover.Session, ref string) (string, error) {
	ref = strings.ToLower(strings.TrimSpace(ref))
	if regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(ref) {
		return ref, nil
	}
	if ref == lastTask {
		list, err := s.Tasks.ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: 1})
		if err == nil && len(list.GetTasks()) == 0 {
			err = ui.Errorf("there is no task yet").Then(`pawl run "what you want"`)
		}
		if err != nil {
			return "", err
		}
		return list.GetTasks()[0].GetId(), nil
	}
	if len(ref) < minRef {
		return "", ui.Usagef("%q is too short to name a task", ref).
			Then("give at least %d characters of its id, or last for the newest; pawl tasks lists them", minRef)
	}
	return search(ctx, s, ref)
}

// search returns the id of the only task whose id begins or ends with ref. It looks at the newest maxSearched tasks.
func search(ctx context.Context, s *discover.Session, ref string) (string, error) {
	var found []string
	req := &executorv1.ListTasksRequest{PageSize: 1000}
	for seen := 0; seen < maxSearched; {
		list, err := s.Tasks.ListTasks(ctx, req)
		if err != nil {
			return "", err
		}
		for _, t := range list.GetTasks() {
			if ui.IDMatches(t.GetId(), ref) {
				found = append(found, t.GetId())
			}
		}
		seen += len(list.GetTasks())
		if req.PageToken = list.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	switch len(found) {
	case 0:
		return "", ui.Errorf("there is no task whose id begins or ends with %q", ref).Then("pawl tasks shows the tasks there are")
	case 1:
		return found[0], nil
	}
	return "", ui.Errorf("%q names %d tasks: %s", ref, len(found), strings.Join(found[:min(len(found), 5)], ", ")).
		Then("give more of the id; its end differs most")
}

// detail builds the text of `pawl show`: a task's head, steps, waits and answer.
type detail struct {
	task    *executorv1.Task
	result  *executorv1.TaskResult // empty if the task has no plan
	st      ui.Style
	columns int // of the terminal; 0 if there is none
	now     time.Time
	whole   bool // show whole inputs and outputs of steps
	alias   func(toolID string) string
	diff    func(*executorv1.Wait) string // returns the change that a waiting call would make to files; may be ""
	flags   string                        // connection flags to repeat in suggested commands

	strings.Builder
}

func (d *detail) text(steps []*executorv1.Step) string {
	d.head()
	for i, line := range newPlanView(d.result.GetPlan()).draw(d.st, d.columns, 0, func(*executorv1.Subtask) string { return "" }) {
		if i == 0 {
			d.WriteByte('\n')
		}
		d.printf("%s\n", line)
	}
	if len(steps) > 0 {
		d.WriteByte('\n')
	}
	for _, s := range steps {
		if s.GetType() != executorv1.StepType_STEP_TYPE_FINAL {
			d.step(s)
		}
	}
	for _, wait := range openWaits(d.task) {
		d.wait(wait)
	}
	for i, c := range netChanges(d.result.GetFilesChanged()) {
		if i == 0 {
			d.printf("\n%s\n", d.st.Dim("files changed (pawl diff "+ui.ShortID(d.task.GetId())+d.flags+")"))
		}
		d.printf("%s\n", fileLine(d.st, d.columns, c.kind(), "", c.path, ""))
	}
	if e := d.task.GetError(); e != nil {
		d.printf("\n%s %s\n", d.st.Red("✗ failed:"), ui.Text(e.GetErrMsg()))
	}
	if answer := d.task.GetFullAnswer(); answer != "" {
		d.printf("\n%s\n", strings.TrimRight(ui.Text(answer), "\n"))
	}
	return d.String()
}

func (d *detail) printf(format string, args ...any) { fmt.Fprintf(d, format, args...) }

func (d *detail) head() {
	task := d.task
	d.printf("%s\n", d.st.Bold(ui.Line(cmp.Or(task.GetGoal(), task.GetName()))))
	row := func(name, value string) { d.WriteString(d.st.Field(name, 9, value)) }
	row("task", task.GetId())
	state := d.st.StatusStyle(ui.StateName(task))
	if task.GetCancelRequested() && task.GetEndTime() == nil {
		state += d.st.Dim(", cancellation was requested")
	}
	row("state", state)
	row("waits for", task.GetStatusReason())
	if f := task.GetForkedFrom(); f != nil {
		row("fork of", fmt.Sprintf("%s, at event %d", f.GetTaskId(), f.GetSeq()))
	}
	row("created", d.createdText())
	row("agent", ui.Line(task.GetAgentId()))
	row("model", ui.Line(task.GetModel()))
	row("servers", ui.Line(strings.Join(task.GetMcpIds(), ", ")))
	row("asks", map[string]string{"always": "before each step", "by-risk": "by risk", "never": "never"}[ui.EnumName(task.GetConfirm())])
	row("risk", strings.TrimPrefix(riskText("", task.GetRisk()), "risk "))
	row("cost", usageText(task.GetUsage()))
	row("budget", budgetText(task.GetBudget()))
	row("bounds", bounds(task))
	row("events", fmt.Sprint(task.GetLastSeq()))
}

func (d *detail) createdText() string {
	created := d.task.GetCreateTime().AsTime()
	text := created.In(d.now.Location()).Format(time.DateTime) + " (" + ui.Age(created, d.now) + " ago)"
	if d.task.GetEndTime() != nil {
		text += ", took " + ui.Duration(d.task.GetEndTime().AsTime().Sub(created))
	}
	return text
}

func (d *detail) step(s *executorv1.Step) {
	e := Events{cfg: EventsConfig{Style: d.st, Columns: func() int { return d.columns }, Alias: d.alias}}
	view := &stepView{tool: s.GetToolId(), subtask: s.GetSubtaskId(), input: s.GetInputJson(), attempt: s.GetAttempt()}
	view.note, _ = resultNote(s.GetToolId(), s.GetOutputJson())
	if d.whole {
		view.input = ""
	}
	took := time.Duration(-1)
	if s.GetRunTime() != nil {
		took = s.GetRunTime().AsDuration()
	} else if s.GetEndTime() != nil && s.GetStartTime() != nil {
		took = s.GetEndTime().AsTime().Sub(s.GetStartTime().AsTime())
	}
	d.printf("%s\n", e.stepLine(stepMark(d.st, s.GetStatus()), view, took, 0))
	if d.whole {
		d.block(d.st.Dim("why   "), ui.Line(s.GetDescription()))
		d.block(d.st.Dim("input "), indent(ui.PrettyJSON(s.GetInputJson(), "")))
		if s.GetOutputJson() != "" {
			d.block(d.st.Dim("output"), indent(outputText(s.GetOutputJson())))
		}
	}
	if s.GetError() != nil {
		d.block("", strings.ReplaceAll(d.st.Red(failureText(s.GetError(), s.GetOutcome())), "\n", "\n    "))
	} else if s.GetStatus() == executorv1.StepStatus_STEP_STATUS_CANCELLED && s.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN {
		d.block("", d.st.Yellow(strings.TrimSpace(outcomeText(s.GetOutcome()))))
	}
}

// outputText returns the message in a step's output, or else the output as JSON.
func outputText(raw string) string {
	var output struct {
		Message string `json:"message"`
	}
	if json.Unmarshal([]byte(raw), &output) != nil || output.Message == "" {
		return ui.PrettyJSON(raw, "")
	}
	return ui.Text(strings.TrimRight(output.Message, "\n"))
}

func (d *detail) wait(wait *executorv1.Wait) {
	st := d.st
	d.printf("\n%s %s\n", st.Yellow("⏸"), waitText(st, ui.Line(tag(wait.GetSubtaskId()))+st.Bold(ui.Line(d.alias(wait.GetToolId()))), wait))
	d.block(st.Dim("wait  "), wait.GetId())
	if diff := d.diff(wait); diff != "" {
		d.printf("    %s\n%s", st.Dim("input"), diff)
	} else if wait.GetToolId() != "" {
		d.block(st.Dim("input "), indent(ui.PrettyJSON(wait.GetInputJson(), "")))
	}
	d.block(st.Dim("open  "), ui.Line(wait.GetUrl()))
	if kind := wait.GetKind(); kind == executorv1.WaitKind_WAIT_KIND_PARAMS || kind == executorv1.WaitKind_WAIT_KIND_INPUT && wait.GetUrl() == "" {
		d.block(st.Dim("asked "), indent(strings.Join(paramLines(wait), "\n")))
	}
	if wait.GetDeadline() != nil {
		d.block(st.Dim("expiry"), "in "+ui.Duration(wait.GetDeadline().AsTime().Sub(d.now)))
	}
	d.WriteString(nextCommandsText(st, nextCommands(ui.ShortID(d.task.GetId()), wait, waitFlag(d.task, wait)+d.flags)))
}

func (d *detail) block(name, text string) {
	if text == "" {
		return
	}
	if name != "" {
		name += " "
	}
	d.printf("    %s%s\n", name, text)
}

// indent aligns the following lines with the first one.
func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n           ") }
