package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// plan is what a tool is going to change. Plans are made and committed under the workspace's lock.
type plan struct {
	edits []edit
	note  string // follows the list of changes in the text of the result
}

// edit is one planned change of a file or folder.
type edit struct {
	path   string
	from   string // the earlier path of a file that moves
	before *file  // nil: there is nothing at path
	after  *file  // nil: the file or the empty folder is removed
}

// changesOutput is the result of every tool that changes files, and the record of its changes.
type changesOutput struct {
	Changes []change `json:"changes"`
	note    string
}

type change struct {
	Path   string `json:"path"`
	Change string `json:"change"`
	From   string `json:"from,omitempty"`
	Backup string `json:"backup,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Bytes  int64  `json:"bytes"`
}

const (
	created  = "created"
	modified = "modified"
	deleted  = "deleted"
)

func (o changesOutput) text() string {
	if len(o.Changes) == 0 {
		return "Nothing to change: it is so already."
	}
	var b strings.Builder
	for i, c := range o.Changes {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s %s", c.Change, c.Path)
		if c.From != "" {
			fmt.Fprintf(&b, " (from %s)", c.From)
		}
		if c.SHA256 != "" {
			fmt.Fprintf(&b, ": %s, sha256 %s", plural(c.Bytes, "byte", "bytes"), c.SHA256)
		}
	}
	return b.String() + o.note
}

// metaIdempotencyKey is the member of `_meta` that is the same for all attempts of a call.
const metaIdempotencyKey = "pawl.dev/idempotency-key"

// changing turns a tool that plans changes into an MCP handler that also makes them.
func changing[In any](s *Server, planner func(context.Context, In) (plan, error)) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return handle(func(ctx context.Context, in In, _ reporter) (changesOutput, error) {
			id, err := callID(req, in)
			if err != nil {
				return changesOutput{}, err
			}
			return s.change(ctx, id, func() (plan, error) { return planner(ctx, in) })
		})(ctx, req)
	}
}

// callID names the attempts of one call with one input. It is empty for a call without an idempotency key.
func callID(req mcp.CallToolRequest, in any) (string, error) {
	if req.Params.Meta == nil {
		return "", nil
	}
	key, _ := req.Params.Meta.AdditionalFields[metaIdempotencyKey].(string)
	if key == "" {
		return "", nil
	}
	named, err := json.Marshal([]any{key, req.Params.Name, in})
	return sumOf(named)[:32], err
}

// change plans and commits a change under the workspace's lock. A call that has committed before returns its first result.
func (s *Server) change(ctx context.Context, id string, planner func() (plan, error)) (changesOutput, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return changesOutput{}, err
	}
	defer unlock()
	l, err := s.recoverLedger()
	if err != nil {
		return changesOutput{}, err
	}
	if done := slices.IndexFunc(l.Done, func(r record) bool { return id != "" && r.ID == id }); done >= 0 {
		return changesOutput{Changes: l.Done[done].Changes}, nil
	}
	p, err := planner()
	if err != nil {
		return changesOutput{}, err
	}
	return s.commit(ctx, l, id, p)
}

// lock waits for the lock that serialises the changes of a workspace, also those of other processes. It locks the root, because programs can
// replace any folder in it. It makes the folder of the server's own files, which git ignores.
func (s *Server) lock(ctx context.Context) (unlock func(), err error) {
	root, err := s.root.Open(".")
	if err != nil {
		return nil, s.explainChange(".", err)
	}
	locked := make(chan error, 1)
	go func() { locked <- lockFile(root) }()
	select {
	case err = <-locked:
	case <-ctx.Done():
		go func() { _ = errors.Join(<-locked, root.Close()) }()
		return nil, fmt.Errorf("another change of this workspace takes too long: %w", context.Cause(ctx))
	}
	if _, none := s.stat(ownFolder + "/.gitignore"); err == nil && none != nil {
		err = s.put(ownFolder+"/.gitignore", newFile([]byte("*\n"), nil), anything)
	}
	if err != nil {
		return nil, s.explainChange(ownFolder, errors.Join(err, root.Close()))
	}
	return func() { _ = root.Close() }, nil
}

// commit backs up what p changes, records the change, and makes it. If an edit fails, it undoes those before it.
func (s *Server) commit(ctx context.Context, l *ledger, id string, p plan) (changesOutput, error) {
	out := changesOutput{Changes: []change{}, note: p.note}
	if len(p.edits) == 0 {
		return out, nil
	}
	for _, e := range p.edits {
		c, err := s.prepare(e)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return changesOutput{}, s.unchanged(e.path, err)
		}
		out.Changes = append(out.Changes, c)
	}
	l.Pending = &record{ID: id, Changes: out.Changes}
	if err := s.save(l); err != nil {
		return changesOutput{}, s.unchanged(ledgerPath, err)
	}
	if at, err := s.make(l, p.edits); err != nil {
		if failed := s.rollback(l); failed != nil {
			return changesOutput{}, fmt.Errorf("%w; undoing the earlier changes failed: %w", s.explainChange(at, err), failed)
		}
		return changesOutput{}, s.unchanged(at, err)
	}
	for _, c := range out.Changes {
		s.prune(c.Path)
	}
	return out, nil
}

// make makes the pending change. If it fails, it returns where, and only the edits that were made stay pending.
func (s *Server) make(l *ledger, edits []edit) (at string, err error) {
	for i, e := range edits {
		if err := s.apply(e); err != nil {
			l.Pending.Changes = l.Pending.Changes[:i]
			return e.path, err
		}
	}
	return ledgerPath, s.save(l.done())
}

func (s *Server) unchanged(rel string, err error) error {
	return fmt.Errorf("nothing was changed: %w", s.explainChange(rel, err))
}

// prepare describes an edit as a change, and backs up the file that it replaces or removes.
func (s *Server) prepare(e edit) (change, error) {
	c := change{Path: e.path, Change: modified, From: e.from}
	switch {
	case e.before == nil:
		c.Change = created
	case e.after == nil:
		c.Change = deleted
	}
	if e.after != nil {
		c.SHA256, c.Bytes = e.after.sum, int64(len(e.after.data))
	}
	if e.before == nil || e.before.isDir() {
		return c, nil
	}
	var err error
	c.Backup, err = s.backup(e.path, e.before)
	return c, err
}

// apply makes one edit.
func (s *Server) apply(e edit) error {
	if e.after != nil && !e.after.isDir() {
		return s.put(e.path, e.after, e.before)
	}
	p, err := s.open(e.path, e.after != nil)
	if err != nil {
		return err
	}
	defer func() { _ = p.dir.Close() }()
	if e.after != nil {
		return p.dir.Mkdir(p.name, 0o777)
	}
	if err := p.unchangedSince(e.before); err != nil {
		return err
	}
	return p.dir.Remove(p.name)
}

// put writes a file beside the path and renames it to the path, so that the path always holds a whole file. It fails if the path no longer
// holds before.
func (s *Server) put(rel string, f *file, before *file) error {
	p, err := s.open(rel, true)
	if err != nil {
		return err
	}
	defer func() { _ = p.dir.Close() }()
	_ = p.dir.Remove(tempName) // of a call that was killed
	err = writeTemp(p.dir, f)
	if err == nil {
		err = p.unchangedSince(before)
	}
	if err == nil {
		err = p.dir.Rename(tempName, p.name)
	}
	if err != nil {
		_ = p.dir.Remove(tempName)
		return err
	}
	if dir, err := p.dir.Open("."); err == nil {
		_ = dir.Sync() // not all file systems can
		_ = dir.Close()
	}
	return nil
}

// writeTemp writes and syncs content to the file tempName in dir.
func writeTemp(dir *os.Root, content *file) (err error) {
	f, err := dir.OpenFile(tempName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(content.data); err != nil {
		return err
	}
	info := content.info
	if info != nil {
		keepOwner(f, info)
	} else if info, err = f.Stat(); err != nil {
		return err
	}
	mode := info.Mode().Perm()
	switch {
	case content.exec != nil && *content.exec:
		mode |= mode & 0o444 >> 2
	case content.exec != nil:
		mode &^= 0o111
	}
	return errors.Join(f.Chmod(mode), f.Sync())
}

func changedError(rel, sum string) error {
	return fmt.Errorf("%q has changed: its sha256 is %s now; read the file again and make the change from what it holds", rel, sum)
}
