package bolt_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	running = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	success = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
)

// worker makes the transitions of a task of the agent flow: two per step, the intent and the outcome.
type worker struct {
	s     *bolt.Store
	n     journal.NewTask
	epoch uint64
	cp    *storagev1.Checkpoint
	now   int64
	// made collects transitions instead of committing them, if it is not nil.
	made *[]journal.Transition
}

func newWorker(ctx context.Context, s *bolt.Store, user string) (*worker, error) {
	n := journaltest.NewTask(user)
	n.Head.Goal, n.Head.Flow, n.Head.Model = "How many Go files are there in the folder?", "agent", "offline"
	n.Head.Limits = &storagev1.Limits{MaxSteps: 25, MaxFailedSteps: 3, MaxAttempts: 5}
	w := &worker{s: s, n: n, now: 1_800_000_000_000_000_000}
	n.Checkpoint.UpdateTime = w.now
	n.Records[0].Time = w.now
	n.Records[0].Facts = []*storagev1.Fact{{Status: running, Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{}}}}
	if _, _, err := s.Create(ctx, n); err != nil {
		return nil, err
	}
	w.cp = n.Checkpoint
	return w, nil
}

// own claims all due tasks and sets the epochs of the workers.
func own(ctx context.Context, s *bolt.Store, workers []*worker) error {
	c, err := s.Claim(ctx, journal.ClaimRequest{Slots: 1 << 20, Max: 1 << 20})
	if err != nil {
		return err
	}
	epochs := map[string]uint64{}
	for _, c := range c.Claims {
		epochs[c.TaskID] = c.Epoch
	}
	for _, w := range workers {
		w.epoch = epochs[w.n.ID]
	}
	return nil
}

func (w *worker) commit(ctx context.Context, status executorv1.ExecutorStatus, facts ...*storagev1.Fact) error {
	w.now += 1_000_000
	w.cp.Rev++
	w.cp.Status, w.cp.UpdateTime = status, w.now
	w.cp.LastSeq += uint64(len(facts))
	usage := &storagev1.Usage{ModelCalls: w.cp.GetStepCount(), ToolCalls: w.cp.GetStepCount(), InputTokens: 1000, OutputTokens: 100}
	w.cp.Usage = usage
	if status == success {
		w.cp.EndTime = w.now
	}
	for _, f := range facts {
		f.Status = status
	}
	t := journal.Transition{TaskID: w.n.ID, Epoch: w.epoch, Head: w.n.Head, Checkpoint: w.cp,
		Record: &storagev1.Record{Time: w.now, Usage: usage, Facts: facts}}
	if w.made != nil {
		t.Checkpoint = proto.CloneOf(w.cp)
		*w.made = append(*w.made, t)
		return nil
	}
	return w.s.Commit(ctx, t)
}

const tool = "workspace/search_files"

// intent begins a step; payload is the size of its input.
func (w *worker) intent(ctx context.Context, payload int) error {
	w.cp.StepCount++
	ordinal := w.cp.GetStepCount()
	in := fmt.Sprintf(`{"pattern":"**/%d%s"}`, ordinal%10, strings.Repeat("x", payload))
	facts := []*storagev1.Fact{
		{Ordinal: ordinal, ToolId: tool, StepStatus: executorv1.StepStatus_STEP_STATUS_INIT, Kind: &storagev1.Fact_StepInit{StepInit: "Find the files that the goal is about"}},
		{Ordinal: ordinal, ToolId: tool, Attempt: 1, StepStatus: executorv1.StepStatus_STEP_STATUS_RUNNING, Kind: &storagev1.Fact_StepInput{StepInput: in}},
	}
	if ordinal == 1 {
		w.cp.Name, w.cp.Risk = "Count files", &storagev1.RiskNote{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "It only reads."}
		w.cp.FlowStartSeq = w.cp.GetLastSeq() + 1
		facts = append([]*storagev1.Fact{{Kind: &storagev1.Fact_FlowStart{FlowStart: &storagev1.FlowStart{Name: w.cp.GetName(), Risk: w.cp.GetRisk()}}}}, facts...)
	}
	w.cp.Lanes = []*storagev1.Lane{{Phase: storagev1.Phase_PHASE_CALL, Step: &storagev1.ActiveStep{Ordinal: ordinal, ToolId: tool, Description: "Find the files that the goal is about",
		Status: executorv1.StepStatus_STEP_STATUS_RUNNING, Attempt: 1, InputJson: in, InputSeq: w.cp.GetLastSeq() + uint64(len(facts)),
		Effect: commonv1.Effect_EFFECT_READ, Idempotent: true, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_LOW,
		DefinitionHash: strings.Repeat("0123456789abcdef", 4), ConfigRevision: 1, PoolId: "pool-1",
		Risk: &storagev1.RiskNote{Level: commonv1.RiskLevel_RISK_LEVEL_LOW}}}}
	return w.commit(ctx, running, facts...)
}

// outcome ends the step; payload is the size of its output, which no other step has.
func (w *worker) outcome(ctx context.Context, payload int) error {
	w.cp.Lanes = []*storagev1.Lane{{Phase: storagev1.Phase_PHASE_PLAN}}
	unique := fmt.Sprintf("%s %d ", w.n.ID, w.cp.GetStepCount())
	return w.commit(ctx, running, &storagev1.Fact{Ordinal: w.cp.GetStepCount(), ToolId: tool, Attempt: 1, StepStatus: executorv1.StepStatus_STEP_STATUS_SUCCESS,
		Kind: &storagev1.Fact_StepOutput{StepOutput: `{"lines":"` + strings.Repeat(unique, payload/len(unique)+1)[:payload] + `"}`}})
}

func (w *worker) finish(ctx context.Context) error {
	w.cp.Lanes = nil
	text := "There are 42 Go files in the folder."
	err := w.commit(ctx, success,
		&storagev1.Fact{Kind: &storagev1.Fact_TextAdd{TextAdd: &storagev1.TextAdd{Answer: 1, Text: text}}},
		&storagev1.Fact{Kind: &storagev1.Fact_FlowSuccess{FlowSuccess: &storagev1.FlowSuccess{Answer: 1, FullAnswer: text}}})
	if err != nil {
		return err
	}
	return w.s.Yield(ctx, w.n.ID, w.epoch)
}

// run makes the transitions of a whole task with that many steps.
func (w *worker) run(ctx context.Context, steps, payload int) error {
	for range steps {
		if err := w.intent(ctx, payload); err != nil {
			return err
		}
		if err := w.outcome(ctx, payload); err != nil {
			return err
		}
	}
	return w.finish(ctx)
}

func finishTasks(t testing.TB, s *bolt.Store, tasks, steps int) {
	t.Helper()
	var workers []*worker
	for range tasks {
		w, err := newWorker(t.Context(), s, "ann")
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, w)
	}
	if err := own(t.Context(), s, workers); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, len(workers))
	for _, w := range workers {
		go func() { done <- w.run(context.Background(), steps, 60) }()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}
