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
	Info    StoreInfoCmd    `cmd:"" default:"1" group:"sub" help:"Show what the journal holds."`
	Compact StoreCompactCmd `cmd:"" group:"sub" help:"Return the space of deleted tasks to the disk."`
	Check   StoreCheckCmd   `cmd:"" group:"sub" help:"Check the journal for damage."`
}

// storeDir returns the data folder of a command that uses no server. It refuses --server, but not PAWL_SERVER, which is meant for other
// commands.
func storeDir(cfg discover.Config) (string, error) {
	if cfg.Server != "" && cfg.Server != os.Getenv("PAWL_SERVER") {
		return "", ui.Usagef("pawl store compact and pawl store check work on a data folder, not through a server").Then("name the folder with --data DIR, and stop its server first")
	}
	return cfg.Dir()
}

// storeError explains why a journal cannot be opened.
func storeError(dir string, err error) error {
	switch {
	case errors.Is(err, executor.ErrLocked):
		return inUseError(dir, err, "then run this command again", "stop it with kill %d, then run this command again; its tasks go on when it starts again")
	case errors.Is(err, executor.ErrDamaged):
		return ui.WrapError(err, "%v", err).Then("keep a copy of the data folder; pawl store check says what is wrong with the journal, as far as it can be read")
	}
	return ui.WrapError(err, "%v", err)
}

// StoreInfoCmd is `pawl store info`.
type StoreInfoCmd struct{}

// Run prints a summary of the journal.
func (c *StoreInfoCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	info, err := storeInfo(ctx, s)
	if err != nil {
		return err
	}
	view := map[string]any{
		"path": info.GetPath(), "size": info.GetSizeBytes(), "free": info.GetFreeBytes(), "log": info.GetLogBytes(), "schema": info.GetSchema(),
		"tasks": info.GetTasks(), "records": info.GetRecords(), "commands": info.GetCommands(), "payloads": info.GetPayloads(), "agents": info.GetAgents(), "bytes": info.GetBytes(),
		"topics": info.GetTopics(), "outgoing": info.GetOutgoing(),
	}
	if info.GetOldest() != nil {
		view["oldest"], view["newest"] = info.GetOldest().AsTime(), info.GetNewest().AsTime()
	}
	return u.Show(view, nil, func() string { return storeText(u.OutStyle(), info) })
}

// storeInfo reads the journal. If a server uses the journal, or --server or PAWL_SERVER names one, storeInfo asks that server.
func storeInfo(ctx context.Context, s *discover.Session) (*executorv1.StoreInfo, error) {
	if cfg := s.Config(); cfg.Server == "" {
		dir, err := cfg.Dir()
		if err != nil {
			return nil, err
		}
		info, err := executor.StoreInfo(dir)
		if err == nil {
			return info, nil
		}
		if !errors.Is(err, executor.ErrLocked) {
			return nil, storeError(dir, err)
		}
	}
	return s.Tasks.GetStoreInfo(ctx, &executorv1.GetStoreInfoRequest{})
}

func storeText(st ui.Style, info *executorv1.StoreInfo) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%s %s\n", st.Dim(fmt.Sprintf("%-9s", name)), ui.Line(fmt.Sprintf(format, args...)))
	}
	row("journal", "%s, schema %d", info.GetPath(), info.GetSchema())
	row("size", "%s, %s of it free", ui.Bytes(info.GetSizeBytes()), ui.Bytes(info.GetFreeBytes()))
	row("log", "%s; its space is reused", ui.Bytes(info.GetLogBytes()))
	count := func(n int64, noun string) string { return ui.Plural(int(n), noun) }
	total, parts := int64(0), []string{}
	for _, status := range slices.Sorted(maps.Keys(info.GetTasks())) {
		total += info.GetTasks()[status]
		parts = append(parts, fmt.Sprintf("%d %s", info.GetTasks()[status], ui.StatusName(executorv1.ExecutorStatus(executorv1.ExecutorStatus_value["EXECUTOR_STATUS_"+status]))))
	}
	row("tasks", "%s", strings.TrimSuffix(fmt.Sprintf("%d: %s", total, strings.Join(parts, ", ")), ": "))
	if info.GetOldest() != nil {
		row("created", "%s to %s", info.GetOldest().AsTime().Local().Format(time.DateTime), info.GetNewest().AsTime().Local().Format(time.DateTime))
	}
	row("holds", "%s, %s, %s, %s", count(info.GetRecords(), "record"), count(info.GetCommands(), "command"), count(info.GetPayloads(), "large payload"), count(info.GetAgents(), "agent"))
	if info.GetTopics() > 0 {
		row("topics", "%d; %s waiting for agents", info.GetTopics(), count(info.GetOutgoing(), "message"))
	}
	for _, name := range slices.Sorted(maps.Keys(info.GetBytes())) {
		row("", "%-12s %s", name, ui.Bytes(info.GetBytes()[name]))
	}
	return b.String()
}

// StoreCompactCmd is `pawl store compact`.
type StoreCompactCmd struct{}

// Run compacts the journal.
func (c *StoreCompactCmd) Run(u *ui.UI, s *discover.Session) error {
	dir, err := storeDir(s.Config())
	if err != nil {
		return err
	}
	before, after, err := executor.CompactStore(dir)
	if err != nil {
		err = storeError(dir, err)
	}
	return u.Result(map[string]int64{"before": before, "after": after}, err, "the journal is compacted: %s before, %s now", ui.Bytes(before), ui.Bytes(after))
}

// StoreCheckCmd is `pawl store check`.
type StoreCheckCmd struct{}

// Run checks the journal.
func (c *StoreCheckCmd) Run(u *ui.UI, s *discover.Session) error {
	dir, err := storeDir(s.Config())
	if err != nil {
		return err
	}
	problems, err := executor.CheckStore(dir)
	switch {
	case errors.Is(err, executor.ErrDamaged): // storeError would suggest this command
		return ui.WrapError(err, "%v", err).Then("keep a copy of the data folder, then restore the folder from a backup; the journal cannot be opened, so nothing in it can be checked")
	case err != nil:
		return storeError(dir, err)
	}
	for _, p := range problems {
		u.Say("%s %s: %s", u.OutStyle().Red("✗"), ui.Line(p.Where), ui.Line(p.What))
	}
	if u.JSON {
		if err := u.Document(map[string]any{"problems": append([]executor.Problem{}, problems...)}); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return ui.Errorf("the journal is damaged; problems found: %d", len(problems)).
			Then("keep a copy of the data folder; save what can still be read with pawl export TASK, then restore the folder from a backup")
	}
	u.Say("the journal is sound")
	return nil
}
