package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
)

// spender is a planner of three branches that makes one model call for each answer.
type spender struct {
	mu     sync.Mutex // guards the field below
	spent  uint32
	before func(c *plannerv1.TaskContext)
}

func (s *spender) planner() *fake.Planner {
	p := branches("a:read,read b:read c:read", "read")
	plan := p.PlanFn
	p.PlanFn = func(ctx context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		if s.before != nil {
			s.before(c)
		}
		res, err := plan(ctx, c)
		if err == nil && c.GetModelCallsLeft() > 0 {
			res.Usage = &commonv1.Usage{ModelCalls: 1}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.spent++
		}
		return res, err
	}
	return p
}

func (s *spender) count() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent
}

// A question is asked only once its reservation is durable. So wherever the executor crashes, the planner never makes more model calls than the
// budget allows, although the calls that a crash interrupts are not recorded.
func TestCrashKeepsTheBudgetOfModelCalls(t *testing.T) {
	const budget = 12
	dir, first := t.TempDir(), &spender{}
	r := newRig(t, first.planner())
	first.before = func(c *plannerv1.TaskContext) {
		task, err := r.j.Store.Load(context.Background(), c.GetTaskId())
		if err != nil {
			t.Error(err)
			return
		}
		for _, l := range task.Checkpoint.GetLanes() {
			if l.GetSubtaskId() == c.GetBranch() && l.GetReservedModelCalls() != 0 {
				return
			}
		}
		t.Errorf("the planner is asked for %q, and stored are %v", c.GetBranch(), task.Checkpoint.GetLanes())
	}
	var copies []string
	var spent []uint32
	r.j.onCommit = func(_ journal.Transition, do func() error) error {
		if len(copies) > 0 {
			spent = append(spent, first.count())
		}
		err := do()
		copies = append(copies, r.copyTo(dir, len(copies)))
		return err
	}
	r.start()
	n := newTask(never)
	n.Head.Limits.MaxModelCalls = budget
	id := r.createAs(n)
	if s := r.finish(id); s != success {
		t.Errorf("without a crash the task is %s: %v", s, r.task(id).Checkpoint.GetError())
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	spent = append(spent, first.count())
	ends := map[string]int{}
	for i, path := range copies {
		again := &spender{}
		r := newRig(t, again.planner())
		r.path = path
		r.start()
		end := r.finish(id)
		ends[end.String()]++
		u := r.task(id).Checkpoint.GetUsage()
		if made := spent[i] + again.count(); made > budget || u.GetModelCalls() > budget || u.GetModelCalls() < made {
			t.Errorf("a crash after commit %d: %d model calls were made, %d are counted, %d are allowed", i, made, u.GetModelCalls(), budget)
		}
		if reason := r.task(id).Checkpoint.GetError().GetReason(); end != success && reason != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
			t.Errorf("a crash after commit %d: %s, %s", i, end, reason)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
	if ends[success.String()] == 0 {
		t.Errorf("the crashes end in %v", ends)
	}
}

// Lanes are told only what they have reserved, together never more than is left.
func TestLanesAreToldTheirShares(t *testing.T) {
	s := &spender{}
	p := s.planner()
	var mu sync.Mutex // guards told
	told := map[string][]uint64{}
	gate := newBarrier(t)
	s.before = func(c *plannerv1.TaskContext) {
		mu.Lock()
		told[c.GetBranch()] = append(told[c.GetBranch()], c.GetTokensLeft())
		mu.Unlock()
		if c.GetBranch() == "a" {
			gate.pass()
		}
	}
	r := newRig(t, p)
	r.start()
	n := newTask(never)
	n.Head.Limits.MaxTokens = 900
	id := r.createAs(n)
	gate.await()
	if held := flow.LaneOf(r.task(id).Checkpoint, 1).GetReservedTokens(); held != 300 {
		t.Errorf("the lane has reserved %d tokens", held)
	}
	gate.open()
	if s := r.finish(id); s != success {
		t.Errorf("%s: %v", s, r.task(id).Checkpoint.GetError())
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(told[""][:1], []uint64{900}) || told["a"][0] != 300 || told["b"][0] != 300 || told["c"][0] != 300 {
		t.Errorf("told are %v", told)
	}
}
