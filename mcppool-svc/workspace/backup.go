package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	backupFolder = ownFolder + "/backups"
	// keptBackups is how many backups of a file are kept.
	keptBackups = 10
	// backupTime is the layout of the time that begins a backup's name; the SHA-256 of the content follows. Names sort by time.
	backupTime = "20060102T150405.000000000Z"
)

// backup is a saved content of a file.
type backup struct {
	Path   string `json:"backup"`
	Time   string `json:"time"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`

	info fs.FileInfo
	made time.Time
}

// backups returns the backups of the file at rel, the newest first.
func (s *Server) backups(rel string) ([]backup, error) {
	folder := path.Join(backupFolder, rel)
	p, err := s.open(folder+"/.", false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, s.explainChange(folder, err)
	}
	defer func() { _ = p.dir.Close() }()
	entries, err := fs.ReadDir(p.dir.FS(), ".")
	if err != nil {
		return nil, s.explainChange(folder, err)
	}
	var all []backup
	for _, entry := range slices.Backward(entries) {
		stamp, sum, _ := strings.Cut(entry.Name(), "-")
		made, err := time.Parse(backupTime, stamp)
		info, statErr := entry.Info()
		if err != nil || statErr != nil || !info.Mode().IsRegular() {
			continue // another file's folder
		}
		all = append(all, backup{
			Path: path.Join(folder, entry.Name()), Time: made.Format(time.RFC3339Nano), SHA256: sum, Bytes: info.Size(), info: info, made: made,
		})
	}
	return all, nil
}

// backup saves a file as it is before a change, and returns the path of the backup. It makes none if the newest one is the same.
func (s *Server) backup(rel string, before *file) (string, error) {
	all, err := s.backups(rel)
	if err != nil {
		return "", err
	}
	now := time.Now().UTC()
	if len(all) > 0 {
		newest := all[0]
		if newest.holds(before) {
			return newest.Path, nil
		}
		if !now.After(newest.made) { // the clock was set back
			now = newest.made.Add(1)
		}
	}
	at := path.Join(backupFolder, rel, now.Format(backupTime)+"-"+before.sum)
	return at, s.put(at, before, nil)
}

func (b backup) holds(f *file) bool {
	return f != nil && b.SHA256 == f.sum && b.info.Mode() == f.info.Mode()
}

var errBackupGone = errors.New("was removed or changed")

// saved reads the content of a backup.
func (s *Server) saved(at string) (*file, error) {
	f, err := s.read(at)
	switch {
	case err != nil:
		return nil, err
	case f == nil || !strings.HasSuffix(at, "-"+f.sum):
		return nil, fmt.Errorf("the backup %q %w: choose another (list_backups)", at, errBackupGone)
	}
	return f, nil
}

// prune removes the oldest backups of a file.
func (s *Server) prune(rel string) {
	all, _ := s.backups(rel)
	for _, b := range all[min(len(all), keptBackups):] {
		_ = s.root.Remove(b.Path)
	}
}

type listBackupsInput struct {
	Path string `json:"path"`
}

type listBackupsOutput struct {
	Path    string   `json:"path"`
	Backups []backup `json:"backups"`
}

func (s *Server) listBackups(_ context.Context, in listBackupsInput, _ reporter) (listBackupsOutput, error) {
	rel, err := s.locateChange(in.Path)
	if err != nil {
		return listBackupsOutput{}, err
	}
	all, err := s.backups(rel)
	return listBackupsOutput{Path: rel, Backups: append([]backup{}, all...)}, err
}

func (o listBackupsOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %q", plural(len(o.Backups), "backup", "backups"), o.Path)
	for _, backup := range o.Backups {
		fmt.Fprintf(&b, "\n%s  %s", backup.Path, plural(backup.Bytes, "byte", "bytes"))
	}
	return b.String()
}

type restoreInput struct {
	Path       string `json:"path"`
	Backup     string `json:"backup"`
	BaseSHA256 string `json:"base_sha256"`
}

// planRestore brings back a backup; without a name, the newest that differs from the file.
func (s *Server) planRestore(_ context.Context, in restoreInput) (plan, error) {
	rel, err := s.locateChange(in.Path)
	if err != nil {
		return plan{}, err
	}
	now, err := s.read(rel)
	if err != nil {
		return plan{}, err
	}
	if err := s.checkBase(rel, in.BaseSHA256, now); err != nil {
		return plan{}, err
	}
	all, err := s.backups(rel)
	if err != nil {
		return plan{}, err
	}
	if len(all) == 0 {
		return plan{}, fmt.Errorf("%q has no backups: no tool of the workspace has changed or deleted it; delete_file removes a file that a tool created", rel)
	}
	chosen := slices.IndexFunc(all, func(b backup) bool {
		if in.Backup == "" {
			return !b.holds(now)
		}
		return path.Base(in.Backup) == path.Base(b.Path)
	})
	switch {
	case chosen < 0 && in.Backup != "":
		return plan{}, fmt.Errorf("%q is no backup of %q: list_backups names them; the newest is %q", in.Backup, rel, all[0].Path)
	case chosen < 0, all[chosen].holds(now):
		return plan{}, nil
	}
	after, err := s.saved(all[chosen].Path)
	return plan{edits: []edit{{path: rel, before: now, after: after}}}, err
}
