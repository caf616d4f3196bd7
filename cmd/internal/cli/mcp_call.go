package cli

import (
	"context"
	"errors"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	"pawl.dev/cmd/internal/values"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// MCPCallCmd is `pawl mcp call`.
type MCPCallCmd struct {
	Tool  string   `arg:"" help:"The tool, as server/tool; or the server, and the tool's name behind it."`
	Args  []string `arg:"" optional:"" name:"name=value" help:"The input, value by value; or the tool's name, then the values."`
	Input string   `short:"i" placeholder:"JSON|@FILE" help:"The input as a JSON object."`

	Answer  string `xor:"answer" placeholder:"JSON|@FILE" help:"What is answered where the tool's server asks for something (default: you are asked at a terminal)."`
	Decline bool   `xor:"answer" help:"Say no where the tool's server asks for something; the tool goes on without."`
}

// Help is shown by --help.
func (MCPCallCmd) Help() string {
	return `The tool is called at once, without a task and without asking: what it does is done. Values are read by the tool's schema.
Progress and log messages go to standard error, the result to standard output. Ctrl-C cancels the call. What the tool's server
asks for in the middle of the call is asked at a terminal; what you answer goes to that server. Without a terminal, --answer or
--decline, the server is told that nobody answered, and the command fails.

Examples:

    pawl mcp call workspace/search_code query=TODO
    pawl mcp call workspace list_directory path=src
    pawl mcp call files/write_file --input '{"path": "a.txt", "content": "hello"}'
    pawl mcp call files/write_file --input @input.json --json
    pawl mcp call travel/book to=Bern --answer '{"class": "second"}'`
}

// Run calls a tool.
func (c *MCPCallCmd) Run(ctx context.Context, a *App, g *Globals) error {
	id, name, args, err := c.target()
	if err != nil {
		return err
	}
	input, err := jsonArg("input", c.Input)
	if err != nil {
		return err
	}
	if input != "" && len(args) > 0 {
		return exit.Usagef("the input is given twice, as values and with --input").Then("use one of the two")
	}
	given, err := c.given()
	if err != nil {
		return err
	}
	return a.withPool(ctx, g, func(ctx context.Context, session *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		f, err := a.meantFolder(ctx, g, session, id)
		if err != nil {
			return err
		}
		id := f.real(id)
		if len(args) > 0 {
			if input, err = inputOf(ctx, pool, id, name, args); err != nil {
				return err
			}
		}
		err = a.directCall(g, pool, c.server(), f.alias, given).
			run(ctx, &mcppoolv1.CallToolRequest{McpId: id, Name: name, InputJson: input})
		if errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT {
			return exit.From(err).Then("pawl mcp tools %s/%s%s shows what the tool takes", c.server(), name, g.again())
		}
		return err
	})
}

// given is the answer of the command line to what the server asks; nil where there is none.
func (c *MCPCallCmd) given() (*mcppoolv1.CallAnswer, error) {
	content, err := jsonArg("answer", c.Answer)
	switch {
	case err != nil:
		return nil, err
	case c.Decline:
		return &mcppoolv1.CallAnswer{Action: mcppoolv1.CallAnswer_ACTION_DECLINE}, nil
	case content != "":
		return &mcppoolv1.CallAnswer{Action: mcppoolv1.CallAnswer_ACTION_ACCEPT, ContentJson: content}, nil
	}
	return nil, nil
}

// server is what the command line calls the server.
func (c *MCPCallCmd) server() string {
	id, _, _ := strings.Cut(c.Tool, "/")
	return id
}

// target takes the words of the command line apart.
func (c *MCPCallCmd) target() (id, name string, args []string, err error) {
	id, name, found := strings.Cut(c.Tool, "/")
	args = c.Args
	if !found && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if id == "" || name == "" {
		return "", "", nil, exit.Usagef("%q names no tool", c.Tool).Then("pawl mcp call SERVER/TOOL; pawl mcp tools lists them")
	}
	return id, name, args, nil
}

// inputOf reads values by the tool's schema. Without one, of a tool that is not listed, the call itself says what is the matter.
func inputOf(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, id, name string, args []string) (string, error) {
	tool, err := findTool(ctx, pool, id, name)
	if err != nil && !errors.Is(err, errNotListed) {
		return "", err
	}
	input, err := values.Object(tool.GetInputSchemaJson(), args, false, false)
	if err != nil {
		return "", exit.Usagef("%v", err).Then("pawl mcp tools %s/%s shows what the tool takes", id, name)
	}
	return input, nil
}

func (a *App) showResult(g *Globals, result *mcppoolv1.CallResult) error {
	if !g.JSON {
		if err := render.CallResult(a.Console.Out, a.Console.OutTTY, result); err != nil {
			return err
		}
	}
	if !result.GetIsError() {
		return nil
	}
	if !g.JSON {
		a.eprintf("%s\n", a.errStyle().Red("✗ the tool says that it failed"))
	}
	return exit.Silent(exit.Failed)
}
