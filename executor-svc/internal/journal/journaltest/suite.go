package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/protobuf/testing/protocmp"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	initial = executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT
	running = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	waiting = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	success = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
)

// Run runs the contract. open returns an empty store, and reopen the same one after a restart of the process; both are
// closed by the test.
func Run(t *testing.T, open func(t *testing.T) (j journal.Journal, reopen func() journal.Journal)) {
	tests := map[string]func(*testing.T, journal.Journal, func() journal.Journal){
		"CreateAndLoad":       createAndLoad,
		"CreateIsIdempotent":  createIsIdempotent,
		"CommitFollows":       commitFollows,
		"StaleWriterRefused":  staleWriterRefused,
		"RecordsFromAnySeq":   recordsFromAnySeq,
		"Inbox":               inbox,
		"Runnable":            runnable,
		"ListPages":           listPages,
		"ListFilters":         listFilters,
		"UsersAreApart":       usersAreApart,
		"SurvivesReopening":   survivesReopening,
		"ConcurrentCommits":   concurrentCommits,
		"Agents":              agents,
		"ClosedIsSaid":        closedIsSaid,
		"UnknownTaskNotFound": unknownTask,
		"InvalidIsSaid":       invalidIsSaid,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j, reopen := open(t)
			test(t, j, reopen)
		})
	}
}

// NewTask returns a task in INIT with one fact.
func NewTask(user string) journal.NewTask {
	id := uuid.Must(uuid.NewV7()).String()
	return journal.NewTask{
		ID:         id,
		Head:       &storagev1.TaskHead{UserSub: user, Goal: "goal of " + id, CreateTime: time.Now().UnixNano()},
		Checkpoint: &storagev1.Checkpoint{Rev: 1, Status: initial, LastSeq: 1},
		Record:     record("created"),
	}
}

func record(texts ...string) *storagev1.Record {
	r := &storagev1.Record{Time: 1}
	for _, text := range texts {
		r.Facts = append(r.Facts, &storagev1.Fact{Kind: &storagev1.Fact_TextAdd{TextAdd: &storagev1.TextAdd{Text: text}}})
	}
	return r
}

func create(t *testing.T, j journal.Journal, n journal.NewTask) {
	t.Helper()
	if _, created, err := j.Create(t.Context(), n); err != nil || !created {
		t.Fatalf("Create: created=%v err=%v", created, err)
	}
}

// next commits a transition with these facts on top of what is stored.
func next(t *testing.T, j journal.Journal, n journal.NewTask, status executorv1.ExecutorStatus, folded []uint64, texts ...string) {
	t.Helper()
	if err := j.Commit(t.Context(), follow(t, j, n, status, folded, texts...)); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func follow(t *testing.T, j journal.Journal, n journal.NewTask, status executorv1.ExecutorStatus, folded []uint64, texts ...string) journal.Transition {
	t.Helper()
	cur, err := j.Load(t.Context(), n.ID)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	c := cur.Checkpoint
	c.Rev++
	c.Status = status
	c.LastSeq += uint64(len(texts))
	tr := journal.Transition{TaskID: n.ID, Head: n.Head, Checkpoint: c, Folded: folded}
	if len(texts) > 0 {
		tr.Record = record(texts...)
	}
	return tr
}

func texts(rs []journal.Record, after uint64) []string {
	var all []string
	for _, r := range rs {
		for i, f := range r.GetFacts() {
			if seq := r.FirstSeq + uint64(i); seq > after {
				all = append(all, fmt.Sprintf("%d:%s", seq, f.GetTextAdd().GetText()))
			}
		}
	}
	return all
}

func createAndLoad(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	got, err := j.Load(t.Context(), n.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := &journal.Task{ID: n.ID, Head: n.Head, Checkpoint: n.Checkpoint}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
}

func createIsIdempotent(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	first := NewTask("ann")
	first.Head.RequestId, first.Head.RequestHash = "r1", []byte("h")
	create(t, j, first)

	again := NewTask("ann")
	again.Head.RequestId, again.Head.RequestHash = "r1", []byte("h")
	id, created, err := j.Create(t.Context(), again)
	if err != nil || created || id != first.ID {
		t.Errorf("repeated request: id=%s created=%v err=%v, want the first id %s", id, created, err, first.ID)
	}
	again.Head.RequestHash = []byte("other")
	if _, _, err := j.Create(t.Context(), again); !errors.Is(err, journal.ErrRequestReused) {
		t.Errorf("different request: %v, want ErrRequestReused", err)
	}
	if found, err := j.FindRequest(t.Context(), "ann", "r1"); err != nil || found.ID != first.ID {
		t.Errorf("FindRequest: %v, %v; want %s", found, err, first.ID)
	}
	if _, err := j.FindRequest(t.Context(), "bob", "r1"); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("FindRequest of another user: %v, want ErrNotFound", err)
	}
	again.Head.UserSub = "bob"
	create(t, j, again)
}

func commitFollows(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	next(t, j, n, running, nil, "two", "three")
	next(t, j, n, running, nil)
	next(t, j, n, success, nil, "four")
	rs, err := j.Records(t.Context(), n.ID, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"1:created", "2:two", "3:three", "4:four"}, texts(rs, 0)); d != "" {
		t.Error(d)
	}
	got, _ := j.Peek(t.Context(), n.ID)
	if got.Checkpoint.GetRev() != 4 || got.Checkpoint.GetStatus() != success {
		t.Errorf("checkpoint %v", got.Checkpoint)
	}
}

func staleWriterRefused(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	stale := follow(t, j, n, running, nil, "lost")
	next(t, j, n, running, nil, "kept")
	if err := j.Commit(t.Context(), stale); !errors.Is(err, journal.ErrStale) {
		t.Errorf("Commit of a stale writer: %v, want ErrStale", err)
	}
	rs, _ := j.Records(t.Context(), n.ID, 0, 1<<20)
	if d := cmp.Diff([]string{"1:created", "2:kept"}, texts(rs, 0)); d != "" {
		t.Error(d)
	}
}

func recordsFromAnySeq(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	before, n, after := NewTask("ann"), NewTask("ann"), NewTask("ann")
	for _, task := range []journal.NewTask{before, n, after} {
		create(t, j, task)
	}
	next(t, j, n, running, nil, "2", "3", "4")
	next(t, j, n, running, nil, "5")
	next(t, j, n, running, nil, "6", "7")
	all := []string{"1:created", "2:2", "3:3", "4:4", "5:5", "6:6", "7:7"}
	for seq := range uint64(9) {
		for _, size := range []int{1, 1 << 20} {
			var got []string
			for at := seq; ; {
				rs, err := j.Records(t.Context(), n.ID, at, size)
				if err != nil {
					t.Fatal(err)
				}
				if len(rs) == 0 {
					break
				}
				got = append(got, texts(rs, at)...)
				last := rs[len(rs)-1]
				at = last.FirstSeq + uint64(len(last.GetFacts())) - 1
			}
			if d := cmp.Diff(all[min(seq, 7):], got, cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); d != "" {
				t.Errorf("after %d by %d bytes: %s", seq, size, d)
			}
		}
	}
}

func inbox(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	var nos []uint64
	for _, reason := range []string{"a", "b", "c"} {
		no, err := j.Send(t.Context(), n.ID, &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{Reason: reason}}})
		if err != nil {
			t.Fatal(err)
		}
		nos = append(nos, no)
	}
	if !slices.IsSorted(nos) || nos[0] == nos[1] || nos[1] == nos[2] {
		t.Errorf("numbers %v do not grow", nos)
	}
	next(t, j, n, running, nos[:2])
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = reopen()
	got, err := j.Load(t.Context(), n.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Inbox) != 1 || got.Inbox[0].No != nos[2] || got.Inbox[0].GetCancel().GetReason() != "c" {
		t.Errorf("inbox %v, want the third command alone", got.Inbox)
	}
	if in, err := j.Inbox(t.Context(), n.ID); err != nil || len(in) != 1 || in[0].No != nos[2] {
		t.Errorf("Inbox: %v, %v", in, err)
	}
	if no, err := j.Send(t.Context(), n.ID, &storagev1.Command{}); err != nil || no <= nos[2] {
		t.Errorf("number after a restart: %d, %v; want more than %d", no, err, nos[2])
	}
}

func runnable(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	ended, wait, run, asked := NewTask("ann"), NewTask("ann"), NewTask("bob"), NewTask("bob")
	for _, n := range []journal.NewTask{ended, wait, run, asked} {
		create(t, j, n)
		next(t, j, n, running, nil)
	}
	next(t, j, ended, success, nil)
	next(t, j, wait, waiting, nil)
	next(t, j, asked, waiting, nil)
	no, err := j.Send(t.Context(), asked.ID, &storagev1.Command{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := j.Runnable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{run.ID, asked.ID}, got); d != "" {
		t.Error(d)
	}
	next(t, j, asked, waiting, []uint64{no})
	if got, _ = j.Runnable(t.Context()); len(got) != 1 || got[0] != run.ID {
		t.Errorf("after folding: %v, want %s", got, run.ID)
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
	next(t, j, b, running, nil)
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

func usersAreApart(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	// One name is the beginning of the other.
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

func survivesReopening(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	n.Head.RequestId, n.Head.RequestHash = "r", []byte("h")
	create(t, j, n)
	next(t, j, n, running, nil, "two")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = reopen()
	next(t, j, n, running, nil, "three")
	rs, err := j.Records(t.Context(), n.ID, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"1:created", "2:two", "3:three"}, texts(rs, 0)); d != "" {
		t.Error(d)
	}
	if id, created, err := j.Create(t.Context(), n); err != nil || created || id != n.ID {
		t.Errorf("the request is forgotten: %s %v %v", id, created, err)
	}
}

func concurrentCommits(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	const tasks, commits = 16, 20
	var wg sync.WaitGroup
	for range tasks {
		n := NewTask("ann")
		create(t, j, n)
		wg.Go(func() {
			c := n.Checkpoint
			for i := range commits {
				c.Rev++
				c.LastSeq++
				if err := j.Commit(context.Background(), journal.Transition{TaskID: n.ID, Head: n.Head, Checkpoint: c, Record: record(fmt.Sprint(i))}); err != nil {
					t.Errorf("commit %d: %v", i, err)
					return
				}
			}
			rs, err := j.Records(context.Background(), n.ID, 1, 1<<20)
			if err != nil || len(rs) != commits {
				t.Errorf("%d records, %v; want %d", len(rs), err, commits)
			}
		})
	}
	wg.Wait()
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
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = reopen()
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

func closedIsSaid(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.Create(t.Context(), n); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Create: %v, want ErrClosed", err)
	}
	if _, err := j.Peek(t.Context(), n.ID); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Peek: %v, want ErrClosed", err)
	}
}

func unknownTask(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	for _, id := range []string{uuid.NewString(), "nonsense", ""} {
		n := NewTask("ann")
		_, send := j.Send(t.Context(), id, &storagev1.Command{})
		_, load := j.Load(t.Context(), id)
		commit := j.Commit(t.Context(), journal.Transition{TaskID: id, Head: n.Head, Checkpoint: n.Checkpoint})
		for name, err := range map[string]error{"Send": send, "Load": load, "Commit": commit} {
			if !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("%s(%q): %v, want ErrNotFound", name, id, err)
			}
		}
	}
}

func invalidIsSaid(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	if err := j.Commit(t.Context(), follow(t, j, n, running, nil, "not UTF-8: \xff")); !errors.Is(err, journal.ErrInvalid) {
		t.Errorf("Commit: %v, want ErrInvalid", err)
	}
	next(t, j, n, running, nil, "fine")
}
