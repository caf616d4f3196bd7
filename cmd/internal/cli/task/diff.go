package task

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// ChangedFiles name the files of a task.
type ChangedFiles struct {
	OneTask
	Files []string `arg:"" optional:"" name:"file" help:"Only these files or folders, relative to the task's folder (default: all that the task changed)."`
}

// changes returns the task and what it did to the files.
func (c *ChangedFiles) changes(ctx context.Context, s *discover.Session) (string, []*change, error) {
	id, err := c.find(ctx, s)
	if err != nil {
		return "", nil, err
	}
	result, err := s.Tasks.GetTaskResult(ctx, &executorv1.GetTaskResultRequest{Id: id})
	if err != nil {
		return "", nil, err
	}
	all := netChanges(result.GetFilesChanged())
	for _, file := range c.Files {
		if !slices.ContainsFunc(all, func(ch *change) bool { return within(ch.path, file) }) {
			return "", nil, ui.Errorf("task %s changed no file %s", ui.ShortID(id), ui.Line(file)).Then("pawl diff %s --stat%s lists its files", ui.ShortID(id), s.Flags())
		}
	}
	return id, slices.DeleteFunc(all, func(ch *change) bool {
		return len(c.Files) > 0 && !slices.ContainsFunc(c.Files, func(file string) bool { return within(ch.path, file) })
	}), nil
}

// within reports whether a file is the named one or in the named folder.
func within(file, name string) bool {
	name = path.Clean(filepath.ToSlash(name))
	return name == "." || file == name || strings.HasPrefix(file, name+"/")
}

// DiffCmd is `pawl diff`.
type DiffCmd struct {
	ChangedFiles
	Stat bool `help:"Print only how many lines of each file were added and removed."`
}

// Run prints how the files differ from what they were before the task.
func (c *DiffCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, changes, err := c.changes(ctx, s)
	if err != nil {
		return err
	}
	diffs, failed := []fileDiff{}, 0
	for _, ch := range changes {
		d, err := ch.diff(ctx, s)
		if err != nil {
			u.Warn("%s: %s", ch.path, ui.AsError(err).Message)
			failed++
			continue
		}
		if d.Diff != "" {
			diffs = append(diffs, d)
		}
	}
	switch {
	case u.JSON:
		err = u.Document(map[string]any{"task": id, "files": diffs})
	case len(diffs) == 0 && failed == 0:
		u.Note("task %s changed no files, or they are as before it", ui.ShortID(id))
	case c.Stat:
		err = printStat(u, diffs)
	case u.OutTTY:
		for _, d := range diffs {
			u.Printf("%s", colourDiff(u.OutStyle(), d.Diff))
		}
	default:
		for _, d := range diffs { // unchanged, so that patch and git apply can read it
			u.Printf("%s", d.Diff)
		}
	}
	if err == nil && failed > 0 {
		return ui.Exit(ui.Failed)
	}
	return err
}

func printStat(u *ui.UI, diffs []fileDiff) error {
	t := u.Table("CHANGE", "LINES", "FILE")
	added, removed := 0, 0
	for _, d := range diffs {
		t.Row(d.Change, d.counts(), d.Path)
		added, removed = added+d.Added, removed+d.Removed
	}
	if err := t.Write(u.Out); err != nil {
		return err
	}
	u.Printf("%s\n", fmt.Sprintf("%s, +%d −%d", ui.Plural(len(diffs), "file"), added, removed))
	return nil
}
