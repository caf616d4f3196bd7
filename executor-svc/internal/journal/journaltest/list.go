package journaltest

import (
	"math/rand/v2"
	"slices"
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
		"ListsAgree":    listsAgreeWithAScan,
		"ListQueued":    listQueued,
		"UsersAreApart": usersAreApart,
	}
}

func listPages(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	var want []string
	for i := range 5 {
		n := NewTaskAt("ann", start.Add(time.Duration(i)*time.Millisecond)) // ids order tasks by their millisecond
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
	at := func(micros int64) time.Time { return time.UnixMicro(1_800_000_000_000_000 + micros) }
	a, b, c, d := NewTaskAt("ann", at(100)), NewTaskAt("ann", at(2200)), NewTaskAt("ann", at(2900)), NewTaskAt("ann", at(60_000_000))
	a.Head.AgentId, a.Head.ConversationId = "x", "conv"
	b.Head.AgentId = "x"
	c.Head.ConversationId = "conv"
	d.Head.AgentId, d.Head.ConversationId = "xy", "conv\x00sub"
	for _, n := range []journal.NewTask{a, b, c, d} {
		create(t, j, n)
	}
	commitNext(t, j, b, running, nil)
	endTask(t, j, d, start)
	bc, cb := []string{c.ID, b.ID}, []string{b.ID, c.ID}
	slices.Sort(cb) // within a millisecond ids have no order
	if cb[0] == c.ID {
		bc = []string{b.ID, c.ID}
	}
	for name, tc := range map[string]struct {
		q    journal.Query
		want []string
	}{
		"all":           {journal.Query{}, []string{d.ID, bc[0], bc[1], a.ID}},
		"status":        {journal.Query{Statuses: []executorv1.ExecutorStatus{running}}, []string{b.ID}},
		"statuses":      {journal.Query{Statuses: []executorv1.ExecutorStatus{running, success, waiting}}, []string{d.ID, b.ID}},
		"no status":     {journal.Query{Statuses: []executorv1.ExecutorStatus{waiting}}, nil},
		"agent":         {journal.Query{AgentID: "x"}, []string{b.ID, a.ID}},
		"no agent":      {journal.Query{AgentID: "y"}, nil},
		"conversation":  {journal.Query{ConversationID: "conv"}, []string{c.ID, a.ID}},
		"both":          {journal.Query{ConversationID: "conv", AgentID: "x"}, []string{a.ID}},
		"all three":     {journal.Query{ConversationID: "conv", AgentID: "x", Statuses: []executorv1.ExecutorStatus{initial}}, []string{a.ID}},
		"none has all":  {journal.Query{ConversationID: "conv", AgentID: "x", Statuses: []executorv1.ExecutorStatus{running}}, nil},
		"after":         {journal.Query{CreatedAfter: at(2200)}, []string{d.ID, bc[0], bc[1]}},
		"within":        {journal.Query{CreatedAfter: at(2201), CreatedBefore: at(2901)}, []string{c.ID}},
		"before":        {journal.Query{CreatedBefore: at(2900)}, []string{b.ID, a.ID}},
		"long before":   {journal.Query{CreatedBefore: time.Unix(0, 1)}, nil},
		"long after":    {journal.Query{CreatedAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, nil},
		"before, agent": {journal.Query{CreatedBefore: at(60_000_000), AgentID: "x"}, []string{b.ID, a.ID}},
	} {
		tc.q.User, tc.q.Limit = "ann", 10
		if d := cmp.Diff(tc.want, listed(t, j, tc.q)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// listed returns the ids of all pages of a list.
func listed(t *testing.T, j journal.Journal, q journal.Query) (ids []string) {
	t.Helper()
	for {
		p, err := j.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range p.Tasks {
			ids = append(ids, task.ID)
		}
		if !p.More {
			return ids
		}
		q.Before = ids[len(ids)-1]
	}
}

// Lists agree with a scan of all tasks, whatever is created, changed and deleted, also after a restart.
func listsAgreeWithAScan(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	m := &listModel{t: t, random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // it is repeatable
	for i := range 120 {
		m.create(j, firstInModel.Add(time.Duration(i)*7*time.Millisecond))
	}
	for range 60 {
		m.check(j, m.query())
	}
	j = restart(t, j, reopen)
	for range 60 {
		m.check(j, m.query())
	}
}

var firstInModel = time.UnixMilli(1_800_000_000_000)

// listModel holds the tasks of a journal, oldest first.
type listModel struct {
	t      *testing.T
	random *rand.Rand
	tasks  []journal.NewTask
}

func (m *listModel) pick(of ...string) string { return of[m.random.IntN(len(of))] }

// create creates a task, and may change or delete it.
func (m *listModel) create(j journal.Journal, at time.Time) {
	n := NewTaskAt("ann", at)
	n.Head.AgentId, n.Head.ConversationId = m.pick("", "x", "y"), m.pick("", "c", "c2")
	create(m.t, j, n)
	switch m.random.IntN(6) {
	case 0:
		endTask(m.t, j, n, start)
		if err := j.Delete(m.t.Context(), n.ID); err != nil {
			m.t.Fatal(err)
		}
		return
	case 1:
		endTask(m.t, j, n, start)
	case 2:
		commitNext(m.t, j, n, running, nil)
		commitNext(m.t, j, n, waiting, nil)
	case 3:
		commitNext(m.t, j, n, running, nil)
	}
	m.tasks = append(m.tasks, n)
}

// query returns some query.
func (m *listModel) query() journal.Query {
	q := journal.Query{User: "ann", Limit: 1 + m.random.IntN(20), AgentID: m.pick("", "x", "y"), ConversationID: m.pick("", "c", "c2")}
	for _, s := range []executorv1.ExecutorStatus{running, waiting, success} {
		if m.random.IntN(3) == 0 {
			q.Statuses = append(q.Statuses, s)
		}
	}
	if m.random.IntN(3) == 0 {
		q.CreatedAfter = firstInModel.Add(time.Duration(m.random.IntN(900)) * time.Millisecond)
	}
	return q
}

func (m *listModel) check(j journal.Journal, q journal.Query) {
	m.t.Helper()
	var want []string
	for _, n := range slices.Backward(m.tasks) {
		task, err := j.Load(m.t.Context(), n.ID)
		if err != nil {
			m.t.Fatal(err)
		}
		if matches(q, task) {
			want = append(want, n.ID)
		}
	}
	if d := cmp.Diff(want, listed(m.t, j, q)); d != "" {
		m.t.Fatalf("%+v: %s", q, d)
	}
}

func matches(q journal.Query, task *journal.Task) bool {
	return (q.AgentID == "" || q.AgentID == task.Head.GetAgentId()) && (q.ConversationID == "" || q.ConversationID == task.Head.GetConversationId()) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, task.Checkpoint.GetStatus())) && task.Head.GetCreateTime() >= q.CreatedAfter.UnixNano()
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
