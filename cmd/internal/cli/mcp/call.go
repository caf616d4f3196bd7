package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// CallCmd is `pawl mcp call`.
type CallCmd struct {
	Tool  string   `arg:"" complete:"tool" help:"The tool, as server/tool; or the server, and the tool's name behind it."`
	Args  []string `arg:"" optional:"" name:"name=value" help:"The input, value by value; or the tool's name, then the values."`
	Input string   `short:"i" placeholder:"JSON|@FILE" help:"The input as a JSON object."`

	Answer  string `xor:"answer" placeholder:"JSON|@FILE" help:"What is answered where the tool's server asks for something (default: you are asked at a terminal)."`
	Decline bool   `xor:"answer" help:"Say no where the tool's server asks for something; the tool goes on without."`
}

// Run calls a tool.
func (c *CallCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, name, args, err := c.target()
	if err != nil {
		return err
	}
	input, err := ui.ObjectFlag("input", c.Input)
	if err != nil {
		return err
	}
	if input != "" && len(args) > 0 {
		return ui.Usagef("the input is given twice, as values and with --input").Then("use one of the two")
	}
	given, err := c.given()
	if err != nil {
		return err
	}
	f, err := s.EnsureWorkspace(ctx, id)
	if err != nil {
		return err
	}
	id = f.Real(id)
	if len(args) > 0 {
		if input, err = inputOf(ctx, s, id, name, args); err != nil {
			return err
		}
	}
	err = newDirectCall(u, s, c.server(), f.Alias, given).
		run(ctx, &mcppoolv1.CallToolRequest{McpId: id, Name: name, InputJson: input})
	if errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT {
		return ui.AsError(err).Then("pawl mcp tools %s/%s%s shows what the tool takes", c.server(), name, s.Flags())
	}
	return err
}

// given is the answer of the command line to what the server asks; nil if there is none.
func (c *CallCmd) given() (*mcppoolv1.CallAnswer, error) {
	content, err := ui.ObjectFlag("answer", c.Answer)
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
func (c *CallCmd) server() string {
	id, _, _ := strings.Cut(c.Tool, "/")
	return id
}

// target takes the words of the command line apart.
func (c *CallCmd) target() (id, name string, args []string, err error) {
	id, name, found := strings.Cut(c.Tool, "/")
	args = c.Args
	if !found && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if id == "" || name == "" {
		return "", "", nil, ui.Usagef("%q names no tool", c.Tool).Then("pawl mcp call SERVER/TOOL; pawl mcp tools lists them")
	}
	return id, name, args, nil
}

// inputOf reads values by the tool's schema. Without one, of a tool that is not listed, the call itself says what is the matter.
func inputOf(ctx context.Context, s *discover.Session, id, name string, args []string) (string, error) {
	tool, err := findTool(ctx, s, id, name)
	if err != nil && !errors.Is(err, errNotListed) {
		return "", err
	}
	input, err := ui.ObjectOfPairs(tool.GetInputSchemaJson(), args, false, false)
	if err != nil {
		return "", ui.Usagef("%v", err).Then("pawl mcp tools %s/%s shows what the tool takes", id, name)
	}
	return input, nil
}

func showResult(u *ui.UI, result *mcppoolv1.CallResult) error {
	if !u.JSON {
		u.Printf("%s", resultText(result))
	}
	if !result.GetIsError() {
		return nil
	}
	if !u.JSON {
		u.Eprintf("%s\n", u.ErrStyle().Red("✗ the tool says that it failed"))
	}
	return ui.Exit(ui.Failed)
}

// showProgress shows how far a call is, on a line that may be overwritten, and what its server logs.
func showProgress(u *ui.UI, live *ui.LiveLine, msg *mcppoolv1.CallToolResponse) {
	st := u.ErrStyle()
	if pr := msg.GetProgress(); pr != nil {
		live.Draw(st.Cyan("… " + ui.Progress(pr.GetProgress(), pr.GetTotal(), pr.GetMessage())))
	}
	if l := msg.GetLog(); l != nil {
		live.Clear()
		who := ui.Line(strings.TrimSpace(l.GetLevel() + " " + l.GetLogger()))
		u.Eprintf("%s\n", st.Dim(who+" "+ui.CompactJSON(l.GetDataJson())))
	}
}

// resultText is what a tool gave: texts, and other content by what it is.
func resultText(result *mcppoolv1.CallResult) string {
	var b strings.Builder
	for _, c := range result.GetContent() {
		b.WriteString(strings.TrimRight(ui.Text(contentText(c)), "\n") + "\n")
	}
	if len(result.GetContent()) == 0 && result.GetStructuredJson() != "" {
		b.WriteString(ui.PrettyJSON(result.GetStructuredJson(), "") + "\n")
	}
	return b.String()
}

func contentText(c *mcppoolv1.Content) string {
	switch k := c.GetKind().(type) {
	case *mcppoolv1.Content_Text:
		return k.Text
	case *mcppoolv1.Content_Image:
		return fmt.Sprintf("[image %s, %d bytes]", k.Image.GetMimeType(), len(k.Image.GetData()))
	case *mcppoolv1.Content_Audio:
		return fmt.Sprintf("[audio %s, %d bytes]", k.Audio.GetMimeType(), len(k.Audio.GetData()))
	case *mcppoolv1.Content_Resource:
		if k.Resource.GetText() != "" {
			return k.Resource.GetText()
		}
		return fmt.Sprintf("[resource %s %s, %d bytes]", k.Resource.GetUri(), k.Resource.GetMimeType(), len(k.Resource.GetBlob()))
	case *mcppoolv1.Content_ResourceLink:
		return fmt.Sprintf("[resource %s]", k.ResourceLink.GetUri())
	}
	return "[content of an unknown kind]"
}
