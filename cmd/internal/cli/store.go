package cli

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
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/executor"
)

// StoreCmd is `pawl store`.
type StoreCmd struct {
	Info    StoreInfoCmd    `cmd:"" default:"1" group:"sub" help:"Say what is in the journal."`
	Compact StoreCompactCmd `cmd:"" group:"sub" help:"Give the space of deleted tasks back to the disk."`
	Check   StoreCheckCmd   `cmd:"" group:"sub" help:"Look for damage."`
}

// storeDir is the data folder that is worked on; no server has a say in it.
func (g *Globals) storeDir() (string, error) {
	if g.Server != "" && g.Server != os.Getenv("PAWL_SERVER") {
		return "", exit.Usagef("pawl store works on a data folder, not through a server").Then("--data DIR says which; stop its server first")
	}
	return g.dataDir()
}

// storeError explains why a journal cannot be worked on.
func (a *App) storeError(dir string, err error) error {
	switch {
	case errors.Is(err, executor.ErrLocked):
		inUse, pid := a.inUse(dir, err)
		if pid == 0 {
			return inUse.Then("stop that process, then run this command again")
		}
		return inUse.Then("stop it with kill %d, then run this command again; running tasks go on when it is started the next time", pid)
	case errors.Is(err, executor.ErrDamaged):
		return exit.Wrap(err, "%v", err).Then("keep a copy of the data folder; pawl store check says what is wrong with it, as far as it can be read")
	}
	return exit.Wrap(err, "%v", err)
}

// StoreInfoCmd is `pawl store info`.
type StoreInfoCmd struct{}

// Help is shown by --help.
func (StoreInfoCmd) Help() string {
	return `Asks the running server, which an operator may; without one it reads the data folder itself.

The journal of a server that was stopped is one file, journal.db: that is what a backup needs. While a server runs, and after it was killed,
journal.db-log0 and journal.db-log1 hold its newest changes: never move, copy or delete one without the others.

Examples:

    pawl store info
    pawl store info --data /var/lib/pawl --json`
}

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
func (c *StoreInfoCmd) Run(ctx context.Context, a *App, g *Globals) error {
	i, err := a.storeInfo(ctx, g)
	if err != nil {
		return err
	}
	if !g.JSON {
		a.showStore(i)
		return nil
	}
	view := storeView{
		Path: i.Path, Size: i.Size, Free: i.Free, Log: i.Log, Schema: i.Schema, Tasks: i.Tasks, Records: i.Records,
		Commands: i.Commands, Payloads: i.Payloads, Agents: i.Agents, Bytes: i.Bytes,
	}
	if !i.Oldest.IsZero() {
		view.Oldest, view.Newest = &i.Oldest, &i.Newest
	}
	return render.JSONValue(a.Console.Out, view)
}

// storeInfo asks the server that uses the journal, or reads the journal that nobody uses.
func (a *App) storeInfo(ctx context.Context, g *Globals) (executor.Info, error) {
	if g.Server == "" {
		dir, err := g.dataDir()
		if err != nil {
			return executor.Info{}, err
		}
		i, err := executor.StoreInfo(dir)
		if err == nil || !errors.Is(err, executor.ErrLocked) {
			return i, a.storeErrorOrNil(dir, err)
		}
	}
	var i executor.Info
	err := a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		info, err := executorv1.NewExecutorServiceClient(session).GetStoreInfo(ctx, &executorv1.GetStoreInfoRequest{})
		i = ofServer(info)
		return err
	})
	return i, err
}

func (a *App) storeErrorOrNil(dir string, err error) error {
	if err == nil {
		return nil
	}
	return a.storeError(dir, err)
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

func (a *App) showStore(i executor.Info) {
	st := a.outStyle()
	row := func(name, format string, args ...any) {
		a.printf("%s %s\n", st.Dim(fmt.Sprintf("%-9s", name)), render.Line(fmt.Sprintf(format, args...)))
	}
	row("journal", "%s, schema %d", i.Path, i.Schema)
	row("size", "%s, %s of it free", render.Bytes(i.Size), render.Bytes(i.Free))
	row("log", "%s, used again and again", render.Bytes(i.Log))
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
		row("", "%-12s %s", name, render.Bytes(i.Bytes[name]))
	}
}

// statusWord is how people call a status of the API.
func statusWord(status string) string {
	return render.StatusName(executorv1.ExecutorStatus(executorv1.ExecutorStatus_value["EXECUTOR_STATUS_"+status]))
}

// StoreCompactCmd is `pawl store compact`.
type StoreCompactCmd struct{}

// Help is shown by --help.
func (StoreCompactCmd) Help() string {
	return `Writes the journal anew without what was deleted. The file is replaced once the new one was checked, so that a crash loses
nothing; for that time the disk must have room for both. Works on the data folder while no server uses it.

Examples:

    pawl store compact
    pawl store compact --data /var/lib/pawl`
}

// compactedView is what --json prints.
type compactedView struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// Run compacts the journal.
func (c *StoreCompactCmd) Run(a *App, g *Globals) error {
	dir, err := g.storeDir()
	if err != nil {
		return err
	}
	before, after, err := executor.CompactStore(dir)
	if err != nil {
		return a.storeError(dir, err)
	}
	if g.JSON {
		return render.JSONValue(a.Console.Out, compactedView{Before: before, After: after})
	}
	a.printf("the journal is compacted: %s before, %s now\n", render.Bytes(before), render.Bytes(after))
	return nil
}

// StoreCheckCmd is `pawl store check`.
type StoreCheckCmd struct{}

// Help is shown by --help.
func (StoreCheckCmd) Help() string {
	return `Reads the whole journal and says what is wrong with it; it changes nothing. Works on the data folder while no server uses it.

Exit codes: 0 sound, 1 damaged.

Examples:

    pawl store check
    pawl store check --json | jq .problems`
}

// checkedView is what --json prints.
type checkedView struct {
	Problems []problemView `json:"problems"`
}

type problemView struct {
	Where string `json:"where"`
	What  string `json:"what"`
}

// Run checks the journal.
func (c *StoreCheckCmd) Run(a *App, g *Globals) error {
	dir, err := g.storeDir()
	if err != nil {
		return err
	}
	problems, err := executor.CheckStore(dir)
	if err != nil {
		return a.storeError(dir, err)
	}
	view := checkedView{Problems: []problemView{}}
	for _, p := range problems {
		view.Problems = append(view.Problems, problemView{Where: p.Where, What: p.What})
		a.say(g, "%s %s: %s", a.outStyle().Red("✗"), render.Line(p.Where), render.Line(p.What))
	}
	if g.JSON {
		if err := render.JSONValue(a.Console.Out, view); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return exit.Newf("the journal is damaged; problems found: %d", len(problems)).
			Then("keep a copy of the data folder; pawl export TASK saves what can still be read")
	}
	a.say(g, "the journal is sound")
	return nil
}
