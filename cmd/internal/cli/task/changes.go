package task

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

const (
	fileCreated  = executorv1.FileChangeType_FILE_CHANGE_TYPE_CREATED
	fileModified = executorv1.FileChangeType_FILE_CHANGE_TYPE_MODIFIED
	fileDeleted  = executorv1.FileChangeType_FILE_CHANGE_TYPE_DELETED
)

// change is what a task did to one file in all.
type change struct {
	server, path string
	first, last  *executorv1.FileChange
	mixed        bool // the file was also changed between the task's changes
}

// netChanges joins the changes of each file, in the order of their first change. It leaves out folders, which have no content, and files that the
// task created and deleted again.
func netChanges(files []*executorv1.FileChange) []*change {
	var changes []*change
	for _, f := range files {
		server, _, _ := strings.Cut(f.GetToolId(), "/")
		i := slices.IndexFunc(changes, func(c *change) bool { return c.server == server && c.path == f.GetPath() })
		if i < 0 {
			changes = append(changes, &change{server: server, path: f.GetPath(), first: f, last: f})
			continue
		}
		c := changes[i]
		c.mixed = c.mixed || hashBefore(f) != c.last.GetSha256()
		c.last = f
	}
	return slices.DeleteFunc(changes, func(c *change) bool {
		isFolder := c.first.GetType() != fileModified && c.first.GetBackupPath() == "" && c.last.GetSha256() == ""
		return isFolder || c.first.GetType() == fileCreated && c.last.GetType() == fileDeleted
	})
}

func (c *change) kind() executorv1.FileChangeType {
	switch {
	case c.first.GetType() == fileCreated:
		return fileCreated
	case c.last.GetType() == fileDeleted:
		return fileDeleted
	}
	return fileModified
}

// hashBefore returns the SHA-256 of the content before a change, with which the backup's name ends; "" if there was no file.
func hashBefore(f *executorv1.FileChange) string {
	_, sum, _ := strings.Cut(path.Base(f.GetBackupPath()), "-")
	return sum
}

// fileDiff is the difference between a file before a task and now, as --json shows it.
type fileDiff struct {
	Path    string `json:"path"`
	Change  string `json:"change"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Binary  bool   `json:"binary,omitempty"`
	Diff    string `json:"diff"`
}

// counts returns the numbers of lines as "+3 −1".
func (d *fileDiff) counts() string {
	if d.Binary {
		return "binary"
	}
	return fmt.Sprintf("+%d −%d", d.Added, d.Removed)
}

// newDiff compares two contents of a file; nil stands for no file.
func newDiff(name string, before, after []byte) fileDiff {
	d := fileDiff{Path: name, Change: ui.EnumName(fileModified)}
	end := "" // patch needs a tab after a name with spaces
	if strings.Contains(name, " ") {
		end = "\t"
	}
	from, to, header := "a/"+name+end, "b/"+name+end, "diff --git a/"+name+" b/"+name+"\n"
	switch {
	case before == nil && after != nil:
		d.Change, from, header = ui.EnumName(fileCreated), os.DevNull, header+"new file mode 100644\n"
	case after == nil && before != nil:
		d.Change, to, header = ui.EnumName(fileDeleted), os.DevNull, header+"deleted file mode 100644\n"
	}
	if d.Binary = !isText(before) || !isText(after); d.Binary {
		d.Diff = header + "Binary files " + from + " and " + to + " differ\n"
		return d
	}
	_, hunks, _ := strings.Cut(string(diff.Diff(from, before, to, after)), "\n")
	if hunks == "" && d.Change == ui.EnumName(fileModified) {
		return d
	}
	d.Diff = header + hunks
	_, body, _ := strings.Cut(hunks, "\n@@")
	d.Added, d.Removed = strings.Count(body, "\n+"), strings.Count(body, "\n-")
	return d
}

// isText reports whether the lines of a content can be compared.
func isText(content []byte) bool {
	return len(content) <= maxDiffed && utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}

// colourDiff makes a diff safe for a terminal and colours its lines.
func colourDiff(st ui.Style, text string) string {
	var b strings.Builder
	inHunk := false
	for line := range strings.Lines(ui.Text(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "@@"):
			inHunk, line = true, st.Cyan(line)
		case strings.HasPrefix(line, "diff "), !inHunk, strings.HasPrefix(line, "--- a/"), strings.HasPrefix(line, "+++ b/"):
			inHunk, line = false, st.Bold(line)
		case strings.HasPrefix(line, "+"):
			line = st.Green(line)
		case strings.HasPrefix(line, "-"):
			line = st.Red(line)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

const (
	// maxChanged is the size of the largest file that the workspace's tools change, in bytes.
	maxChanged = 64 << 20
	// maxDiffed is the size of the largest file whose lines are compared, in bytes.
	maxDiffed = 16 << 20
)

// openFolder opens the folder that a workspace server on this machine serves.
func openFolder(ctx context.Context, s *discover.Session, serverID string) (*os.Root, error) {
	pawl, err := s.Server(ctx)
	if err != nil {
		return nil, err
	}
	server, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: serverID})
	if err != nil {
		return nil, err
	}
	if server.GetBuiltin().GetName() != discover.WorkspaceID || !pawl.Local() || server.GetBuiltin().GetRoot() == "" {
		return nil, ui.Errorf("the files of MCP server %s cannot be read here", serverID).Then("run the command on the machine of the folder, with its pawl up")
	}
	root, err := os.OpenRoot(server.GetBuiltin().GetRoot())
	if err != nil {
		return nil, ui.Errorf("open the folder of %s: %v", serverID, err)
	}
	return root, nil
}

// readFile returns a file of the folder that a workspace server on this machine serves; nil if there is no such file.
func readFile(ctx context.Context, s *discover.Session, serverID, name string) ([]byte, error) {
	root, err := openFolder(ctx, s, serverID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, ui.Errorf("read %s: %v", name, err)
	case !info.Mode().IsRegular() || info.Size() > maxChanged:
		return nil, ui.Errorf("%s is not a regular file of at most %s", name, ui.Bytes(maxChanged))
	}
	content, err := root.ReadFile(name)
	if err != nil {
		return nil, ui.Errorf("read %s: %v", name, err)
	}
	return append([]byte{}, content...), nil // not nil: there is a file
}

// before returns the content of the file before the task; nil if there was no file.
func (c *change) before(ctx context.Context, s *discover.Session) ([]byte, error) {
	if c.first.GetType() == fileCreated {
		return nil, nil
	}
	content, err := readFile(ctx, s, c.server, c.first.GetBackupPath())
	if err == nil && content == nil {
		err = ui.Errorf("the backup of %s from before the task is gone: only the newest ones of each file are kept", c.path)
	}
	return content, err
}

// diff compares a file now with its content before the task.
func (c *change) diff(ctx context.Context, s *discover.Session) (fileDiff, error) {
	before, err := c.before(ctx, s)
	if err != nil {
		return fileDiff{}, err
	}
	now, err := readFile(ctx, s, c.server, c.path)
	if err != nil {
		return fileDiff{}, err
	}
	return newDiff(c.path, before, now), nil
}

// proposed returns the change that a call of a workspace tool would make to files as a diff; "" if that is not known.
func proposed(ctx context.Context, s *discover.Session, toolID, inputJSON string) string {
	var input struct{ Path, Content, Patch string }
	server, tool, _ := strings.Cut(toolID, "/")
	if json.Unmarshal([]byte(inputJSON), &input) != nil {
		return ""
	}
	switch {
	case tool == "apply_patch":
		return input.Patch
	case tool != "write_file" || input.Path == "":
		return ""
	}
	if filepath.IsAbs(input.Path) { // which the tool accepts inside the folder
		root, err := openFolder(ctx, s, server)
		if err != nil {
			return ""
		}
		defer func() { _ = root.Close() }()
		if input.Path, err = filepath.Rel(root.Name(), input.Path); err != nil {
			return ""
		}
	}
	input.Path = filepath.ToSlash(filepath.Clean(input.Path))
	now, err := readFile(ctx, s, server, input.Path)
	if err != nil {
		return ""
	}
	return newDiff(input.Path, now, []byte(input.Content)).Diff
}
