package call

import (
	"context"
	"encoding/json"
	"fmt"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/strictjson"
)

// maxValues is how many completions MCP allows in one answer.
const maxValues = 100

func aboutPrompt(name string) subject {
	return subject{
		what: fmt.Sprintf("prompt %.200q", name), missing: commonv1.ErrorReason_ERROR_REASON_PROMPT_NOT_FOUND,
		has: func(c mcp.Capabilities) bool { return c.Prompts }, offering: "prompts",
	}
}

// Prompt returns a prompt with its places filled in.
func (c *Caller) Prompt(ctx context.Context, use conn.Use, name string, arguments map[string]string) (*mcppoolv1.GetPromptResponse, error) {
	var raw json.RawMessage
	err := c.offered(ctx, use, aboutPrompt(name), func(ctx context.Context, o mcp.Offers) (err error) {
		raw, err = o.GetPrompt(ctx, name, arguments)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := c.small(use.Server, "prompt", raw); err != nil {
		return nil, err
	}
	out, err := readMessages(raw)
	if err != nil {
		return nil, unreadable(use.Server, "prompt", err)
	}
	return out, nil
}

// readMessages reads a raw prompts/get result.
func readMessages(raw json.RawMessage) (*mcppoolv1.GetPromptResponse, error) {
	messages, fields, err := partsOf(raw, "messages")
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.GetPromptResponse{}
	if err := members(fields, member{"description", &out.Description}); err != nil {
		return nil, err
	}
	cleanAll(&out.Description)
	for i, message := range messages {
		m, err := readMessage(message)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		out.Messages = append(out.Messages, m)
	}
	return out, nil
}

func readMessage(raw json.RawMessage) (*mcppoolv1.PromptMessage, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.PromptMessage{}
	if err := members(fields, member{"role", &out.Role}); err != nil {
		return nil, err
	}
	if out.Role != "user" && out.Role != "assistant" {
		return nil, fmt.Errorf("its role %.40q is neither user nor assistant", out.Role)
	}
	out.Content, err = readContent(fields["content"])
	return out, err
}

// ReadPrompt reads an entry of prompts/list.
func ReadPrompt(raw json.RawMessage) (*mcppoolv1.Prompt, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.Prompt{}
	var arguments []json.RawMessage
	err = members(fields, member{"name", &out.Name}, member{"title", &out.Title}, member{"description", &out.Description},
		member{"arguments", &arguments})
	if err != nil {
		return nil, err
	}
	if len(arguments) > maxParts {
		return nil, fmt.Errorf("it has more than %d arguments", maxParts)
	}
	for _, a := range arguments {
		argument, err := readArgument(a)
		if err != nil {
			return nil, fmt.Errorf("an argument of it: %w", err)
		}
		out.Arguments = append(out.Arguments, argument)
	}
	cleanAll(&out.Name, &out.Title, &out.Description)
	return out, named("name", out.Name)
}

func readArgument(raw json.RawMessage) (*mcppoolv1.PromptArgument, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.PromptArgument{}
	err = members(fields, member{"name", &out.Name}, member{"description", &out.Description}, member{"required", &out.Required})
	if err != nil {
		return nil, err
	}
	cleanAll(&out.Name, &out.Description)
	return out, named("name", out.Name)
}

// Complete says how an argument may go on.
func (c *Caller) Complete(ctx context.Context, use conn.Use, what mcp.Completion) (*mcppoolv1.CompleteResponse, error) {
	about := aboutPrompt(what.Prompt)
	if what.URITemplate != "" {
		about = aboutResource(what.URITemplate)
	}
	about.has, about.offering = func(c mcp.Capabilities) bool { return c.Completions }, "completions"
	var raw json.RawMessage
	err := c.offered(ctx, use, about, func(ctx context.Context, o mcp.Offers) (err error) {
		raw, err = o.Complete(ctx, what)
		return err
	})
	if err != nil {
		return nil, err
	}
	out, err := readCompletion(raw)
	if err != nil {
		return nil, unreadable(use.Server, "completion", err)
	}
	return out, nil
}

// readCompletion reads a raw completion/complete result. What is above MCP's own limit is left out.
func readCompletion(raw json.RawMessage) (*mcppoolv1.CompleteResponse, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	if fields, err = strictjson.MemberMap(fields["completion"]); err != nil {
		return nil, fmt.Errorf("`completion`: %w", err)
	}
	out := &mcppoolv1.CompleteResponse{}
	var total float64
	if err := members(fields, member{"values", &out.Values}, member{"total", &total}, member{"hasMore", &out.HasMore}); err != nil {
		return nil, err
	}
	if total > 0 && total < 1<<32 {
		out.Total = uint32(total)
	}
	if len(out.Values) > maxValues {
		out.Values, out.HasMore = out.Values[:maxValues], true
	}
	for i := range out.Values {
		out.Values[i] = clean(out.Values[i])
	}
	return out, nil
}
