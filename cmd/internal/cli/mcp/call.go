package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// CallCmd is `pawl mcp call`.
type CallCmd struct {
	Tool  string   `arg:"" complete:"tool" help:"The tool, as server/tool; or only the server, followed by the tool's name."`
	Args  []string `arg:"" optional:"" name:"name=value" help:"The input's values; before them the tool's name, if it was not given with the server."`
	Input string   `short:"i" placeholder:"JSON|@FILE" help:"The input as a JSON object."`

	Answer  string `xor:"answer" placeholder:"JSON|@FILE" help:"The answer if the tool's server asks for input (default: you are asked at a terminal)."`
	Decline bool   `xor:"answer" help:"Decline if the tool's server asks for input; the tool goes on without an answer."`
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
		return ui.Usagef("the input is given twice: as values and with --input").Then("use one of the two")
	}
	flagAnswer, err := c.flagAnswer()
	if err != nil {
		return err
	}
	folder, err := s.EnsureWorkspace(ctx, id)
	if err != nil {
		return err
	}
	d := &directCall{u: u, s: s, id: uuid.NewString(), server: id, flagAnswer: flagAnswer}
	if u.CanAsk() && !u.JSON {
		d.ask = u.Prompter()
		d.ask.Alias = folder.Alias
	}
	if len(args) > 0 {
		if input, err = inputOf(ctx, s, folder.Real(id), name, args); err != nil {
			return err
		}
	}
	err = d.run(ctx, &mcppoolv1.CallToolRequest{McpId: folder.Real(id), Name: name, InputJson: input})
	if errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT {
		return ui.AsError(err).Then("pawl mcp tools %s/%s%s shows what the tool takes", id, name, s.Flags())
	}
	return err
}

// flagAnswer returns the answer to the server's questions that the flags give, or nil.
func (c *CallCmd) flagAnswer() (*mcppoolv1.CallAnswer, error) {
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

// target splits the arguments into the server's id, the tool's name and the input's values.
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

// inputOf parses the values by the tool's schema. A tool that is not listed has no schema; the call then fails with the reason.
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

// showResult prints a result, unless --json has printed it, and returns the command's error.
func showResult(u *ui.UI, result *mcppoolv1.CallResult) error {
	if !u.JSON {
		u.Printf("%s", resultText(result))
	}
	if !result.GetIsError() {
		return nil
	}
	if !u.JSON {
		u.Eprintf("%s\n", u.ErrStyle().Red("✗ the tool reports that it failed"))
	}
	return ui.Exit(ui.Failed)
}

// showProgress shows the call's progress on a live line, and prints the server's log messages.
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

// resultText returns a result as text: texts whole, other content as a placeholder. A result without content is shown as its structured JSON.
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

// directCall is a call of a tool without a task. It shows the call's messages and answers the server's questions.
type directCall struct {
	u          *ui.UI
	s          *discover.Session
	id         string
	server     string                // as the command line names it
	flagAnswer *mcppoolv1.CallAnswer // nil: the person is asked
	ask        *ui.Prompter          // nil with --json or without a terminal

	finished   bool   // the pool answered with a result or an error; false after an interrupt or a lost connection
	unanswered string // the question that got no answer
}

// run makes the call and follows it to its end. A call with an id outlives its stream, so run acknowledges or cancels it before it returns.
func (d *directCall) run(ctx context.Context, req *mcppoolv1.CallToolRequest) error {
	calling, stop := context.WithCancel(ctx)
	defer stop()
	req.CallId = d.id
	stream, err := d.s.Pool.CallTool(calling, req)
	if err != nil {
		return err
	}
	err = d.follow(ctx, stream)
	d.release(ctx)
	return cmp.Or(ctx.Err(), err)
}

// release acknowledges the result of a call that has ended, and cancels one that has not.
func (d *directCall) release(ctx context.Context) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	if d.finished {
		// Without the acknowledgement the pool would keep the result until it expires.
		_, _ = d.s.Pool.AckCall(ctx, &mcppoolv1.AckCallRequest{CallIds: []string{d.id}})
		return
	}
	_, err := d.s.Pool.CancelCall(ctx, &mcppoolv1.CancelCallRequest{CallId: d.id, Reason: "the caller left before the call ended"})
	if err != nil && errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND {
		d.u.Warn("the call could not be cancelled: %s", ui.AsError(err).Message)
	}
}

// follow shows the call's messages and answers its questions until the result comes.
func (d *directCall) follow(ctx context.Context, stream grpc.ServerStreamingClient[mcppoolv1.CallToolResponse]) error {
	u := d.u
	progress := &ui.LiveLine{W: u.Err, On: u.Live}
	defer progress.Clear()
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return ui.Errorf("the call ended without a result").Then("call it again if that does no harm")
		}
		if err != nil {
			d.finished = ctx.Err() == nil && !discover.Gone(err)
			return err
		}
		d.finished = msg.GetResult() != nil
		if u.JSON {
			err = ui.JSONLine(u.Out, msg)
		} else {
			showProgress(u, progress, msg)
		}
		if err != nil {
			return err
		}
		if in := msg.GetInputRequired(); in != nil {
			progress.Clear()
			if err := d.question(ctx, in); err != nil {
				return err
			}
		}
		if result := msg.GetResult(); result != nil {
			progress.Clear()
			return d.resultError(showResult(u, result))
		}
	}
}

// resultError returns the command's error. A question without an answer is an error too.
func (d *directCall) resultError(err error) error {
	if err != nil || d.unanswered == "" {
		return err
	}
	return ui.Errorf("%s asked for something and got no answer: %s", d.server, d.unanswered).
		Then(`call it at a terminal, or with --answer '{"…": …}' or --decline`)
}

// question answers a server's question. If the pool refuses the answer, it asks the person again, or cancels the question if a flag gave the
// answer.
func (d *directCall) question(ctx context.Context, in *mcppoolv1.CallInputRequired) error {
	st := d.u.ErrStyle()
	if !d.u.JSON {
		d.u.Eprintf("%s %s asks: %s\n", st.Yellow("⏸"), ui.Line(d.server), ui.Line(in.GetMessage()))
	}
	for {
		answer, err := d.answer(ctx, in)
		if err != nil {
			return err
		}
		answer.InputId = in.GetInputId()
		_, err = d.s.Pool.AnswerCall(ctx, &mcppoolv1.AnswerCallRequest{CallId: d.id, Answer: answer})
		switch reason := errs.Reason(err); {
		case err == nil:
			return nil
		case reason == commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN:
			d.u.Note("the question is no longer open")
			return nil // the next messages of the stream show the outcome
		case reason != commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT && reason != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST:
			return err // another answer would fail too
		case d.ask == nil || d.flagAnswer != nil:
			d.u.Warn("the answer was not taken: %s", ui.AsError(err).Message)
			d.flagAnswer = nil
			d.ask = nil
		default:
			d.u.Eprintf("    %s\n", st.Red("not taken: "+ui.Text(ui.AsError(err).Message)))
		}
	}
}

// answer returns the answer of the flags or of the person. Without either it cancels the question.
func (d *directCall) answer(ctx context.Context, in *mcppoolv1.CallInputRequired) (*mcppoolv1.CallAnswer, error) {
	switch {
	case d.flagAnswer != nil:
		answer := &mcppoolv1.CallAnswer{Action: d.flagAnswer.GetAction()}
		if in.GetUrl() == "" {
			answer.ContentJson = d.flagAnswer.GetContentJson()
		}
		return answer, nil
	case d.ask == nil:
		d.unanswered = strings.TrimSpace(in.GetMessage() + " " + in.GetUrl())
		return &mcppoolv1.CallAnswer{Action: mcppoolv1.CallAnswer_ACTION_CANCEL}, nil
	}
	if in.GetExpireTime() != nil {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, in.GetExpireTime().AsTime().Sub(d.u.Now()))
		defer done()
	}
	action, content, err := d.ask.Input(ctx, ui.Input{
		ID: in.GetInputId(), Server: d.server, Schema: in.GetSchemaJson(), URL: in.GetUrl(), Deadline: in.GetExpireTime(), OwnCall: true,
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		d.u.Eprintf("\n")
		return &mcppoolv1.CallAnswer{Action: mcppoolv1.CallAnswer_ACTION_CANCEL}, nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case action == ui.InputAccept && err == nil: // Ctrl-D in the middle of an answer sends none
		return &mcppoolv1.CallAnswer{Action: mcppoolv1.CallAnswer_ACTION_ACCEPT, ContentJson: content}, nil
	case action == ui.InputDecline:
		return &mcppoolv1.CallAnswer{Action: mcppoolv1.CallAnswer_ACTION_DECLINE}, nil
	}
	if err != nil {
		d.u.Eprintf("\n")
	}
	d.u.Note("cancelling the call")
	return nil, ui.Exit(ui.Stopped)
}

// ResourcesCmd is `pawl mcp resources`.
type ResourcesCmd struct {
	ServerArg
	Templates bool `help:"List resource templates instead: addresses with placeholders."`
}

// Run lists resources.
func (c *ResourcesCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, id ServerID) error {
	t := u.Table("ADDRESS", "TYPE", "WHAT")
	if c.Templates {
		list, err := discover.All(ctx, s.Pool.ListResourceTemplates, &mcppoolv1.ListResourceTemplatesRequest{McpId: string(id)})
		for _, r := range list.GetResourceTemplates() {
			t.Row(r.GetUriTemplate(), r.GetMimeType(), firstOf(r.GetTitle(), r.GetDescription(), r.GetName()))
		}
		return u.List(list, err, t, c.ID+" has no resource templates")
	}
	list, err := discover.All(ctx, s.Pool.ListResources, &mcppoolv1.ListResourcesRequest{McpId: string(id)})
	for _, r := range list.GetResources() {
		t.Row(r.GetUri(), r.GetMimeType(), firstOf(r.GetTitle(), r.GetDescription(), r.GetName()))
	}
	return u.List(list, err, t, c.ID+" lists no resources; pawl mcp resources "+c.ID+" --templates lists addresses with placeholders")
}

// firstOf returns the first line of the first text that is not empty.
func firstOf(texts ...string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(texts...)), "\n")
	return line
}

// ReadCmd is `pawl mcp read`.
type ReadCmd struct {
	ServerArg
	URI string `arg:"" help:"The resource's address."`
}

// Run reads a resource.
func (c *ReadCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, id ServerID) error {
	resource, err := s.Pool.ReadResource(ctx, &mcppoolv1.ReadResourceRequest{McpId: string(id), Uri: c.URI})
	return u.Show(resource, err, func() string { return resourceText(u.OutTTY, resource.GetContents()) })
}

// PromptsCmd is `pawl mcp prompts`.
type PromptsCmd struct{ ServerArg }

// Run lists prompts.
func (c *PromptsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, id ServerID) error {
	list, err := discover.All(ctx, s.Pool.ListPrompts, &mcppoolv1.ListPromptsRequest{McpId: string(id)})
	t := u.Table("PROMPT", "TAKES", "WHAT")
	for _, p := range list.GetPrompts() {
		t.Row(p.GetName(), argumentNames(p), firstOf(p.GetTitle(), p.GetDescription()))
	}
	return u.List(list, err, t, c.ID+" has no prompts")
}

// argumentNames lists a prompt's arguments, the optional ones in brackets.
func argumentNames(p *mcppoolv1.Prompt) string {
	names := make([]string, 0, len(p.GetArguments()))
	for _, a := range p.GetArguments() {
		name := a.GetName()
		if !a.GetRequired() {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// PromptCmd is `pawl mcp prompt`.
type PromptCmd struct {
	ServerArg
	Name string   `arg:"" help:"The prompt."`
	Args []string `arg:"" optional:"" name:"name=value" help:"The arguments of the prompt."`
}

// Run shows a prompt.
func (c *PromptCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session, id ServerID) error {
	arguments := make(map[string]string, len(c.Args))
	for _, arg := range c.Args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return ui.Usagef("%q is not NAME=VALUE", arg).Then("pawl mcp prompts %s shows what the prompt takes", c.ID)
		}
		arguments[name] = value
	}
	prompt, err := s.Pool.GetPrompt(ctx, &mcppoolv1.GetPromptRequest{McpId: string(id), Name: c.Name, Arguments: arguments})
	return u.Show(prompt, err, func() string { return promptText(u.OutStyle(), prompt) })
}

// resourceText returns the contents of a resource. On a terminal (tty) it describes binary parts instead of writing them.
func resourceText(tty bool, parts []*mcppoolv1.Resource) string {
	var b strings.Builder
	for _, part := range parts {
		switch {
		case len(part.GetBlob()) > 0 && tty:
			fmt.Fprintf(&b, "[%s %s, %d bytes]\n", ui.Line(part.GetUri()), ui.Line(part.GetMimeType()), len(part.GetBlob()))
		case len(part.GetBlob()) > 0:
			b.Write(part.GetBlob())
		default:
			b.WriteString(strings.TrimRight(ui.Text(part.GetText()), "\n") + "\n")
		}
	}
	return b.String()
}

// promptText returns the messages of a prompt, each after its role.
func promptText(st ui.Style, prompt *mcppoolv1.GetPromptResponse) string {
	var b strings.Builder
	for i, m := range prompt.GetMessages() {
		if i > 0 {
			b.WriteString("\n")
		}
		text := ui.Text(contentText(m.GetContent()))
		b.WriteString(st.Bold(ui.Line(m.GetRole())+":") + "\n" + strings.TrimRight(text, "\n") + "\n")
	}
	return b.String()
}
