package journaltest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
)

func listTests() map[string]test {
	return map[string]test{
		"ListPages":     listPages,
		"ListFilters":   listFilters,
		"ListQueued":    listQueued,
		"UsersAreApart": usersAreApart,
	}
}

func listPages(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	var want []string
	for range 5 {
		n := NewTask("ann")
		create(t, j, n)
		want = append([]string{n.ID}, want...)
	}
	var got []string
	before := ""
	for {
		p, err := j.List(t.Context(), journal.Query{User: "ann", Before: before, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range p.Tasks {
			got = append(got, task.ID)
		}
		if !p.More {
			break
		}
		before = p.Tasks[len(p.Tasks)-1].ID
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func listFilters(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	a, b, c := NewTask("ann"), NewTask("ann"), NewTask("ann")
	a.Head.AgentId, a.Head.ConversationId, a.Head.CreateTime = "x", "conv", 100
	b.Head.AgentId, b.Head.CreateTime = "x", 200
	c.Head.ConversationId, c.Head.CreateTime = "conv", 300
	for _, n := range []journal.NewTask{a, b, c} {
		create(t, j, n)
	}
	commitNext(t, j, b, running, nil)
	for name, tc := range map[string]struct {
		q    journal.Query
		want []string
	}{
		"all":          {journal.Query{}, []string{c.ID, b.ID, a.ID}},
		"status":       {journal.Query{Statuses: []executorv1.ExecutorStatus{running}}, []string{b.ID}},
		"agent":        {journal.Query{AgentID: "x"}, []string{b.ID, a.ID}},
		"conversation": {journal.Query{ConversationID: "conv"}, []string{c.ID, a.ID}},
		"both":         {journal.Query{ConversationID: "conv", AgentID: "x"}, []string{a.ID}},
		"after":        {journal.Query{CreatedAfter: time.Unix(0, 200)}, []string{c.ID, b.ID}},
		"before":       {journal.Query{CreatedBefore: time.Unix(0, 200)}, []string{a.ID}},
	} {
		tc.q.User, tc.q.Limit = "ann", 10
		p, err := j.List(t.Context(), tc.q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, task := range p.Tasks {
			got = append(got, task.ID)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func listQueued(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	queued := func(want bool, when string) {
		t.Helper()
		p, err := j.List(t.Context(), journal.Query{User: "ann", Limit: 1})
		if err != nil || len(p.Tasks) != 1 || p.Tasks[0].Queued != want {
			t.Errorf("%s: List: %v, %v; want queued=%v", when, p.Tasks, err, want)
		}
		if task, err := j.Load(t.Context(), n.ID); err != nil || task.Queued != want {
			t.Errorf("%s: Load: %v, %v; want queued=%v", when, task, err, want)
		}
	}
	queued(true, "new")
	c := claimTask(t, j, n.ID)
	queued(false, "owned with a slot")
	if err := j.Commit(t.Context(), transition(t, j, n, c.Epoch, waiting, nil)); err != nil {
		t.Fatal(err)
	}
	yield(t, j, c)
	queued(false, "waiting")
	no := send(t, j, n.ID)
	queued(true, "answered")
	c = claim(t, j, 0)[0]
	if err := j.Commit(t.Context(), transition(t, j, n, c.Epoch, running, []uint64{no})); err != nil {
		t.Fatal(err)
	}
	queued(true, "owned without a slot")
	yield(t, j, c)
	endTask(t, j, n, start)
	send(t, j, n.ID)
	queued(false, "ended")
}

func usersAreApart(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	// One user's name is a prefix of the other's.
	for _, user := range []string{"ann", "anna"} {
		n := NewTask(user)
		n.Head.ConversationId = "c"
		create(t, j, n)
	}
	for _, q := range []journal.Query{{User: "ann", Limit: 10}, {User: "ann", Limit: 10, ConversationID: "c"}, {User: "anna", Limit: 10}} {
		p, err := j.List(t.Context(), q)
		if err != nil || len(p.Tasks) != 1 || p.Tasks[0].Head.GetUserSub() != q.User {
			t.Errorf("%+v: %v, %v", q, p.Tasks, err)
		}
	}
	if p, err := j.List(t.Context(), journal.Query{User: "an", Limit: 10}); err != nil || len(p.Tasks) != 0 {
		t.Errorf("a third user sees %v, %v", p.Tasks, err)
	}
}
