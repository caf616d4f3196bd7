package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/executor-svc/executor"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// StoreCmd is `pawl store`.
type StoreCmd struct {
	Info    StoreInfoCmd    `cmd:"" default:"1" group:"sub" help:"Say what is in the journal."`
	Compact StoreCompactCmd `cmd:"" group:"sub" help:"Give the space of deleted tasks back to the disk."`
	Check   StoreCheckCmd   `cmd:"" group:"sub" help:"Look for damage."`
}

// storeDir is the data folder to work on, without a server.
func storeDir(at discover.Config) (string, error) {
	if at.Server != "" && at.Server != os.Getenv("PAWL_SERVER") {
		return "", ui.Usagef("pawl store works on a data folder, not through a server").Then("--data DIR says which; stop its server first")
	}
	return at.Dir()
}

// storeError explains why a journal cannot be worked on.
func storeError(dir string, err error) error {
	switch {
	case errors.Is(err, executor.ErrLocked):
		held, pid := inUse(dir, err)
		if pid == 0 {
			return held.Then("stop that process, then run this command again")
		}
		return held.Then("stop it with kill %d, then run this command again; running tasks go on when it is started the next time", pid)
	case errors.Is(err, executor.ErrDamaged):
		return ui.WrapError(err, "%v", err).Then("keep a copy of the data folder; pawl store check says what is wrong with it, as far as it can be read")
	}
	return ui.WrapError(err, "%v", err)
}

// StoreInfoCmd is `pawl store info`.
type StoreInfoCmd struct{}

// storeView is what --json prints.
type storeView struct {
	Path     string           `json:"path"`
	Size     int64            `json:"size"`
	Free     int64            `json:"free"`
	Log      int64            `json:"log"`
	Schema   int              `json:"schema"`
	Tasks    map[string]int   `json:"tasks"`
	Records  int              `json:"records"`
	Commands int              `json:"commands"`
	Payloads int              `json:"payloads"`
	Agents   int              `json:"agents"`
	Bytes    map[string]int64 `json:"bytes"`
	Oldest   *time.Time       `json:"oldest,omitempty"`
	Newest   *time.Time       `json:"newest,omitempty"`
}

// Run shows what is in the journal.
func (c *StoreInfoCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	i, err := storeInfo(ctx, s)
	if err != nil {
		return err
	}
	if !u.JSON {
		showStore(u, i)
		return nil
	}
	view := storeView{
		Path: i.Path, Size: i.Size, Free: i.Free, Log: i.Log, Schema: i.Schema, Tasks: i.Tasks, Records: i.Records,
		Commands: i.Commands, Payloads: i.Payloads, Agents: i.Agents, Bytes: i.Bytes,
	}
	if !i.Oldest.IsZero() {
		view.Oldest, view.Newest = &i.Oldest, &i.Newest
	}
	return u.Document(view)
}

// storeInfo asks the server that uses the journal, or reads a journal that no server uses.
func storeInfo(ctx context.Context, s *discover.Session) (executor.Info, error) {
	if at := s.Config(); at.Server == "" {
		dir, err := at.Dir()
		if err != nil {
			return executor.Info{}, err
		}
		info, err := executor.StoreInfo(dir)
		if err == nil {
			return info, nil
		}
		if !errors.Is(err, executor.ErrLocked) {
			return executor.Info{}, storeError(dir, err)
		}
	}
	info, err := s.Tasks.GetStoreInfo(ctx, &executorv1.GetStoreInfoRequest{})
	return ofServer(info), err
}

func ofServer(s *executorv1.StoreInfo) executor.Info {
	i := executor.Info{
		Path: s.GetPath(), Size: s.GetSizeBytes(), Free: s.GetFreeBytes(), Schema: int(s.GetSchema()), Tasks: map[string]int{},
		Records: int(s.GetRecords()), Commands: int(s.GetCommands()), Payloads: int(s.GetPayloads()), Agents: int(s.GetAgents()), Bytes: s.GetBytes(), Log: s.GetLogBytes(),
	}
	for status, n := range s.GetTasks() {
		i.Tasks[status] = int(n)
	}
	if s.GetOldest() != nil {
		i.Oldest, i.Newest = s.GetOldest().AsTime(), s.GetNewest().AsTime()
	}
	return i
}

func showStore(u *ui.UI, i executor.Info) {
	st := u.OutStyle()
	row := func(name, format string, args ...any) {
		u.Printf("%s %s\n", st.Dim(fmt.Sprintf("%-9s", name)), ui.Line(fmt.Sprintf(format, args...)))
	}
	row("journal", "%s, schema %d", i.Path, i.Schema)
	row("size", "%s, %s of it free", ui.Bytes(i.Size), ui.Bytes(i.Free))
	row("log", "%s, used again and again", ui.Bytes(i.Log))
	total, parts := 0, []string{}
	for _, status := range slices.Sorted(maps.Keys(i.Tasks)) {
		total += i.Tasks[status]
		parts = append(parts, fmt.Sprintf("%d %s", i.Tasks[status], statusWord(status)))
	}
	row("tasks", "%s", strings.TrimSuffix(fmt.Sprintf("%d: %s", total, strings.Join(parts, ", ")), ": "))
	if !i.Oldest.IsZero() {
		row("created", "%s to %s", i.Oldest.Local().Format(time.DateTime), i.Newest.Local().Format(time.DateTime))
	}
	row("holds", "%d records, %d commands, %d large payloads, %d agents", i.Records, i.Commands, i.Payloads, i.Agents)
	for _, name := range slices.Sorted(maps.Keys(i.Bytes)) {
		row("", "%-12s %s", name, ui.Bytes(i.Bytes[name]))
	}
}

// statusWord is how people call a status of the API.
func statusWord(status string) string {
	return ui.StatusName(executorv1.ExecutorStatus(executorv1.ExecutorStatus_value["EXECUTOR_STATUS_"+status]))
}

// StoreCompactCmd is `pawl store compact`.
type StoreCompactCmd struct{}

// compactedView is what --json prints.
type compactedView struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// Run compacts the journal.
func (c *StoreCompactCmd) Run(u *ui.UI, s *discover.Session) error {
	dir, err := storeDir(s.Config())
	if err != nil {
		return err
	}
	before, after, err := executor.CompactStore(dir)
	if err != nil {
		return storeError(dir, err)
	}
	return u.Result(compactedView{Before: before, After: after}, "the journal is compacted: %s before, %s now", ui.Bytes(before), ui.Bytes(after))
}

// StoreCheckCmd is `pawl store check`.
type StoreCheckCmd struct{}

// checkedView is what --json prints.
type checkedView struct {
	Problems []problemView `json:"problems"`
}

type problemView struct {
	Where string `json:"where"`
	What  string `json:"what"`
}

// Run checks the journal.
func (c *StoreCheckCmd) Run(u *ui.UI, s *discover.Session) error {
	dir, err := storeDir(s.Config())
	if err != nil {
		return err
	}
	problems, err := executor.CheckStore(dir)
	if err != nil {
		return storeError(dir, err)
	}
	view := checkedView{Problems: []problemView{}}
	for _, p := range problems {
		view.Problems = append(view.Problems, problemView{Where: p.Where, What: p.What})
		u.Say("%s %s: %s", u.OutStyle().Red("✗"), ui.Line(p.Where), ui.Line(p.What))
	}
	if u.JSON {
		if err := u.Document(view); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return ui.Errorf("the journal is damaged; problems found: %d", len(problems)).
			Then("keep a copy of the data folder; pawl export TASK saves what can still be read")
	}
	u.Say("the journal is sound")
	return nil
}
