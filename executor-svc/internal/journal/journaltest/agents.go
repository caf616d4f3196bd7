package journaltest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func agentTests() map[string]test {
	return map[string]test{"Agents": agents}
}

func agents(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	ctx := t.Context()
	a := &storagev1.Agent{DisplayName: "A", Rev: 1}
	steps := []struct {
		name string
		got  error
		want error
	}{
		{"create", j.PutAgent(ctx, "ann", "a", a, 0), nil},
		{"create again", j.PutAgent(ctx, "ann", "a", a, 0), journal.ErrExists},
		{"create for another", j.PutAgent(ctx, "bob", "a", a, 0), nil},
		{"update", j.PutAgent(ctx, "ann", "a", &storagev1.Agent{DisplayName: "B", Rev: 2}, 1), nil},
		{"stale update", j.PutAgent(ctx, "ann", "a", a, 1), journal.ErrStale},
		{"update of none", j.PutAgent(ctx, "ann", "z", a, 1), journal.ErrNotFound},
		{"stale delete", j.DeleteAgent(ctx, "ann", "a", 1), journal.ErrStale},
		{"delete of none", j.DeleteAgent(ctx, "ann", "z", 0), journal.ErrNotFound},
	}
	for _, s := range steps {
		if !errors.Is(s.got, s.want) {
			t.Errorf("%s: %v, want %v", s.name, s.got, s.want)
		}
	}
	for _, id := range []string{"c", "b"} {
		if err := j.PutAgent(ctx, "ann", id, a, 0); err != nil {
			t.Fatal(err)
		}
	}
	j = restart(t, j, reopen)
	var ids []string
	for after := ""; ; {
		page, err := j.ListAgents(ctx, "ann", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			ids = append(ids, e.ID)
		}
		after = ids[len(ids)-1]
	}
	if d := cmp.Diff([]string{"a", "b", "c"}, ids); d != "" {
		t.Error(d)
	}
	if got, err := j.Agent(ctx, "ann", "a"); err != nil || got.GetDisplayName() != "B" {
		t.Errorf("Agent: %v, %v", got, err)
	}
	if err := j.DeleteAgent(ctx, "ann", "a", 2); err != nil {
		t.Error(err)
	}
	if _, err := j.Agent(ctx, "ann", "a"); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("after delete: %v", err)
	}
}
