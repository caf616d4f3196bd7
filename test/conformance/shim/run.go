package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// user is a person with a pool and a browser.
type user struct {
	*pool
	log   *slog.Logger
	calls int // made so far
}

// Run lists the server's tools, makes the calls of callsFor, and reads the resources and prompts. It goes on after a failed call, and returns
// all errors at the end.
func Run(ctx context.Context, s Scenario, log *slog.Logger) (err error) {
	p, err := open(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.register(ctx, s); err != nil {
		return fmt.Errorf("registering the server: %w", err)
	}
	u := &user{pool: p, log: log}
	tools, err := u.tools(ctx)
	if err != nil {
		return fmt.Errorf("listing the tools: %w", err)
	}
	calls, err := callsFor(s, tools)
	if err != nil {
		return err
	}
	var failed []error
	for _, c := range calls {
		if err := u.call(ctx, c); err != nil {
			failed = append(failed, fmt.Errorf("calling %s: %w", c.GetName(), err))
		}
	}
	return errors.Join(append(failed, u.readAll(ctx), u.promptAll(ctx))...)
}

func (u *user) tools(ctx context.Context) ([]*commonv1.Tool, error) {
	var list *mcppoolv1.ListToolsResponse
	err := u.loggedIn(ctx, func() (err error) {
		list, err = u.ListTools(ctx, &mcppoolv1.ListToolsRequest{McpId: serverID})
		return err
	})
	for _, tool := range list.GetTools() {
		u.log.InfoContext(ctx, "tool", "name", tool.GetName())
	}
	return list.GetTools(), err
}

// readAll reads every resource.
func (u *user) readAll(ctx context.Context) error {
	list, err := u.ListResources(ctx, &mcppoolv1.ListResourcesRequest{McpId: serverID})
	if err != nil {
		return ignoreUnsupported(err)
	}
	for _, r := range list.GetResources() {
		if _, err := u.ReadResource(ctx, &mcppoolv1.ReadResourceRequest{McpId: serverID, Uri: r.GetUri()}); err != nil {
			return fmt.Errorf("reading %s: %w", r.GetUri(), err)
		}
	}
	return nil
}

// promptAll gets every prompt.
func (u *user) promptAll(ctx context.Context) error {
	list, err := u.ListPrompts(ctx, &mcppoolv1.ListPromptsRequest{McpId: serverID})
	if err != nil {
		return ignoreUnsupported(err)
	}
	for _, p := range list.GetPrompts() {
		arguments := make(map[string]string)
		for _, a := range p.GetArguments() {
			arguments[a.GetName()] = "x"
		}
		if _, err := u.GetPrompt(ctx, &mcppoolv1.GetPromptRequest{McpId: serverID, Name: p.GetName(), Arguments: arguments}); err != nil {
			return fmt.Errorf("getting the prompt %s: %w", p.GetName(), err)
		}
	}
	return nil
}

// ignoreUnsupported returns nil if a server does not support the method, else err.
func ignoreUnsupported(err error) error {
	switch status.Code(err) {
	case codes.Unimplemented, codes.FailedPrecondition:
		return nil
	}
	return err
}
