package mcpserver

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// postpone makes a task of a call that needs an approval, because the client cannot ask its user. The task waits for the approval as any other, and makes
// the call then. The client gets an error that names it: the call has no result yet.
func (c *call) postpone(refused *errs.Error) error {
	id := c.req.GetMcpId() + "/" + c.req.GetName()
	req := &executorv1.CreateTaskRequest{Goal: "Call " + id + " for an MCP client", McpIds: []string{c.req.GetMcpId()}, AutoExecute: proto.Bool(true), RequestId: c.req.GetCallId()}
	req.Playbook, req.InputsJson = playbookOf(id, c.req.GetInputJson())
	task, err := c.executor.CreateTask(c.Context(), req)
	if err != nil {
		refused.Message += "; the client cannot ask its user (elicitation), and no task could be made that waits for the approval: " + errs.From(err).Message
		return c.replyFailed(refused.Message, refused)
	}
	result := "`pawl show " + task.GetId() + "`"
	if c.server == "" {
		result = "get_task with this task_id"
	}
	text := "The call of " + id + " needs an approval, and your client cannot ask for it. The call was not made: it waits as the task " + task.GetId() + ".\n\n" +
		c.howToAnswer("approve", task.GetId()) + " Then " + result + " has its result. Do not call the tool again."
	return c.replyFailed(text, refused.With("task_id", task.GetId()))
}

// playbookOf returns a playbook that makes one call, and its inputs. The arguments are inputs, so that they stay as they are: none of them is taken for a
// reference.
func playbookOf(toolID, arguments string) (playbook, inputs string) {
	given, err := strictjson.ParseObject(arguments)
	if err != nil {
		given = &strictjson.Object{} // cannot happen: the pool has checked them
	}
	schemas, references, values := &strictjson.Object{}, &strictjson.Object{}, &strictjson.Object{}
	for i, key := range given.Keys() {
		name := fmt.Sprintf("argument%d", i+1)
		value, _ := given.Get(key)
		schemas.Set(name, "true")
		references.Set(key, strictjson.Quote("${inputs."+name+"}"))
		values.Set(name, value)
	}
	doc := map[string]any{
		"steps": []any{map[string]any{"id": "call", "tool": toolID, "input": jsonOf(references.String())}}, "answer": "${call.message}",
	}
	if len(given.Keys()) == 0 {
		return quote(doc), ""
	}
	doc["inputs"] = jsonOf(schemas.String())
	return quote(doc), values.String()
}
