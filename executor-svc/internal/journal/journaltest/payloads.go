package journaltest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func payloadTests() map[string]test {
	return map[string]test{
		"LargeStrings":      largeStrings,
		"InputsOfSteps":     inputsOfSteps,
		"SharedPayloads":    sharedPayloads,
		"PayloadsOfMiB":     payloadsOfMiB,
		"RareFields":        rareFields,
		"LargeCommands":     largeCommands,
		"InputOfAnyKind":    inputOfAnyKind,
		"InputsWithoutFact": inputsWithoutFact,
	}
}

func big(c string) string { return strings.Repeat(c, 100<<10) }

func input(s string) *storagev1.Fact {
	return &storagev1.Fact{Ordinal: 1, Kind: &storagev1.Fact_StepInput{StepInput: s}}
}

func output(s string) *storagev1.Fact {
	return &storagev1.Fact{Ordinal: 1, Kind: &storagev1.Fact_StepOutput{StepOutput: s}}
}

// commit claims a task and commits a change of its checkpoint with these facts.
func commit(t *testing.T, j journal.Journal, n journal.NewTask, change func(*storagev1.Checkpoint), facts ...*storagev1.Fact) *storagev1.Checkpoint {
	t.Helper()
	c := claimTask(t, j, n.ID)
	defer yield(t, j, c)
	tr := transition(t, j, n, c.Epoch, running, nil)
	tr.Checkpoint.LastSeq += uint64(len(facts))
	if len(facts) > 0 {
		tr.Record = &storagev1.Record{Time: 1, Facts: facts}
	}
	change(tr.Checkpoint)
	want := proto.CloneOf(tr.Checkpoint)
	if err := j.Commit(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, tr.Checkpoint, protocmp.Transform()); d != "" {
		t.Errorf("Commit changed its argument: %s", d)
	}
	wantStored(t, j, n, want)
	return want
}

func wantStored(t *testing.T, j journal.Journal, n journal.NewTask, want *storagev1.Checkpoint) {
	t.Helper()
	got, err := j.Load(t.Context(), n.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got.Checkpoint, protocmp.Transform()); d != "" {
		t.Errorf("the checkpoint (-want +got): %.2000s", d)
	}
	if d := cmp.Diff(n.Head, got.Head, protocmp.Transform()); d != "" {
		t.Errorf("the head (-want +got): %.2000s", d)
	}
}

func largeStrings(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	n.Head.Goal, n.Head.Playbook = big("g"), big("p")
	create(t, j, n)
	want := commit(t, j, n, func(c *storagev1.Checkpoint) {
		c.Error = &storagev1.ErrorNote{ErrMsg: "it broke", DataJson: big("e")}
		c.Waits = []*storagev1.Wait{{Id: "w", Message: big("m")}}
	}, input(big("i")), output(big("o")), output(big("i")), output("\x00p"+strings.Repeat("\x00", 40)))
	j = restart(t, j, reopen)
	wantStored(t, j, n, want)
	rs, err := j.Records(t.Context(), n.ID, 1, 1)
	if err != nil || len(rs) != 1 {
		t.Fatalf("%d records, %v", len(rs), err)
	}
	facts := []*storagev1.Fact{input(big("i")), output(big("o")), output(big("i")), output("\x00p" + strings.Repeat("\x00", 40))}
	if d := cmp.Diff(facts, rs[0].GetFacts(), protocmp.Transform()); d != "" {
		t.Errorf("facts: %.2000s", d)
	}
	p, err := j.List(t.Context(), journal.Query{User: "ann", Limit: 1})
	if err != nil || len(p.Tasks) != 1 || p.Tasks[0].Head.GetGoal() != big("g") {
		t.Errorf("List: %v", err)
	}
}

func step(in string, seq uint64) func(*storagev1.Checkpoint) {
	return func(c *storagev1.Checkpoint) {
		c.Lanes = []*storagev1.Lane{{Step: &storagev1.ActiveStep{Ordinal: 1, ToolId: "t/echo", InputJson: in, InputSeq: seq, DefinitionHash: "d"}}}
	}
}

// The input of an active step is read back from any fact that holds it.
func inputsOfSteps(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	in := `{"text":"` + strings.Repeat("x", 1000) + `"}`
	commit(t, j, n, step(in, 2), input(in))
	commit(t, j, n, step(in, 2))
	j = restart(t, j, reopen)
	want := commit(t, j, n, step(in, 2), output("o"))
	wantStored(t, j, n, want)
	large := big("l")
	commit(t, j, n, step(large, 4), input(large))
	j = restart(t, j, reopen)
	want = commit(t, j, n, step(large, 4))
	wantStored(t, j, n, want)
	commit(t, j, n, func(c *storagev1.Checkpoint) { c.Lanes = nil })
}

func inputOfAnyKind(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	in := `{"text":"shown for approval"}`
	commit(t, j, n, func(c *storagev1.Checkpoint) {
		step(in, 3)(c)
		second := proto.CloneOf(c.GetLanes()[0].GetStep())
		second.Ordinal, second.InputJson, second.InputSeq = 2, `{"text":"a second lane"}`, 2
		c.Lanes = append(c.Lanes, &storagev1.Lane{Id: 1, Step: second})
	}, input(`{"text":"a second lane"}`), &storagev1.Fact{Kind: &storagev1.Fact_StepWaitingForStart{
		StepWaitingForStart: &storagev1.StepWaitingForStart{InputJson: in},
	}})
}

// An input is kept even if no fact holds it at its seq.
func inputsWithoutFact(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	in := `{"text":"nowhere else in the task"}`
	for _, seq := range []uint64{0, 1, 2, 3, 99} {
		commit(t, j, n, step(in, seq), input("another input of a step"))
	}
	commit(t, j, n, step("another input of a step", 2))
	j = restart(t, j, reopen)
	wantStored(t, j, n, commit(t, j, n, step(in, 2)))
}

// A payload of several tasks stays as long as one of them exists.
func sharedPayloads(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	var tasks []journal.NewTask
	for range 3 {
		n := NewTask("ann")
		n.Head.Goal = big("shared")
		create(t, j, n)
		commit(t, j, n, func(*storagev1.Checkpoint) {}, output(big("shared")))
		endTask(t, j, n, start)
		tasks = append(tasks, n)
	}
	for i, n := range tasks {
		for _, stored := range tasks[i:] {
			got, err := j.Load(t.Context(), stored.ID)
			if err != nil || got.Head.GetGoal() != big("shared") {
				t.Errorf("after %d deletions: %v", i, err)
			}
		}
		if err := j.Delete(t.Context(), n.ID); err != nil {
			t.Fatal(err)
		}
		j = restart(t, j, reopen)
	}
}

// Payloads of several MiB are shared and deleted as small ones are, and can be stored again.
func payloadsOfMiB(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	large := strings.Repeat("0123456789abcde", 600<<10)
	var tasks []journal.NewTask
	for range 3 {
		n := NewTask("ann")
		create(t, j, n)
		commit(t, j, n, func(*storagev1.Checkpoint) {}, output(large), output(large[:1<<20]))
		endTask(t, j, n, start)
		tasks = append(tasks, n)
		if len(tasks) == 2 {
			if err := j.Delete(t.Context(), tasks[0].ID); err != nil {
				t.Fatal(err)
			}
			if err := j.Delete(t.Context(), tasks[1].ID); err != nil { // the next task stores them again, perhaps before this is applied
				t.Fatal(err)
			}
		}
	}
	j = restart(t, j, reopen)
	got, err := j.Records(t.Context(), tasks[2].ID, 1, 1)
	if err != nil || len(got) != 1 || got[0].GetFacts()[0].GetStepOutput() != large || got[0].GetFacts()[1].GetStepOutput() != large[:1<<20] {
		t.Errorf("%d records, %v", len(got), err)
	}
}

// Fields of the checkpoint that rarely change can be set and cleared.
func rareFields(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	for _, name := range []string{"a name", "a name", "another name", "", "a name"} {
		commit(t, j, n, func(c *storagev1.Checkpoint) {
			c.Name, c.Risk = name, nil
			if name != "" {
				c.Risk = &storagev1.RiskNote{Reason: "because of " + name}
				c.Grants = append(c.Grants, &storagev1.Grant{ToolId: "t/echo"})
				c.UnknownCalls = append(c.UnknownCalls, []byte(strings.Repeat("h", 32)))
			} else {
				c.Grants, c.UnknownCalls = nil, nil
			}
		})
	}
	endTask(t, j, n, start)
	got, err := j.Load(t.Context(), n.ID)
	if err != nil || got.Checkpoint.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS || got.Checkpoint.GetName() != "a name" {
		t.Errorf("%v, %v", got, err)
	}
}

func largeCommands(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	c := &storagev1.Command{Id: "c", Kind: &storagev1.Command_Approve{Approve: &storagev1.Approve{WaitId: "w", InputJson: big("i")}}}
	no, err := j.Send(t.Context(), n.ID, c)
	if err != nil {
		t.Fatal(err)
	}
	j = restart(t, j, reopen)
	in, err := j.Inbox(t.Context(), n.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]journal.Command{{No: no, Command: c}}, in, protocmp.Transform()); d != "" {
		t.Errorf("%.2000s", d)
	}
}
