package task

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/privatefile"
)

// The functions below build answers to waits. The sender adds the ids of the task and the wait.

func approve(inputJSON string, grant *executorv1.Grant) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{InputJson: inputJSON, Grant: grant}}}
}

func reject(reason string) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: reason}}}
}

func params(contentJSON, description string) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Params{Params: &executorv1.Params{ContentJson: contentJSON, Description: description}}}
}

func input(action executorv1.InputAnswer_Action, contentJSON string) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Input{Input: &executorv1.InputAnswer{Action: action, ContentJson: contentJSON}}}
}

func unpause() *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}}}
}

func settle(outcome *executorv1.OutcomeAnswer) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Outcome{Outcome: outcome}}
}

func retry() *executorv1.ResumeTaskRequest {
	return settle(&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}})
}

func skip(reason string) *executorv1.ResumeTaskRequest {
	return settle(&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{Reason: reason}}})
}

func outputOf(outputJSON string) *executorv1.ResumeTaskRequest {
	return settle(&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: outputJSON}}})
}

// answerBuilder builds the answer to a wait of a task.
type answerBuilder func(context.Context, *executorv1.Task, *executorv1.Wait) (*executorv1.ResumeTaskRequest, error)

// answer answers a wait of one of these kinds and, without --detach, follows the task to its next stop.
func answer(ctx context.Context, u *ui.UI, s *discover.Session, target AnswerTarget, waitID string, build answerBuilder, kinds ...executorv1.WaitKind) error {
	task, err := target.get(ctx, s)
	if err != nil {
		return err
	}
	id := task.GetId()
	if task, err = awaitStop(ctx, u, s, task); err != nil {
		return err
	}
	if len(task.GetWaits()) == 0 {
		return noWaitError(ctx, s, task)
	}
	wait, err := openWait(task, waitID, s.Flags(), kinds...)
	if err != nil {
		return err
	}
	req, err := build(ctx, task, wait)
	if err != nil {
		return err
	}
	req.Id, req.WaitId = id, wait.GetId()
	resumed, err := resume(ctx, s, task, req)
	if err != nil {
		return err
	}
	if target.Detach {
		noteSeen(u, s, id, wait)
		return showState(u, resumed)
	}
	return newWatcher(u, s, id, task.GetLastSeq(), u.Err, s.KnownWorkspace(ctx).TaskAlias).run(ctx)
}

// questionTimeout is how long an answering command waits for a running task to ask its question.
const questionTimeout = 30 * time.Second

// awaitStop returns the task once it waits, has ended or is being cancelled, or after questionTimeout. So a command that is run right after the
// task's start can answer its first question.
func awaitStop(ctx context.Context, u *ui.UI, s *discover.Session, task *executorv1.Task) (*executorv1.Task, error) {
	if stopped(task) || task.GetCancelRequested() {
		return task, nil
	}
	if !u.JSON {
		u.Note("task %s has no question yet; waiting for one", ui.ShortID(task.GetId()))
	}
	waiting, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	result, err := await(waiting, s, task, isStop)
	if err != nil && ctx.Err() == nil { // the caller reports the task's present state
		return s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: task.GetId()})
	}
	return result, err
}

// noWaitError returns the error for an answer to a task that waits for nothing. It names the tasks that wait.
func noWaitError(ctx context.Context, s *discover.Session, task *executorv1.Task) error {
	const named = 5
	list, err := s.Tasks.ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: named, Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING}})
	if err != nil {
		return err
	}
	var waiting []string
	for _, t := range list.GetTasks() {
		waiting = append(waiting, ui.ShortID(t.GetId())+" ("+ui.Fit(ui.Line(cmp.Or(t.GetGoal(), t.GetName())), 40)+")")
	}
	id := ui.ShortID(task.GetId())
	none := ui.Errorf("task %s waits for nothing; it is %s", id, ui.StateName(task))
	if len(waiting) == 0 {
		return none.Then("pawl show %s%s", id, s.Flags())
	}
	if list.GetNextPageToken() != "" {
		waiting = append(waiting, "…")
	}
	return none.Then("name a task that waits: %s; pawl show TASK%s shows its question", strings.Join(waiting, ", "), s.Flags())
}

// openWait returns the task's open wait of one of these kinds: the one with the id waitID, or the only one if waitID is "".
func openWait(task *executorv1.Task, waitID, flags string, kinds ...executorv1.WaitKind) (*executorv1.Wait, error) {
	id := ui.ShortID(task.GetId())
	waits := slices.DeleteFunc(slices.Clone(task.GetWaits()), func(w *executorv1.Wait) bool {
		return waitID != "" && w.GetId() != waitID
	})
	fits := slices.DeleteFunc(slices.Clone(waits), func(w *executorv1.Wait) bool { return !slices.Contains(kinds, w.GetKind()) })
	switch {
	case len(waits) == 0:
		return nil, ui.Errorf("task %s has no open wait %s", id, ui.Line(waitID)).Then("pawl show %s%s lists its waits", id, flags)
	case len(fits) == 0:
		return nil, wrongKindError(id, waits[0], kinds[0], flags)
	case len(fits) > 1:
		return nil, ui.Errorf("task %s has %d open waits: %s", id, len(fits), strings.Join(waitIDs(fits), ", ")).
			Then("name the wait too; pawl show %s%s shows each of them", id, flags)
	}
	return fits[0], nil
}

// wrongKindError returns an error with the commands that answer a wait.
func wrongKindError(id string, wait *executorv1.Wait, want executorv1.WaitKind, flags string) error {
	commands := make([]string, 0, 4)
	for _, w := range nextCommands(id, wait, flags) {
		commands = append(commands, w.command)
	}
	return ui.Errorf("task %s waits %s, not %s", id, waitPhrase(wait.GetKind()), waitPhrase(want)).Then("%s", strings.Join(commands, ", or "))
}

// resume sends an answer. It first checks the task's model: with a model that does not work, the tool would run, and then the task would fail.
func resume(ctx context.Context, s *discover.Session, task *executorv1.Task, req *executorv1.ResumeTaskRequest) (*executorv1.Task, error) {
	if req.GetReject() == nil {
		if err := checkModel(ctx, s, task); err != nil {
			return nil, err
		}
	}
	return s.Tasks.ResumeTask(ctx, req)
}

// checkModel returns an error if the server runs in this process and cannot use the task's model.
func checkModel(ctx context.Context, s *discover.Session, task *executorv1.Task) error {
	if !s.Embedded() {
		return nil
	}
	_, err := s.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{Name: task.GetModel()})
	if err == nil {
		return nil
	}
	return ui.WrapError(err, "task %s would go on inside this command, where its model does not work: %s", ui.ShortID(task.GetId()), ui.AsError(err).Message).
		Then("make the model work here, or start pawl up where it works, then repeat the command; nothing was answered or run")
}

// showState prints the state of a task that the command does not follow.
func showState(u *ui.UI, task *executorv1.Task) error {
	return u.Result(task, nil, "task %s is %s", ui.ShortID(task.GetId()), u.OutStyle().StatusStyle(ui.StateName(task)))
}

// answersFile is a file in the data folder. For each task answered with --detach, it holds the time of the newest wait that the person has seen.
const answersFile = "answers.json"

// maxAnswers is the largest number of tasks in the file; the oldest ones are dropped.
const maxAnswers = 1000

// readAnswers returns the path and contents of the file. A file that is missing or unreadable counts as empty.
func readAnswers(s *discover.Session) (path string, answers map[string]time.Time, err error) {
	dir, err := s.Config().Dir()
	if err != nil {
		return "", nil, err
	}
	path, answers = filepath.Join(dir, answersFile), map[string]time.Time{}
	if raw, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(raw, &answers)
	}
	return path, answers, nil
}

// noteSeen records that a person has seen the waits of a task.
func noteSeen(u *ui.UI, s *discover.Session, taskID string, waits ...*executorv1.Wait) {
	path, answers, err := readAnswers(s)
	if err == nil {
		for _, wait := range waits {
			if t := wait.GetCreateTime().AsTime(); t.After(answers[taskID]) {
				answers[taskID] = t
			}
		}
		ids := slices.Sorted(maps.Keys(answers)) // oldest first: an id begins with the time
		for _, id := range ids[:max(len(ids)-maxAnswers, 0)] {
			delete(answers, id)
		}
		err = cmp.Or(os.MkdirAll(filepath.Dir(path), 0o700), privatefile.Write(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(answers) }))
	}
	if err != nil {
		u.Warn("the questions that you have seen could not be recorded: %v; name the wait in your next answer, else it may answer a question that was not shown", err)
	}
}

// noteShown records that the waits of a task were shown, if the task was answered with --detach before.
func noteShown(u *ui.UI, s *discover.Session, task *executorv1.Task) {
	if _, answers, err := readAnswers(s); err == nil && !answers[task.GetId()].IsZero() {
		noteSeen(u, s, task.GetId(), task.GetWaits()...)
	}
}

// checkShown returns an error if the person cannot have seen the wait: it is newer than the command, or than the task's entry in answersFile.
func checkShown(s *discover.Session, task *executorv1.Task, wait *executorv1.Wait, commandStart time.Time) error {
	_, answers, err := readAnswers(s)
	if err != nil {
		return err
	}
	asked, seen := wait.GetCreateTime().AsTime(), answers[task.GetId()]
	if !asked.After(commandStart) && (seen.IsZero() || !asked.After(seen)) {
		return nil
	}
	id := ui.ShortID(task.GetId())
	return ui.Errorf("task %s asks something new, about %s %s; it was not shown, so it is not answered", id, ui.Line(wait.GetToolId()), ui.CompactJSON(wait.GetInputJson())).
		Then("%s", nextCommands(id, wait, s.Flags())[0].command)
}

const (
	waitApproval = executorv1.WaitKind_WAIT_KIND_APPROVAL
	waitParams   = executorv1.WaitKind_WAIT_KIND_PARAMS
	waitOutcome  = executorv1.WaitKind_WAIT_KIND_OUTCOME
	waitPause    = executorv1.WaitKind_WAIT_KIND_PAUSE
	waitInput    = executorv1.WaitKind_WAIT_KIND_INPUT
	waitPlan     = executorv1.WaitKind_WAIT_KIND_PLAN
)

// waitPhrase completes the phrase "task X waits …".
func waitPhrase(kind executorv1.WaitKind) string {
	return cmp.Or(map[executorv1.WaitKind]string{
		waitParams: "for parameters", waitOutcome: "for a decision on a call whose outcome is unknown", waitPause: "to be unpaused", waitInput: "for input to its MCP server", waitPlan: "for approval of its plan",
	}[kind], "for approval")
}

// nextCommands returns the commands that answer a wait, each with flags at its end.
func nextCommands(taskID string, wait *executorv1.Wait, flags string) []nextCommand {
	next := func(command, args, means string) nextCommand {
		return nextCommand{command: "pawl " + command + " " + taskID + args + flags, means: means}
	}
	waitID := " " + wait.GetId()
	switch wait.GetKind() {
	case waitParams:
		return []nextCommand{next("params", paramsHint(wait), "")}
	case waitOutcome:
		reject := "cancel the task"
		if wait.GetRejectFailsStep() {
			reject = "give the step up; the subtask goes on without it"
		}
		return []nextCommand{
			next("outcome", waitID+" --retry", "call it again; its effect may happen twice"),
			next("outcome", waitID+" --output JSON", "it ran, with this result"),
			next("outcome", waitID+" --skip REASON", "go on without it"),
			next("reject", waitID, reject),
		}
	case waitPause:
		return []nextCommand{next("unpause", "", "")}
	case waitPlan:
		return []nextCommand{
			next("approve", waitID, "start work on the plan"), next("approve", waitID+" --edit", "change it first"), next("reject", waitID, "do not start; the task is cancelled"),
		}
	case waitInput:
		if wait.GetUrl() != "" {
			return []nextCommand{next("input", " --done", "you opened it and did what the page asks"), next("input", " --decline", "decline; the tool goes on without an answer")}
		}
		return []nextCommand{next("input", paramsHint(wait), ""), next("input", " --decline", "decline; the tool goes on without an answer")}
	}
	return []nextCommand{next("approve", waitID, ""), next("reject", waitID, rejectionText(wait))}
}

// AnswerCommand returns the command that answers a wait.
func AnswerCommand(taskID string, wait *executorv1.Wait, flags string) string {
	return nextCommands(ui.ShortID(taskID), wait, flags)[0].command
}

// waitFlag returns " --wait ID" if wait is one of several open input waits, else "".
func waitFlag(task *executorv1.Task, wait *executorv1.Wait) string {
	isOther := func(w *executorv1.Wait) bool { return w.GetKind() == waitInput && w.GetId() != wait.GetId() }
	if wait.GetKind() == waitInput && slices.ContainsFunc(task.GetWaits(), isOther) {
		return " --wait " + wait.GetId()
	}
	return ""
}

// waitText says what a task waits for; tool is the name of the tool as it is shown.
func waitText(st ui.Style, tool string, wait *executorv1.Wait) string {
	switch wait.GetKind() {
	case waitParams:
		return tool + " waits for parameters" + reasonText(wait.GetMessage())
	case waitOutcome:
		return tool + " was called, and it is not known whether it ran" + reasonText(wait.GetMessage())
	case waitInput:
		return tool + " asks" + reasonText(wait.GetMessage())
	case waitPlan:
		return "the plan waits for approval"
	case waitPause:
		return "the task is paused" + reasonText(strings.TrimPrefix(wait.GetMessage(), "paused"))
	}
	return tool + " waits for approval" + st.Yellow(riskText(", ", wait.GetRisk()))
}

// printNextCommands prints the commands that answer the task's waits. With --json it also describes the waits, because the events went to stdout.
func printNextCommands(ctx context.Context, u *ui.UI, s *discover.Session, task *executorv1.Task) {
	st := u.ErrStyle()
	lost := false
	for _, wait := range openWaits(task) {
		if u.JSON || wait.GetSubtaskId() != "" { // several waits may be open
			u.Eprintf("%s %s\n", st.Yellow("⏸"), joined(" ", waitText(st, ui.Line(tag(wait.GetSubtaskId())+wait.GetToolId()), wait), ui.Line(wait.GetUrl())))
		}
		if endsWithCommand(wait, s.Embedded()) {
			lost = true
			continue
		}
		if input := wait.GetInputJson(); input != "" && input != "{}" && wait.GetKind() != waitInput {
			diff, _ := inputDiff(ctx, s, st, wait.GetToolId(), input, 0)
			u.Eprintf("    input:\n%s", cmp.Or(diff, ui.PrettyJSON(input, "    ")+"\n"))
		}
		u.Eprintf("%s", nextCommandsText(st, nextCommands(task.GetId(), wait, waitFlag(task, wait)+s.Flags())))
	}
	if lost {
		u.Note(cannotAnswerLater)
	}
}

// cannotAnswerLater explains why a server's question cannot be answered later, and what to do instead.
const cannotAnswerLater = "the question ends with this command, because the tool call runs in it: it cannot be answered later; " +
	"start pawl up in another terminal, then run the task again here"

// endsWithCommand reports whether a question ends with this process, because the call runs in it.
func endsWithCommand(wait *executorv1.Wait, embedded bool) bool {
	return embedded && wait.GetKind() == waitInput
}

// printLaterHint prints how to answer a wait that stays open.
func printLaterHint(u *ui.UI, s *discover.Session, taskID string, wait *executorv1.Wait) {
	if endsWithCommand(wait, s.Embedded()) {
		u.Note(cannotAnswerLater)
		return
	}
	id := ui.ShortID(taskID)
	u.Note("the task waits; go on with %s, or see pawl show %s%s", nextCommands(id, wait, s.Flags())[0].command, id, s.Flags())
}

// nextCommand is a command that answers a wait.
type nextCommand struct {
	command string
	means   string // its explanation; may be empty
}

// nextCommandsText lists the commands one per line, with their explanations in a second column.
func nextCommandsText(st ui.Style, commands []nextCommand) string {
	widest := 0
	for _, w := range commands {
		if w.means != "" {
			widest = max(widest, ui.Width(w.command))
		}
	}
	var b strings.Builder
	for i, w := range commands {
		head := "        "
		if i == 0 {
			head = "  " + st.Dim("next:") + " "
		}
		b.WriteString(head + w.command)
		if w.means != "" {
			b.WriteString(strings.Repeat(" ", widest-ui.Width(w.command)) + "  " + st.Dim(w.means))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// openWaits returns the task's open waits. If the task is paused and none of them is for the pause, openWaits adds a wait for it.
func openWaits(task *executorv1.Task) []*executorv1.Wait {
	waits := task.GetWaits()
	pause := func(w *executorv1.Wait) bool { return w.GetKind() == executorv1.WaitKind_WAIT_KIND_PAUSE }
	if task.GetPauseRequested() && len(waits) > 0 && !slices.ContainsFunc(waits, pause) {
		return append(slices.Clone(waits), &executorv1.Wait{Kind: executorv1.WaitKind_WAIT_KIND_PAUSE})
	}
	return waits
}

// paramsHint returns the arguments for answering a wait with `pawl params` or `pawl input`, such as " city=… [country=…]". Optional arguments
// are in brackets, except those of `pawl params` if all are optional.
func paramsHint(wait *executorv1.Wait) string {
	fields, err := ui.Fields(wait.GetParamsSchemaJson())
	if err != nil || len(fields) == 0 {
		return " NAME=VALUE"
	}
	hasRequired := slices.ContainsFunc(fields, func(f ui.Field) bool { return f.Required })
	var b strings.Builder
	for _, f := range fields {
		pair := ui.Line(f.Name) + "=…"
		if !f.Required && (hasRequired || wait.GetKind() == waitInput) {
			pair = "[" + pair + "]"
		}
		b.WriteString(" " + pair)
	}
	return b.String()
}

// paramLines describes the requested parameters, one per line.
func paramLines(wait *executorv1.Wait) []string {
	fields, err := ui.Fields(wait.GetParamsSchemaJson())
	if err != nil || len(fields) == 0 {
		return []string{ui.Line(wait.GetParamsSchemaJson())}
	}
	lines := make([]string, len(fields))
	for i, f := range fields {
		kind := f.Kind()
		if f.Required {
			kind = strings.TrimPrefix(kind+"; required", "; ")
		}
		lines[i] = strings.TrimSpace(ui.Line(f.Name + " (" + kind + ") " + f.Description))
	}
	return lines
}
