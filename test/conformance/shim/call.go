package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// callsFor returns the calls to make: those that the suite gives, else the call of schemaEcho, else one call of each tool.
func callsFor(s Scenario, tools []*commonv1.Tool) ([]*mcppoolv1.CallToolRequest, error) {
	var calls []*mcppoolv1.CallToolRequest
	for _, c := range s.Given.ToolCalls {
		// In the suite, null means that the argument is absent.
		maps.DeleteFunc(c.Arguments, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
		input, err := json.Marshal(c.Arguments)
		if err != nil {
			return nil, err
		}
		calls = append(calls, &mcppoolv1.CallToolRequest{McpId: serverID, Name: c.Name, InputJson: string(input)})
	}
	if calls != nil {
		return calls, nil
	}
	if echo := schemaEcho(s, tools); echo != nil {
		return []*mcppoolv1.CallToolRequest{echo}, nil
	}
	for _, tool := range tools {
		input, err := filled(tool.GetInputSchemaJson())
		if err != nil {
			return nil, fmt.Errorf("filling in %s: %w", tool.GetName(), err)
		}
		calls = append(calls, &mcppoolv1.CallToolRequest{McpId: serverID, Name: tool.GetName(), InputJson: input})
	}
	return calls, nil
}

// schemaEcho returns a call that sends the suite an input schema as the pool read it; nil if the scenario does not ask for that.
func schemaEcho(s Scenario, tools []*commonv1.Tool) *mcppoolv1.CallToolRequest {
	i := slices.IndexFunc(tools, func(t *commonv1.Tool) bool { return t.GetName() == "json_schema_2020_12_tool" })
	if s.Name != "json-schema-2020-12-preservation" || i < 0 {
		return nil
	}
	return &mcppoolv1.CallToolRequest{McpId: serverID, Name: "json_schema_echo", InputJson: `{"schema":` + tools[i].GetInputSchemaJson() + `}`}
}

// call calls a tool, and answers the questions that the server asks during the call.
func (u *user) call(ctx context.Context, req *mcppoolv1.CallToolRequest) error {
	return u.loggedIn(ctx, func() error {
		u.calls++
		req.CallId = "call/" + strconv.Itoa(u.calls)
		stream, err := u.CallTool(ctx, req)
		for err == nil {
			var m *mcppoolv1.CallToolResponse
			if m, err = stream.Recv(); err != nil {
				break
			}
			if question := m.GetInputRequired(); question != nil {
				err = u.answer(ctx, req.GetCallId(), question)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
}

// answer accepts a question of the server. The pool fills in the form's defaults.
func (u *user) answer(ctx context.Context, callID string, q *mcppoolv1.CallInputRequired) error {
	answer := &mcppoolv1.CallAnswer{InputId: q.GetInputId(), Action: mcppoolv1.CallAnswer_ACTION_ACCEPT}
	if q.GetSchemaJson() != "" {
		var err error
		if answer.ContentJson, err = filled(q.GetSchemaJson()); err != nil {
			return fmt.Errorf("filling in the form: %w", err)
		}
	}
	if _, err := u.AnswerCall(ctx, &mcppoolv1.AnswerCallRequest{CallId: callID, Answer: answer}); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}
