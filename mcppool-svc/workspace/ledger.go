package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

const (
	ledgerPath = ownFolder + "/ledger.json"
	// keptChanges is how many changes of finished calls are kept, to answer repeated calls.
	keptChanges = 500
)

// ledger holds the change that is being made, so that the next call can undo it after a crash, and the last changes with an idempotency key.
type ledger struct {
	Pending *record  `json:"pending,omitempty"`
	Done    []record `json:"done,omitempty"`
}

// record holds the changes of a call.
type record struct {
	ID      string   `json:"id,omitempty"` // see callID
	Changes []change `json:"changes"`
}

func (s *Server) save(l *ledger) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return s.put(ledgerPath, newFile(data, nil), anything)
}

// recoverLedger reads the ledger, and undoes the change of a call that was killed before it had made all of it.
func (s *Server) recoverLedger() (*ledger, error) {
	l := &ledger{}
	f, err := s.read(ledgerPath)
	if err != nil || f == nil {
		return l, err
	}
	if err := json.Unmarshal(f.data, l); err != nil {
		return nil, fmt.Errorf("the record of changes %q cannot be read: have it deleted: %w", ledgerPath, err)
	}
	if l.Pending == nil {
		return l, nil
	}
	if err := s.rollback(l); err != nil {
		return nil, fmt.Errorf("a change that was interrupted could not be undone: %w", err)
	}
	return l, nil
}

// done returns the ledger after the pending change was made.
func (l *ledger) done() *ledger {
	next := &ledger{Done: l.Done}
	if l.Pending.ID != "" {
		next.Done = append(slices.Clone(l.Done), *l.Pending)
	}
	kept := 0
	for i, r := range slices.Backward(next.Done) {
		if kept += len(r.Changes); kept > keptChanges && i < len(next.Done)-1 {
			next.Done = next.Done[i+1:]
			break
		}
	}
	return next
}

// rollback undoes the pending changes, the last one first, and saves the ledger. Changes that could not be undone stay pending, except
// those whose backup is gone.
func (s *Server) rollback(l *ledger) error {
	var left []change
	var errs []error
	for _, c := range slices.Backward(l.Pending.Changes) {
		_ = s.root.Remove(path.Join(path.Dir(c.Path), tempName))
		if rel, err := s.locateChange(c.Path); err != nil || rel != c.Path {
			continue // not written by this package
		}
		now, err := s.read(c.Path)
		if err == nil {
			err = s.undo(c, now)
		}
		switch {
		case errors.Is(err, errBackupGone):
			err = fmt.Errorf("%q stays changed: %w", c.Path, err)
		case err != nil:
			left = append(left, c)
		}
		errs = append(errs, s.explainChange(c.Path, err))
	}
	if l.Pending.Changes = left; left == nil {
		l.Pending = nil
	}
	slices.Reverse(left)
	return errors.Join(append(errs, s.explainChange(ledgerPath, s.save(l)))...)
}

// undo undoes a change, unless it was not made or the file has changed again since.
func (s *Server) undo(c change, now *file) error {
	switch {
	case c.Change == deleted && now == nil && c.Backup == "":
		return s.apply(edit{path: c.Path, after: &file{}})
	case c.Change == deleted && now == nil, c.Change == modified && now != nil && now.sum == c.SHA256:
		before, err := s.saved(c.Backup)
		if err != nil {
			return err
		}
		return s.put(c.Path, before, now)
	case c.Change == created && now != nil && now.sum == c.SHA256:
		err := s.apply(edit{path: c.Path, before: now})
		if c.SHA256 == "" && errors.Is(err, fs.ErrExist) {
			return nil // the folder is in use by now
		}
		return err
	}
	return nil
}
