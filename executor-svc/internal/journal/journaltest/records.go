package journaltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"pawl.dev/executor-svc/internal/journal"
)

func recordTests() map[string]test {
	return map[string]test{
		"RecordsFromAnySeq": recordsFromAnySeq,
		"Fork":              fork,
	}
}

func recordsFromAnySeq(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	before, n, after := NewTask("ann"), NewTask("ann"), NewTask("ann")
	for _, task := range []journal.NewTask{before, n, after} {
		create(t, j, task)
	}
	commitNext(t, j, n, running, nil, "2", "3", "4")
	commitNext(t, j, n, running, nil, "5")
	commitNext(t, j, n, running, nil, "6", "7")
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

// A fork is created with the records that it shares.
func fork(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	n.Records = []journal.Record{
		{FirstSeq: 1, Record: record("a", "b")}, {FirstSeq: 3, Record: record("c")}, {FirstSeq: 4, Record: record("d", "e")},
	}
	n.Checkpoint.LastSeq = 5
	create(t, j, n)
	commitNext(t, j, n, running, nil, "f")
	j = restart(t, j, reopen)
	rs, err := j.Records(t.Context(), n.ID, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(append(n.Records, journal.Record{FirstSeq: 6, Record: record("f")}), rs, protocmp.Transform()); d != "" {
		t.Error(d)
	}
	for name, wrong := range map[string][]journal.Record{
		"a gap":       {{FirstSeq: 1, Record: record("a")}, {FirstSeq: 3, Record: record("b", "c", "d")}},
		"too few":     {{FirstSeq: 1, Record: record("a")}},
		"no facts":    {{FirstSeq: 1, Record: record()}},
		"begins late": {{FirstSeq: 2, Record: record("a", "b", "c", "d")}},
	} {
		bad := NewTask("ann")
		bad.Records, bad.Checkpoint.LastSeq = wrong, 5
		if _, _, err := j.Create(t.Context(), bad); err == nil {
			t.Errorf("%s was stored", name)
		}
	}
}
