package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/strictjson"
)

// UndoCmd is `pawl undo`.
type UndoCmd struct {
	ChangedFiles
	Force  bool `help:"Also restore files that were changed other than by the task's file tools; what they hold now is backed up."`
	DryRun bool `short:"n" help:"Only print what would be done."`
	Yes    bool `short:"y" help:"Do not ask before files are changed."`
}

// fileCall is a call of a workspace tool that changes a file.
type fileCall struct {
	server, path, tool string
	backup, hash       string // arguments of the tool; may be empty
	want               string // the SHA-256 of the file after the call; "" if the call deletes it
	others             bool   // the file was changed other than by the task's file tools
	replaced           string // the backup of what the file held; "" before the call, or if the answer was lost
}

const (
	restoreTool = "restore_file"
	deleteTool  = "delete_file"
)

// action returns what the call does: restore or delete.
func (c *fileCall) action() string { return strings.TrimSuffix(c.tool, "_file") }

// Run brings the files back to what they were before the task. If it cannot change one of them, it takes back what it did to the others.
func (c *UndoCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, changes, err := c.changes(ctx, s)
	if err != nil {
		return err
	}
	task, err := s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
	if err != nil {
		return err
	}
	if task.GetEndTime() == nil {
		return ui.Errorf("task %s has not ended, and may change its files again", ui.ShortID(id)).Then("pawl cancel %s%s", ui.ShortID(id), s.Flags())
	}
	calls, err := c.calls(ctx, s, changes)
	if err != nil {
		return err
	}
	for _, call := range calls {
		if !u.JSON {
			u.Eprintf("  %s %s\n", call.action(), ui.Line(call.path))
		}
	}
	if len(calls) > 0 && !c.DryRun {
		if err := c.confirm(ctx, u, len(calls)); err != nil {
			return err
		}
		err = callAll(ctx, u, s, calls)
	}
	files := []map[string]string{}
	for _, call := range calls {
		files = append(files, call.report(u, err == nil))
	}
	done := ui.Plural(len(calls), "file") + " as before task " + ui.ShortID(id)
	switch {
	case len(calls) == 0:
		done = "task " + ui.ShortID(id) + " changed no files, or they are as before it"
	case c.DryRun:
		done = "nothing was changed, because of --dry-run"
	}
	return u.Result(map[string]any{"task": id, "dryRun": c.DryRun, "files": files}, err, "%s", done)
}

// report returns the call as --json shows it. If it was made and has replaced work of others, report prints where that is kept.
func (c *fileCall) report(u *ui.UI, made bool) map[string]string {
	doc := map[string]string{"path": c.path, "action": c.action()}
	if c.replaced != "" && made {
		doc["backup"] = c.replaced
		if c.others && !u.JSON {
			u.Note("what %s held is kept in %s", ui.Line(c.path), ui.Line(c.replaced))
		}
	}
	return doc
}

// confirm asks the person at a terminal, unless --yes is set, and returns the command's error if they do not agree.
func (c *UndoCmd) confirm(ctx context.Context, u *ui.UI, files int) error {
	if c.Yes || u.JSON || !u.CanAsk() {
		return nil
	}
	yes, err := u.Prompter().Confirm(ctx, "Change "+ui.Plural(files, "file")+"?")
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !yes {
		u.Note("nothing was changed")
		return ui.Exit(ui.Stopped)
	}
	return nil
}

// calls returns the calls that undo the changes, the last change first. It returns an error if a file was also changed by others.
func (c *UndoCmd) calls(ctx context.Context, s *discover.Session, changes []*change) ([]*fileCall, error) {
	var calls []*fileCall
	var changed []string
	for _, ch := range slices.Backward(changes) {
		now, err := readFile(ctx, s, ch.server, ch.path)
		if err != nil {
			return nil, err
		}
		call := &fileCall{server: ch.server, path: ch.path, tool: restoreTool, backup: ch.first.GetBackupPath(), hash: hashOf(now), want: hashBefore(ch.first)}
		if ch.first.GetType() == fileCreated {
			call.tool = deleteTool
		}
		if call.hash == call.want {
			continue
		}
		if _, err := ch.before(ctx, s); err != nil {
			return nil, err
		}
		if call.others = ch.mixed || call.hash != ch.last.GetSha256(); call.others {
			changed = append(changed, ui.Line(ch.path))
		}
		calls = append(calls, call)
	}
	if len(changed) > 0 && !c.Force {
		return nil, ui.Errorf("changed other than by the task's file tools: %s; nothing was undone", strings.Join(changed, ", ")).
			Then("pawl undo %s --force%s undoes them too (pawl diff shows the changes), or name the files to undo", c.Task, s.Flags())
	}
	return calls, nil
}

// hashOf returns the SHA-256 of a content in hex; "" if there is no file.
func hashOf(content []byte) string {
	if content == nil {
		return ""
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// callAll makes the calls. If one fails, it takes back those before.
func callAll(ctx context.Context, u *ui.UI, s *discover.Session, calls []*fileCall) error {
	for i, call := range calls {
		err := call.run(ctx, s)
		if err == nil {
			continue
		}
		ctx = context.WithoutCancel(ctx)
		for _, done := range slices.Backward(calls[:i]) {
			back := &fileCall{server: done.server, path: done.path, tool: restoreTool, backup: done.replaced, hash: done.want, want: done.hash}
			if done.hash == "" {
				back.tool = deleteTool
			}
			if err := back.run(ctx, s); err != nil {
				u.Warn("%s is undone and stays so: %s", done.path, ui.AsError(err).Message)
			}
		}
		return ui.Errorf("%s could not be undone, so nothing was: %s", call.path, ui.AsError(err).Message)
	}
	return nil
}

// run makes the call. If the connection is lost, it makes the call again only if the file shows that it was not made.
func (c *fileCall) run(ctx context.Context, s *discover.Session) error {
	arguments := map[string]string{"path": c.path}
	if c.backup != "" {
		arguments["backup"] = c.backup
	}
	if c.hash != "" {
		arguments["base_sha256"] = c.hash
	}
	input, err := strictjson.Marshal(arguments)
	if err != nil {
		return err
	}
	req := &mcppoolv1.CallToolRequest{McpId: c.server, Name: c.tool, InputJson: input}
	result, err := callTool(ctx, s, req)
	if discover.Gone(err) {
		now, readErr := readFile(ctx, s, c.server, c.path) // which connects again
		if readErr != nil || hashOf(now) == c.want {
			return readErr
		}
		result, err = callTool(ctx, s, req)
	}
	if err != nil {
		return err
	}
	var output struct{ Changes []struct{ Backup string } }
	if err := json.Unmarshal([]byte(result.GetStructuredJson()), &output); err != nil {
		return ui.Errorf("%s of %s gave a result that is not understood: %v", c.tool, c.server, err)
	}
	if len(output.Changes) > 0 {
		c.replaced = output.Changes[0].Backup
	}
	return nil
}

// callTool calls a tool and returns its result. A result that reports an error is an error.
func callTool(ctx context.Context, s *discover.Session, req *mcppoolv1.CallToolRequest) (*mcppoolv1.CallResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.Pool.CallTool(ctx, req)
	var msg *mcppoolv1.CallToolResponse
	for err == nil && msg.GetResult() == nil {
		msg, err = stream.Recv()
	}
	if result := msg.GetResult(); result.GetIsError() {
		text := "the tool failed"
		if len(result.GetContent()) > 0 {
			text = result.GetContent()[0].GetText()
		}
		return nil, ui.Errorf("%s", text)
	}
	return msg.GetResult(), err
}
