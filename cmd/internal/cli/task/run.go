// Package task has the commands for tasks and the agents they run as, the view of a task's events, and the questions that tasks ask people.
package task

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// RunCmd is `pawl run`.
type RunCmd struct {
	Goal string `arg:"" optional:"" help:"What you want, in plain words. Optional if the playbook has a goal."`

	Auto     bool     `help:"Ask by risk only: steps that only read run without approval. Default: the agent's policy, else every step needs approval."`
	Playbook string   `type:"existingfile" placeholder:"FILE" help:"Follow the steps of this YAML file; - is standard input."`
	Input    []string `xor:"inputs" sep:"none" placeholder:"NAME=VALUE" help:"An input of the playbook (repeatable)."`
	Inputs   string   `xor:"inputs" placeholder:"JSON" help:"All inputs of the playbook as a JSON object."`
	FolderFlags
	StartFlags
}

// FolderFlags choose the folder that tools may read.
type FolderFlags struct {
	Workspace   string `xor:"workspace" type:"existingdir" placeholder:"DIR" help:"Folder that tools may read (default: the current one, unless an API key is used)."`
	NoWorkspace bool   `xor:"workspace" help:"Offer no folder."`
}

// StartFlags are the flags of the commands that start a task for a goal.
type StartFlags struct {
	MCP          []string `name:"mcp" sep:"none" complete:"server" placeholder:"ID" help:"Use only this MCP server (repeatable). The id workspace stands for the folder's own server."`
	Agent        string   `complete:"agent" placeholder:"ID" help:"Run as this agent."`
	Conversation string   `placeholder:"ID" help:"Continue a conversation; its waiting task is cancelled."`
	Language     *string  `enum:"zh,en" placeholder:"zh|en" help:"Language of the answer: zh or en (default: Chinese if your locale is Chinese, else as the goal is written)."`
	Model        string   `complete:"model" placeholder:"NAME" help:"Plan with this model (pawl models lists them)."`
	RequestID    string   `name:"request-id" placeholder:"ID" help:"Makes the command repeatable: with the same id it follows the same task instead of creating another."`
	Detach       bool     `short:"d" help:"Print the task's id and do not wait for it."`

	BudgetFlags
}

// Run creates the task and follows it.
func (c *RunCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	req, err := c.request(u)
	if err != nil {
		return err
	}
	if req.InputsJson, err = c.inputs(ctx, s, req.GetPlaybook()); err != nil {
		return err
	}
	folder, err := c.Scope(ctx, u, s, req)
	if err != nil {
		return err
	}
	return c.start(ctx, u, s, req, folder, false)
}

// start creates the task and follows it, or prints its id if it is to be detached. With planOnly it prints the task's plan and cancels the task.
func (c *StartFlags) start(ctx context.Context, u *ui.UI, s *discover.Session, req *executorv1.CreateTaskRequest, folder discover.Folder, planOnly bool) error {
	task, err := retryRateLimited(ctx, u, func(ctx context.Context) (*executorv1.Task, error) { return s.Tasks.CreateTask(ctx, req) })
	if err != nil {
		return err
	}
	if c.Detach {
		return printDetached(u, s, task)
	}
	if !u.JSON {
		notePlanner(u, task.GetModel())
		if task.GetModel() == "offline" && req.GetFlow() == codingFlow {
			u.Warn("without a language model only a trivial goal can be reached, such as listing a folder; pawl models lists the models there are")
		}
	}
	t := newWatcher(u, s, task.GetId(), 0, u.Err, folder.TaskAlias)
	t.cancelOnInterrupt = true
	if t.planOnly = planOnly; planOnly && u.JSON {
		t.view.cfg.JSON = io.Discard // the plan is the only document
	}
	return t.run(ctx)
}

// notePlanner prints which model plans the task. A provider's key alone does not choose a model, so that nothing is sent to a provider
// without the user's choice.
func notePlanner(u *ui.UI, model string) {
	switch {
	case model == "", model == "playbook":
	case model != "offline":
		u.Note("planning with %s", model)
	case u.Getenv("OPENAI_API_KEY") != "" || u.Getenv("ANTHROPIC_API_KEY") != "":
		u.Note("planning offline, without a language model, although a provider's key is set; choose a model with --model openai:MODEL or anthropic:MODEL, or PAWL_MODEL")
	default:
		u.Note("planning offline, without a language model; --model NAME chooses one")
	}
}

// request builds the request from the command line.
func (c *RunCmd) request(u *ui.UI) (*executorv1.CreateTaskRequest, error) {
	req, err := c.StartFlags.request(u, c.Goal)
	if err != nil {
		return nil, err
	}
	if c.Auto {
		req.AutoExecute = &c.Auto
	}
	if c.Playbook != "" {
		req.Model = c.Model
		if req.Playbook, err = readPlaybook(u, c.Playbook); err != nil {
			return nil, err
		}
	}
	if req.Goal == "" && req.Playbook == "" {
		return nil, ui.Usagef("there is no goal").Then(`pawl run "what you want", or pawl run --playbook FILE`)
	}
	return req, nil
}

// request builds the request of a task for a goal.
func (c *StartFlags) request(u *ui.UI, goal string) (*executorv1.CreateTaskRequest, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	req := &executorv1.CreateTaskRequest{
		Goal: strings.TrimSpace(goal), AgentId: c.Agent, McpIds: c.MCP, ConversationId: c.Conversation,
		Model: c.Model, RequestId: c.RequestID, Language: language(c.Language, u.Getenv),
		Budget: c.merge(nil), WaitTimeout: c.waitTimeout(),
	}
	if c.Model == "" && c.Agent == "" {
		req.Model = u.Getenv("PAWL_MODEL")
	}
	if req.GetRequestId() == "" {
		req.RequestId = uuid.NewString() // so that a retry after a lost connection creates no second task
	}
	return req, nil
}

// Scope sets the servers that the task may use, and returns the folder offered to it, or the zero Folder.
func (c *FolderFlags) Scope(ctx context.Context, u *ui.UI, s *discover.Session, req *executorv1.CreateTaskRequest) (discover.Folder, error) {
	server, err := s.Server(ctx)
	switch {
	case err != nil:
		return discover.Folder{}, err
	case !server.Local() && c.Workspace != "":
		return discover.Folder{}, ui.Usagef("--workspace is for a server on this machine, and --server names one that may be elsewhere").
			Then("leave one of them out; pawl mcp list --server … shows the servers there are")
	case !server.Local() || c.NoWorkspace:
		return discover.Folder{}, nil
	case s.Shared() && c.Workspace == "":
		u.Note("with an API key or a login the current folder is not offered to the task; --workspace DIR offers it, to all users of the server")
		return discover.Folder{}, nil
	}
	f, err := s.Workspace(ctx, c.Workspace)
	if err != nil && c.Workspace == "" {
		u.Warn("this folder is not offered to the task: %s (--no-workspace leaves it out without this warning)", ui.AsError(err).Message)
		return discover.Folder{}, nil
	}
	if err != nil {
		return discover.Folder{}, err
	}
	return f, f.Scope(ctx, s, req, c.Workspace != "")
}

// printDetached prints the id of a task that the command does not follow.
func printDetached(u *ui.UI, s *discover.Session, task *executorv1.Task) error {
	if !u.JSON {
		defer u.Note("pawl watch %s%s follows it", ui.ShortID(task.GetId()), s.Flags())
	}
	return u.Result(task, nil, "%s", task.GetId())
}

// language returns the named language, or else Chinese if the locale is Chinese, or else LANGUAGE_UNSPECIFIED: the planner then uses the goal's
// language.
func language(name *string, getenv func(string) string) commonv1.Language {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_MESSAGES"), getenv("LANG"))
	switch {
	case name != nil:
		return ui.EnumValue[commonv1.Language](*name)
	case strings.HasPrefix(locale, "zh"):
		return commonv1.Language_LANGUAGE_ZH
	}
	return commonv1.Language_LANGUAGE_UNSPECIFIED
}

const (
	// maxRateLimitWait bounds the total time that a command waits because of the rate limit.
	maxRateLimitWait = 2 * time.Minute
	// minRetryPause is the shortest pause before a retry.
	minRetryPause = 100 * time.Millisecond
)

// retryRateLimited makes a call that starts a task. If the call is rate-limited, it waits as long as the error says and tries again, for at
// most maxRateLimitWait in all. An interrupt ends the wait.
func retryRateLimited[T any](ctx context.Context, u *ui.UI, call func(context.Context) (T, error)) (T, error) {
	for waited := time.Duration(0); ; {
		result, err := call(ctx)
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED {
			return result, err
		}
		pause := max(errs.From(err).RetryAfter, minRetryPause)
		if waited+pause > maxRateLimitWait {
			return result, err
		}
		if waited == 0 {
			u.Note("%s", "too many requests in a short time; trying again in "+ui.Duration(pause)+" (Ctrl-C leaves)")
		}
		waited += pause
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return result, ctx.Err()
		}
	}
}

// ForkCmd is `pawl fork`.
type ForkCmd struct {
	OneTask
	At        *uint64 `placeholder:"SEQ" help:"Keep the steps up to this event, which must end a step (default: the newest step; if the old task did not succeed, the newest step that succeeded)."`
	Goal      string  `placeholder:"TEXT" help:"The goal of the new task (default: that of the old task)."`
	RequestID string  `name:"request-id" placeholder:"ID" help:"Makes the command repeatable: with the same id it follows the same task instead of creating another."`
	Detach    bool    `short:"d" help:"Print the new task's id and do not wait for it."`
	BudgetFlags
}

// Run forks a task and follows the new one.
func (c *ForkCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if err := c.check(); err != nil {
		return err
	}
	var at uint64 // 0: the default
	if c.At != nil {
		if at = *c.At; at == 0 {
			return ui.Usagef("--at 0 is before the first event").Then("name the end of a step (pawl watch TASK --json shows the numbers), or leave --at out")
		}
	}
	source, err := c.get(ctx, s)
	if err == nil {
		err = checkModel(ctx, s, source)
	}
	if err != nil {
		return err
	}
	req := &executorv1.ForkTaskRequest{Id: source.GetId(), Seq: at, Goal: strings.TrimSpace(c.Goal), RequestId: c.RequestID}
	req.Budget, req.WaitTimeout = c.merge(nil), c.waitTimeout()
	if req.GetRequestId() == "" {
		req.RequestId = uuid.NewString() // so that a retry after a lost connection creates no second fork
	}
	task, err := retryRateLimited(ctx, u, func(ctx context.Context) (*executorv1.Task, error) { return s.Tasks.ForkTask(ctx, req) })
	if err != nil {
		return forkError(err, source.GetId(), s.Flags())
	}
	if c.Detach {
		return printDetached(u, s, task)
	}
	from := task.GetForkedFrom()
	if !u.JSON {
		u.Note("%s", "task "+ui.ShortID(task.GetId())+" goes on from event "+strconv.FormatUint(from.GetSeq(), 10)+" of "+ui.ShortID(from.GetTaskId()))
	}
	t := newWatcher(u, s, task.GetId(), from.GetSeq(), u.Err, s.KnownWorkspace(ctx).TaskAlias)
	t.cancelOnInterrupt = true
	return t.run(ctx)
}

// forkError explains an invalid --at, and how to find the numbers of events.
func forkError(err error, id, flags string) error {
	if !slices.ContainsFunc(errs.From(err).Violations, func(v errs.Violation) bool { return v.Field == "seq" }) {
		return err
	}
	return ui.Usagef("no step of the task ended with that event").
		Then("pawl watch %s%s --json shows the events: give the seq of a STEP_OUTPUT or STEP_ERROR, or leave --at out", ui.ShortID(id), flags)
}

// defaultMaxSteps is the server's default limit of a task's steps.
const defaultMaxSteps = 25

// maxPlaybook is the largest playbook, in bytes, that the services accept.
const maxPlaybook = 256 << 10

// readPlaybook returns the text of a file; `-` is standard input.
func readPlaybook(u *ui.UI, file string) (string, error) {
	in, name := u.In, "on standard input"
	switch {
	case file != "-":
		f, err := os.Open(file)
		if err != nil {
			return "", ui.Errorf("read the playbook: %v", err)
		}
		defer func() { _ = f.Close() }()
		in, name = f, file
	case u.InTTY:
		return "", ui.Usagef("there is no playbook on standard input, which is a terminal").
			Then("pawl run --playbook FILE, or pawl run --playbook - < FILE")
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxPlaybook+1))
	switch text := string(raw); {
	case err != nil:
		return "", ui.Errorf("read the playbook: %v", err)
	case len(text) > maxPlaybook:
		return "", ui.Usagef("the playbook %s has more than %d bytes", name, maxPlaybook).Then("split it into several playbooks")
	case !utf8.ValidString(text):
		return "", ui.Usagef("the playbook %s is not UTF-8 text", name).Then("give a YAML file, saved as UTF-8")
	case strings.TrimSpace(text) == "":
		return "", ui.Usagef("the playbook %s is empty", name).Then("write its steps (docs/playbooks.md)")
	default:
		return text, nil
	}
}

// PlaybookCmd is `pawl playbook`.
type PlaybookCmd struct {
	Check PlaybookCheckCmd `cmd:"" help:"Check a playbook without running it."`
}

// PlaybookCheckCmd is `pawl playbook check`.
type PlaybookCheckCmd struct {
	File string `arg:"" type:"existingfile" help:"The playbook; - is standard input."`
}

// Run checks a playbook and lists the tools that it calls.
func (c *PlaybookCheckCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	text, err := readPlaybook(u, c.File)
	if err != nil {
		return err
	}
	found, err := s.Planner.CheckPlaybook(ctx, &plannerv1.CheckPlaybookRequest{Playbook: text})
	if err != nil {
		return cmp.Or(c.problems(u, err), err)
	}
	if n := found.GetStepCount(); n > defaultMaxSteps {
		u.Warn("a task takes at most %d steps, unless the server or the task's agent allows more; raise --max-steps of the agent (pawl agents) to %d", defaultMaxSteps, n)
	}
	t := u.Table("TOOL")
	for _, tool := range found.GetToolIds() {
		t.Row(tool)
	}
	if !u.JSON {
		u.Say("%s: %s", cmp.Or(found.GetName(), c.File), ui.Plural(int(found.GetStepCount()), "step"))
	}
	return u.List(found, nil, t, "no tools")
}

// problems writes the playbook's problems as JSON if --json is set. It returns only errors of writing.
func (c *PlaybookCheckCmd) problems(u *ui.UI, err error) error {
	wrong := errs.From(err).Violations
	if !u.JSON || len(wrong) == 0 {
		return nil
	}
	list := make([]string, len(wrong))
	for i, v := range wrong {
		list[i] = v.Description
	}
	return u.Document(map[string]any{"problems": list})
}

// inputs returns the playbook's inputs as JSON; "" if none are given. It parses values by the playbook's schema.
func (c *RunCmd) inputs(ctx context.Context, s *discover.Session, playbook string) (string, error) {
	switch {
	case len(c.Input) == 0:
		return c.Inputs, nil
	case playbook == "":
		return "", ui.Usagef("--input is for playbooks").Then("give a playbook with --playbook FILE")
	}
	found, err := s.Planner.CheckPlaybook(ctx, &plannerv1.CheckPlaybookRequest{Playbook: playbook})
	if err != nil {
		return "", err
	}
	inputs, err := ui.ObjectOfPairs(found.GetInputsSchemaJson(), c.Input, false, false)
	if err != nil {
		return "", ui.Usagef("--input: %v", err).Then("--input NAME=VALUE")
	}
	return inputs, nil
}
