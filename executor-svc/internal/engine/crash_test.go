package engine_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// edit changes a journal that is not open.
func edit(t *testing.T, path string, change func(journal.Tasks) error) {
	t.Helper()
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := change(s); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// finish answers all waits of a task until it has ended: it approves, skips calls whose outcome is unknown, and accepts or declines
// questions (see rig.accepts).
func (r *rig) finish(id string) executorv1.ExecutorStatus {
	r.t.Helper()
	for range 100 {
		if s := r.await(id, waiting, success, failed, cancelled); s != waiting {
			return s
		}
		for _, w := range r.task(id).Checkpoint.GetWaits() {
			answer := approveCommand(w.GetId())
			switch w.GetKind() {
			case executorv1.WaitKind_WAIT_KIND_OUTCOME:
				answer = &storagev1.Command{Kind: &storagev1.Command_Outcome{Outcome: &storagev1.SettleOutcome{
					WaitId: w.GetId(), Answer: &storagev1.SettleOutcome_Skip{},
				}}}
			case executorv1.WaitKind_WAIT_KIND_INPUT:
				answer = &storagev1.Command{Kind: &storagev1.Command_Input{Input: &storagev1.SupplyInput{
					WaitId: w.GetId(), Action: executorv1.InputAnswer_ACTION_DECLINE,
				}}}
				if r.accepts {
					answer.GetInput().Action, answer.GetInput().ContentJson = executorv1.InputAnswer_ACTION_ACCEPT, "{}"
				}
			}
			wantAnswer(r.t, "the answer", r.send(id, answer), 0, taskEnded, waitNotOpen)
		}
	}
	r.t.Fatalf("task %s asks again and again: %v", id, r.types(id))
	return 0
}

// crashes runs a task to its end. It returns a copy of the journal after each commit, and how many calls may have been made before the
// next commit.
func crashes(t *testing.T, p *fake.Planner, confirm executorv1.Confirm) (r *rig, id string, copies []string, calls []int) {
	dir := t.TempDir()
	r = newRig(t, p)
	r.j.onCommit = func(_ journal.Transition, do func() error) error {
		if len(copies) > 0 {
			calls = append(calls, len(r.pool.Called()))
		}
		err := do()
		copies = append(copies, r.copyTo(dir, len(copies)))
		return err
	}
	r.start()
	id = r.create(confirm)
	if s := r.finish(id); s != success {
		t.Errorf("without a crash the task is %s", s)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	return r, id, copies, append(calls, len(r.pool.Called()))
}

// copyTo keeps the journal as a crash would leave it now.
func (r *rig) copyTo(dir string, n int) (path string) {
	path = filepath.Join(dir, fmt.Sprintf("%d.db", n))
	journaltest.Copy(r.t, journaltest.Files(r.path), journaltest.Files(path))
	return path
}

// Wherever the executor crashes, the task goes on to its end, its log has no gap, and no tool call with a side effect is repeated; neither in
// a task with three branches (A9, A26).
func TestCrashAtEachCommit(t *testing.T) {
	for _, tool := range []string{"read", "write"} {
		for _, confirm := range []executorv1.Confirm{never, always} {
			t.Run(fmt.Sprintf("%s %s", tool, confirm), func(t *testing.T) {
				unknown := crashAtEachCommit(t, tool, confirm, func() *fake.Planner { return fake.Script(tool, tool) })
				if want := map[string]int{"write": 2}[tool]; unknown != want {
					t.Errorf("%d crashes leave an unknown outcome, want %d: the intents", unknown, want)
				}
			})
			t.Run(fmt.Sprintf("%s %s in branches", tool, confirm), func(t *testing.T) {
				unknown := crashAtEachCommit(t, tool, confirm, func() *fake.Planner {
					return branches(fmt.Sprintf("a:%[1]s,%[1]s b:%[1]s c:%[1]s", tool), tool)
				})
				if tool == "read" && unknown > 0 || tool == "write" && unknown < 5 {
					t.Errorf("%d unknown outcomes; each of the five intents of write leaves at least one", unknown)
				}
			})
		}
	}
}

// crashAtEachCommit returns how many unknown outcomes there are after the crashes.
func crashAtEachCommit(t *testing.T, tool string, confirm executorv1.Confirm, p func() *fake.Planner) (unknown int) {
	before, id, copies, calls := crashes(t, p(), confirm)
	for i, path := range copies {
		r := newRig(t, p())
		r.path = path
		r.start()
		if end := r.finish(id); end != success {
			t.Errorf("a crash after commit %d: %s, %v", i, end, r.task(id).Checkpoint.GetError())
		}
		for _, e := range r.events(id) {
			if e.GetStepWaitingForStart().GetOutcomeUnknown() {
				unknown++
			}
		}
		seen := map[string]bool{}
		for _, c := range slices.Concat(before.pool.Called()[:calls[i]], r.pool.Called()) {
			if tool == "write" && seen[c.GetInputJson()] {
				t.Errorf("a crash after commit %d repeats %s", i, c.GetInputJson())
			}
			seen[c.GetInputJson()] = true
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
	return unknown
}
