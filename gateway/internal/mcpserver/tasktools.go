package mcpserver

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// ownDefinitions are the definitions of Pawl's own tools, by name. A tool of a server has the separator in its name, so no two are the same.
//
//go:embed tools.json
var ownDefinitions string

// ownTools are Pawl's own tools at Path.
var ownTools = map[string]func(*request) error{
	"cancel_task": ownTool((*request).cancelTask),
	"get_task":    ownTool((*request).getTask),
	"list_tasks":  ownTool((*request).listTasks),
	"resume_task": ownTool((*request).resumeTask),
	"run_task":    ownTool((*request).runTask),
}

// ownTool reads the arguments of a tool. An error that concerns the call, not the transport, becomes a result that a model can read.
func ownTool[A any](do func(*request, A) error) func(*request) error {
	return func(q *request) error {
		var arguments A
		given := cmp.Or(string(q.params["arguments"]), "{}")
		err := json.Unmarshal([]byte(given), &arguments, json.RejectUnknownMembers(true))
		if err != nil {
			err = errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, "%s; see the tool's input schema", misfit(err))
		} else {
			err = do(q, arguments)
		}
		e := errs.From(err)
		if _, own := err.(*rpcError); err == nil || own || statusOf(e) != 0 || q.Context().Err() != nil { //nolint:errorlint // they are never wrapped
			return err
		}
		return q.replyFailed(e.Message, e)
	}
}

// misfit says which argument does not fit.
func misfit(err error) string {
	var at *json.SemanticError
	switch {
	case !errors.As(err, &at):
		return "the arguments cannot be read: " + err.Error()
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Sprintf("there is no argument %q", at.JSONPointer.LastToken())
	case at.JSONPointer == "":
		return "the arguments are not an object"
	}
	return fmt.Sprintf("the argument %q must not be a %s", at.JSONPointer.LastToken(), at.JSONKind)
}

type runArguments struct {
	Goal      string   `json:"goal"`
	Agent     string   `json:"agent"`
	Servers   []string `json:"servers"`
	RequestID string   `json:"request_id"`
}

// runTask creates a task and follows it, or returns it as an MCP task. Without an agent, whose policy counts, a person approves steps by risk: as for
// calls of tools here. A request that is repeated within its session, or with the same request_id, follows the same task.
func (q *request) runTask(a runArguments) error {
	if q.modern && q.state != "" {
		return q.continueTask()
	}
	req := &executorv1.CreateTaskRequest{Goal: a.Goal, AgentId: a.Agent, McpIds: a.Servers, RequestId: cmp.Or(a.RequestID, q.callID(q.id))}
	if a.Agent == "" {
		req.AutoExecute = proto.Bool(true)
	}
	task, err := q.executor.CreateTask(q.Context(), req)
	if err != nil {
		return err
	}
	created := &executorv1.Task{Id: task.GetId(), CreateTime: task.GetCreateTime(), UpdateTime: task.GetUpdateTime()} // MCP tasks begin as working
	switch {
	case q.modern && q.client.Tasks:
		return q.reply(quote(q.mcpTask(created, map[string]any{"resultType": "task"})))
	case !q.modern && q.params.has("task"):
		return q.reply(quote(map[string]any{"task": q.mcpTask(created, nil)}))
	}
	return q.newTaskCall(task.GetId(), true).follow()
}

type resumeArguments struct {
	TaskID string         `json:"task_id"`
	Values jsontext.Value `json:"values"`
}

// resumeTask answers what a model may answer, the parameters of a step, and follows the task. Approvals are given by the client's user.
func (q *request) resumeTask(a resumeArguments) error {
	switch {
	case q.modern && q.state != "":
		return q.continueTask()
	case a.TaskID == "":
		return noTaskID()
	}
	c := q.newTaskCall(a.TaskID, false)
	if a.Values != nil {
		task, err := q.executor.GetTask(q.Context(), &executorv1.GetTaskRequest{Id: a.TaskID})
		if err != nil {
			return err
		}
		for _, w := range task.GetWaits() {
			if w.GetKind() == executorv1.WaitKind_WAIT_KIND_PARAMS {
				c.asked[w.GetId()] = true
				if err := q.answerWait(task, w.GetId(), accepted, string(a.Values)); err != nil {
					return err
				}
				break
			}
		}
		if len(c.asked) == 0 {
			return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, "the task %s does not wait for parameters; leave `values` out", a.TaskID)
		}
	}
	return c.follow()
}

type taskArguments struct {
	TaskID string `json:"task_id"`
	Reason string `json:"reason"`
}

func noTaskID() error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, "the argument task_id is missing; list_tasks lists your tasks")
}

func (q *request) cancelTask(a taskArguments) error {
	if a.TaskID == "" {
		return noTaskID()
	}
	task, err := q.executor.CancelTask(q.Context(), &executorv1.CancelTaskRequest{Id: a.TaskID, Reason: a.Reason})
	if err != nil {
		return err
	}
	return q.replyStructured(viewOf(task))
}

func (q *request) getTask(a struct {
	TaskID string `json:"task_id"`
},
) error {
	if a.TaskID == "" {
		return noTaskID()
	}
	task, err := q.executor.GetTask(q.Context(), &executorv1.GetTaskRequest{Id: a.TaskID})
	if err != nil {
		return err
	}
	return q.replyStructured(viewOf(task))
}

type listArguments struct {
	Status    string `json:"status"`
	Limit     int32  `json:"limit"`
	PageToken string `json:"page_token"`
}

func (q *request) listTasks(a listArguments) error {
	if a.Limit < 0 {
		return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, "the argument limit is %d; use 1 to 100", a.Limit)
	}
	req := &executorv1.ListTasksRequest{PageSize: min(cmp.Or(a.Limit, 20), 100), PageToken: a.PageToken}
	if a.Status != "" {
		status, ok := executorv1.ExecutorStatus_value["EXECUTOR_STATUS_"+strings.ToUpper(a.Status)]
		if !ok {
			return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, "the status %.40q is not known", a.Status)
		}
		req.Statuses = []executorv1.ExecutorStatus{executorv1.ExecutorStatus(status)}
	}
	page, err := q.executor.ListTasks(q.Context(), req)
	if err != nil {
		return err
	}
	views := make([]any, 0, len(page.GetTasks()))
	for _, task := range page.GetTasks() {
		views = append(views, viewOf(task))
	}
	result := map[string]any{"tasks": views}
	if page.GetNextPageToken() != "" {
		result["next_page_token"] = page.GetNextPageToken()
	}
	return q.replyStructured(result)
}

// replyStructured answers with structured content, and the same as text for clients that do not read it.
func (q *request) replyStructured(content any) error {
	text := quote(content)
	return q.reply(quote(map[string]any{"content": textContent(text), "structuredContent": jsonOf(text)}))
}

func textContent(text string) []any { return []any{map[string]string{"type": "text", "text": text}} }

// viewOf describes a task for a model.
func viewOf(task *executorv1.Task) map[string]any {
	view := map[string]any{
		"task_id": task.GetId(), "goal": task.GetGoal(), "status": statusName(task), "steps": task.GetStepCount(),
		"created": task.GetCreateTime().AsTime().Format(time.RFC3339),
	}
	for key, text := range map[string]string{"agent": task.GetAgentId(), "answer": task.GetFullAnswer(), "error": task.GetError().GetErrMsg(), "reason": task.GetStatusReason()} {
		if text != "" {
			view[key] = text
		}
	}
	if len(task.GetWaits()) > 0 {
		waits := make([]any, 0, len(task.GetWaits()))
		for _, w := range task.GetWaits() {
			wait := map[string]any{"wait_id": w.GetId(), "kind": strings.ToLower(strings.TrimPrefix(w.GetKind().String(), "WAIT_KIND_")), "question": questionOf(w)}
			if schema := w.GetParamsSchemaJson(); schema != "" {
				wait["schema"] = jsonOf(strictjson.Compact(schema))
			}
			waits = append(waits, wait)
		}
		view["waits"] = waits
	}
	return view
}

func statusName(task *executorv1.Task) string {
	return strings.ToLower(strings.TrimPrefix(task.GetStatus().String(), "EXECUTOR_STATUS_"))
}
