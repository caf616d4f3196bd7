package task

import (
	"cmp"
	"context"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// PlaybookCmd is `pawl playbook`.
type PlaybookCmd struct {
	Check PlaybookCheckCmd `cmd:"" help:"Check a playbook without running it."`
}

// PlaybookCheckCmd is `pawl playbook check`.
type PlaybookCheckCmd struct {
	File string `arg:"" type:"existingfile" help:"The playbook; - is standard input."`
}

// Run checks a playbook and lists the tools that it calls.
func (c *PlaybookCheckCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	text, err := readPlaybook(u, c.File)
	if err != nil {
		return err
	}
	found, err := s.Planner.CheckPlaybook(ctx, &plannerv1.CheckPlaybookRequest{Playbook: text})
	if err != nil {
		return err
	}
	t := u.Table("TOOL")
	for _, tool := range found.GetToolIds() {
		t.Row(tool)
	}
	if !u.JSON {
		u.Say("%s: %d steps", cmp.Or(found.GetName(), c.File), found.GetStepCount())
	}
	return u.List(found, t, "no tools")
}
