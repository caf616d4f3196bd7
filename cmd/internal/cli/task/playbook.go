package task

import (
	"cmp"
	"context"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// usualSteps is how many steps a task may take by default.
const usualSteps = 25

// maxPlaybook is how many bytes of a playbook the services take.
const maxPlaybook = 256 << 10

// readPlaybook returns the text of a file; `-` is standard input.
func readPlaybook(u *ui.UI, file string) (string, error) {
	in, name := u.In, "on standard input"
	switch {
	case file != "-":
		f, err := os.Open(file)
		if err != nil {
			return "", ui.Errorf("read the playbook: %v", err)
		}
		defer func() { _ = f.Close() }()
		in, name = f, file
	case u.InTTY:
		return "", ui.Usagef("there is no playbook on standard input, which is a terminal").
			Then("pawl run --playbook FILE, or pawl run --playbook - < FILE")
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxPlaybook+1))
	switch text := string(raw); {
	case err != nil:
		return "", ui.Errorf("read the playbook: %v", err)
	case len(text) > maxPlaybook:
		return "", ui.Usagef("the playbook %s has more than %d bytes", name, maxPlaybook).Then("make several of it")
	case !utf8.ValidString(text):
		return "", ui.Usagef("the playbook %s is not UTF-8 text", name).Then("give a YAML file, saved as UTF-8")
	case strings.TrimSpace(text) == "":
		return "", ui.Usagef("the playbook %s is empty", name).Then("write its steps, or leave --playbook out")
	default:
		return text, nil
	}
}

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
		return cmp.Or(c.problems(u, err), err)
	}
	if n := found.GetStepCount(); n > usualSteps {
		u.Warn("a task takes at most %d steps, unless the server or its agent allows more; to run this one, raise --max-steps to %d", usualSteps, n)
	}
	t := u.Table("TOOL")
	for _, tool := range found.GetToolIds() {
		t.Row(tool)
	}
	if !u.JSON {
		u.Say("%s: %d steps", cmp.Or(found.GetName(), c.File), found.GetStepCount())
	}
	return u.List(found, nil, t, "no tools")
}

// problems writes what is wrong with the playbook as JSON, if JSON is wanted.
func (c *PlaybookCheckCmd) problems(u *ui.UI, err error) error {
	wrong := errs.From(err).Violations
	if !u.JSON || len(wrong) == 0 {
		return nil
	}
	list := make([]string, len(wrong))
	for i, v := range wrong {
		list[i] = v.Description
	}
	return u.Document(map[string]any{"problems": list})
}

// inputs returns the playbook's inputs as JSON; "" if none are given. The playbook's schema says what each value is.
func (c *RunCmd) inputs(ctx context.Context, s *discover.Session, playbook string) (string, error) {
	switch {
	case len(c.Input) == 0:
		return c.Inputs, nil
	case playbook == "":
		return "", ui.Usagef("--input is for playbooks").Then("give one with --playbook FILE")
	}
	found, err := s.Planner.CheckPlaybook(ctx, &plannerv1.CheckPlaybookRequest{Playbook: playbook})
	if err != nil {
		return "", err
	}
	inputs, err := ui.ObjectOfPairs(found.GetInputsSchemaJson(), c.Input, false, false)
	if err != nil {
		return "", ui.Usagef("--input: %v", err).Then("--input NAME=VALUE")
	}
	return inputs, nil
}
