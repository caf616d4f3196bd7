//go:build !race

package sim

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// planted are bugs that the checker must find, each with the words of a problem that it may report for it.
var planted = map[string]struct {
	plant plant
	want  []string
}{
	"an intent is acknowledged before it is durable": {
		plant{above: func(j journal.Journal) journal.Journal { return &lateIntents{Journal: j} }},
		[]string{"is called before its intent is durable"},
	},
	"a commit is acknowledged before it is durable": {
		plant{journal: func(j journal.Journal) journal.Journal { return &lateIntents{Journal: j} }},
		[]string{"facts can be read", "acknowledged before its end is durable"},
	},
	"a write is repeated after an unknown outcome": {
		plant{flow: onFlow(repeatUnknown)}, []string{"which was executed"},
	},
	"a seq is skipped": {
		plant{journal: func(j journal.Journal) journal.Journal { return skipSeq{j} }}, []string{"has seq"},
	},
	"an outcome is dropped after a cancel": {
		plant{flow: onFlow(dropBehindCancel)}, []string{"came back, and is not in the log"},
	},
	"an approval is applied to the next wait": {
		plant{flow: onFlow(approveNext)}, []string{"which no one approved"},
	},
	"a command is lost at a crash": {
		plant{journal: func(j journal.Journal) journal.Journal { return &lossySend{Journal: j} }},
		[]string{"commands", "but it had no effect", "is cancelled, but"},
	},
	"the epoch is forgotten in calls": {
		plant{request: func(r *mcppoolv1.CallToolRequest) { r.Epoch = 0 }}, []string{"is called with epoch 0"},
	},
	"claims do not tell owners apart": {
		plant{journal: func(j journal.Journal) journal.Journal {
			return &oneEpoch{Journal: j, real: map[string]uint64{}}
		}}, []string{"epoch 1 after 1"},
	},
	"an owner that lost its claim still writes": {
		plant{journal: func(j journal.Journal) journal.Journal { return &anyEpoch{Journal: j, newest: map[string]uint64{}} }},
		[]string{"an owner that lost its claim commits"},
	},
	"FLOW_START comes again": {
		plant{flow: func(f flow.Flow) flow.Flow { return beginsAgain{f} }}, []string{"FLOW_START again"},
	},
	"a failed step counts twice": {
		plant{flow: onFlow(countTwice)}, []string{"failed steps are counted"},
	},
	"what was approved is not what is called": {
		plant{flow: onFlow(callOther)}, []string{"which no one approved"},
	},
	"costs are forgotten": {
		plant{flow: onFlow(forgetCosts)}, []string{"is less than before"},
	},
	"a call is acknowledged to the pool too early": {
		plant{request: func(r *mcppoolv1.CallToolRequest) { r.AckCallIds = append(r.AckCallIds, r.GetCallId()) }},
		[]string{"acknowledged before its end is durable"},
	},
	"a slot too many is given": {
		plant{journal: func(j journal.Journal) journal.Journal { return moreSlots{j} }}, []string{"tasks run at once"},
	},
	"answers that may have arrived are given to another call": {
		plant{flow: onFlow(giveAnswersAgain), config: func(c *config) { c.asks, c.defers, c.poolCrashes, c.crashEvery = 1, 0, 6, 10 }}, []string{"answers that another call has", "is executed twice"},
	},
	"a cancel does not reach the call": {
		plant{flow: onFlow(stopNothing), config: func(c *config) { c.poolCrashes, c.crashEvery, c.netFails = 6, 10, 2 }},
		[]string{"is sent after a cancellation", "is answered after a cancellation"},
	},
	"an MCP task is forgotten with its process": {
		plant{flow: func(f flow.Flow) flow.Flow { return forgetsTasks{f} }, config: func(c *config) { c.defers, c.crashes, c.poolCrashes, c.crashEvery = 1, 4, 6, 10 }},
		[]string{"its server was not asked for the task"},
	},
	"an MCP task is asked for under another's name": {
		plant{flow: func(f flow.Flow) flow.Flow { return &mixesTasks{Flow: f} }, config: func(c *config) { c.defers, c.crashes, c.poolCrashes, c.crashEvery = 1, 4, 6, 10 }},
		[]string{"is asked for by the name of"},
	},
	"an approval outlives a change of the server": {
		plant{flow: onFlow(keepApproval), config: func(c *config) { c.changes, c.crashEvery = 8, 10 }},
		[]string{"which no one approved", "without an approval"},
	},
	"a branch's outcome is recorded in another": {
		plant{flow: onFlow(recordElsewhere), config: branching}, []string{"came back, and is not in the log"},
	},
	"a task stops while a branch runs": {
		plant{flow: onFlow(stopEarly), config: branching}, []string{"FLOW_STOP while attempt"},
	},
	"a wait is answered in another branch": {
		plant{flow: onFlow(answerOther), config: branching}, []string{", which is about step-"},
	},
	"the main line goes on while a branch runs": {
		plant{flow: onFlow(continueEarly), config: branching}, []string{"is called before the end of"},
	},
	"a subtask's outcome is recorded in another": {
		plant{coding: onFlow(recordElsewhere), config: withPlans}, []string{"came back, and is not in the log"},
	},
	"a task with a plan stops while a subtask runs": {
		plant{coding: onFlow(stopEarly), config: withPlans}, []string{"FLOW_STOP while attempt"},
	},
	"a wait is answered in another subtask": {
		plant{coding: onFlow(answerOther), config: withPlans}, []string{", which is about step-"},
	},
	"a subtask starts before the outcome of one that it depends on is durable": {
		plant{coding: onFlow(dependOnNothing), config: withPlans}, []string{"is called before the end of subtask"},
	},
	"a message is lost between its commit and its dispatch": {
		plant{journal: func(j journal.Journal) journal.Journal { return forgetfulOutbox{j} }, config: talking}, []string{"has not considered"},
	},
	"a message is dispatched twice": {
		plant{journal: func(j journal.Journal) journal.Journal { return repeatingDispatch{j} }, config: talking}, []string{"twice"},
	},
	"messages are dispatched out of order": {
		plant{journal: func(j journal.Journal) journal.Journal { return reversedOutbox{j} }, config: talking}, []string{"after message"},
	},
	"an ending is lost between its commit and its dispatch": {
		plant{journal: func(j journal.Journal) journal.Journal { return forgetsEndings{j} }, config: talking}, []string{"should have stopped"},
	},
	"an agent says twice that it is silent": {
		plant{journal: func(j journal.Journal) journal.Journal { return repeatingSilence{j} }, config: talking}, []string{"has considered"},
	},
	"messages of an archived topic are dropped": {
		plant{journal: func(j journal.Journal) journal.Journal { return dropsArchived{j} }, config: talking}, []string{"has not considered"},
	},
	"a reply is posted outside its transition": {
		plant{above: func(j journal.Journal) journal.Journal { return postsApart{j} }, config: talking},
		[]string{"has succeeded with 0 replies", "has received its message 0 times", "a piece of", "the end of a reply", "0 reports"},
	},
	"a reply to a message that was rolled back counts": {
		plant{journal: func(j journal.Journal) journal.Journal { return countsRolledBack{j} }, config: talking}, []string{"was rolled back"},
	},
	"an event is lost between its commit and its delivery": {
		plant{journal: func(j journal.Journal) journal.Journal { return forgetfulDeliveries{j} }, config: hookingTalks}, []string{"was not delivered"},
	},
	"events that wait are forgotten with their process": {
		plant{journal: func(j journal.Journal) journal.Journal { return forgottenDeliveries{j} }, config: hookingTalks}, []string{"events wait for delivery: true"},
	},
	"an event is delivered again although that was acknowledged": {
		plant{journal: func(j journal.Journal) journal.Journal { return repeatingDelivery{j} }, config: hooking}, []string{"although it was delivered"},
	},
	"events are delivered out of order": {
		plant{journal: func(j journal.Journal) journal.Journal { return reversedDeliveries{j} }, config: hookingTalks}, []string{"came after event"},
	},
	"a later step repeats a call with an unknown outcome": {
		plant{flow: onFlow(forgetUnknown), config: func(c *config) {
			c.repeats, c.asks, c.poolCrashes, c.breaks, c.crashEvery = 1, 0, 6, 6, 10
		}}, []string{"although it may have run"},
	},
}

// mostSeeds is how many seeds a planted bug may hide for.
const mostSeeds = 3000

// The checker finds each planted bug.
func TestPlantedBugsAreFound(t *testing.T) {
	dir := ram(t)
	for name, c := range planted {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			if err := os.Mkdir(own, 0o700); err != nil {
				t.Fatal(err)
			}
			for seed := uint64(1); seed <= mostSeeds; seed++ {
				o := simulate(t, seed, own, c.plant, false)
				removeJournal(own, seed)
				for _, problem := range o.problems {
					if slices.ContainsFunc(c.want, func(want string) bool { return strings.Contains(problem, want) }) {
						t.Logf("found with seed %d: %s", seed, problem)
						return
					}
				}
			}
			t.Errorf("not found with %d seeds", mostSeeds)
		})
	}
}

// changed is a flow whose inputs, states and transitions a bug changes.
type changed struct {
	flow.Flow
	on func(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error)
}

func onFlow(on func(flow.Flow, *flow.Task, uint32, flow.Input) (flow.Transition, error)) func(flow.Flow) flow.Flow {
	return func(f flow.Flow) flow.Flow { return changed{f, on} }
}

func (c changed) Apply(t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	return c.on(c.Flow, t, lane, in)
}

func repeatUnknown(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	other := *t
	other.Head = proto.Clone(t.Head).(*storagev1.TaskHead)
	other.Head.OnUnknownOutcome = executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY
	return f.Apply(&other, lane, in)
}

func dropBehindCancel(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	if c, ok := in.(flow.Called); ok && t.State.GetCancelRequested() {
		c.Outcome, c.Output = commonv1.Outcome_OUTCOME_UNKNOWN, ""
		c.Err = &storagev1.ErrorNote{ErrMsg: "cancelled", Reason: commonv1.ErrorReason_ERROR_REASON_CANCELLED}
		in = c
	}
	return f.Apply(t, lane, in)
}

func approveNext(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	if c, ok := in.(flow.Command); ok && c.GetApprove() != nil && len(t.State.GetWaits()) > 0 {
		other := proto.Clone(c.Command).(*storagev1.Command)
		other.GetApprove().WaitId = t.State.GetWaits()[0].GetId()
		in = flow.Command{Command: other}
	}
	return f.Apply(t, lane, in)
}

func countTwice(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	before := t.State.GetErrorCount()
	tr, err := f.Apply(t, lane, in)
	if err == nil && t.State.GetErrorCount() > before {
		t.State.ErrorCount++
	}
	return tr, err
}

func callOther(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	if c, ok := in.(flow.Command); ok && c.GetApprove() != nil {
		for _, s := range activeSteps(t.State) {
			s.InputJson, s.InputSeq = `{"text":"other"}`, 0
		}
	}
	return f.Apply(t, lane, in)
}

func forgetCosts(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	if _, ok := in.(flow.Called); ok {
		t.State.Usage = nil
	}
	return f.Apply(t, lane, in)
}

func forgetUnknown(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	t.State.UnknownCalls = nil
	return f.Apply(t, lane, in)
}

// beginsAgain starts a task again that is recovered while it plans.
type beginsAgain struct{ flow.Flow }

func (b beginsAgain) Resume(t *flow.Task, recovered bool) (flow.Transition, error) {
	if main := flow.LaneOf(t.State, 0); recovered && main.GetPhase() == storagev1.Phase_PHASE_PLAN {
		main.Phase = storagev1.Phase_PHASE_BEGIN
	}
	return b.Flow.Resume(t, recovered)
}

func stopNothing(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	tr, err := f.Apply(t, lane, in)
	tr.Actions = slices.DeleteFunc(tr.Actions, func(a flow.LaneAction) bool { _, stop := a.Action.(flow.StopCall); return stop })
	return tr, err
}

// forgetsTasks loses the ids of MCP tasks when another process resumes a task.
type forgetsTasks struct{ flow.Flow }

func (f forgetsTasks) Resume(t *flow.Task, recovered bool) (flow.Transition, error) {
	for _, s := range activeSteps(t.State) {
		s.McpTaskId = ""
	}
	return f.Flow.Resume(t, recovered)
}

// mixesTasks reports the first MCP task for every call.
type mixesTasks struct {
	flow.Flow
	mu    sync.Mutex
	first string
}

func (m *mixesTasks) Apply(t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	if named, ok := in.(flow.McpTask); ok {
		m.mu.Lock()
		named.TaskID, m.first = cmp.Or(m.first, named.TaskID), cmp.Or(m.first, named.TaskID)
		m.mu.Unlock()
		in = named
	}
	return m.Flow.Apply(t, lane, in)
}

// lateIntents says that an intent is durable, and stores it with the task's next transition.
type lateIntents struct {
	journal.Journal
	mu   sync.Mutex
	late map[string]journal.Transition
}

func (l *lateIntents) Commit(ctx context.Context, t journal.Transition) error {
	before, has := l.swap(t)
	if has {
		if err := l.Journal.Commit(ctx, before); err != nil {
			return err
		}
	}
	if calls(t.Checkpoint) {
		return nil
	}
	return l.Journal.Commit(ctx, t)
}

// swap takes out what is kept of a task, and keeps its newest intent.
func (l *lateIntents) swap(t journal.Transition) (before journal.Transition, has bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late == nil {
		l.late = map[string]journal.Transition{}
	}
	before, has = l.late[t.TaskID]
	delete(l.late, t.TaskID)
	if calls(t.Checkpoint) {
		l.late[t.TaskID] = t
	}
	return before, has
}

// calls reports whether a lane's call runs.
func calls(c *storagev1.Checkpoint) bool {
	return slices.ContainsFunc(c.GetLanes(), func(l *storagev1.Lane) bool { return l.GetPhase() == storagev1.Phase_PHASE_CALL })
}

// skipSeq loses count after the third event.
type skipSeq struct{ journal.Journal }

func (s skipSeq) Records(ctx context.Context, id string, after uint64, maxBytes int) ([]journal.Record, error) {
	rs, err := s.Journal.Records(ctx, id, after, maxBytes)
	for i := range rs {
		if rs[i].FirstSeq > 3 {
			rs[i].FirstSeq++
		}
	}
	return rs, err
}

// lossySend keeps commands in memory until the inbox is read.
type lossySend struct {
	journal.Journal
	mu   sync.Mutex
	held []heldCommand
}

type heldCommand struct {
	task    string
	command *storagev1.Command
}

func (l *lossySend) Send(_ context.Context, id string, c *storagev1.Command) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, heldCommand{id, c})
	return 0, nil
}

func (l *lossySend) flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if _, err := l.Journal.Send(ctx, h.task, h.command); err != nil {
			return err
		}
	}
	l.held = nil
	return nil
}

func (l *lossySend) Inbox(ctx context.Context, id string) ([]journal.Command, error) {
	if err := l.flush(ctx); err != nil {
		return nil, err
	}
	return l.Journal.Inbox(ctx, id)
}

func (l *lossySend) Claim(ctx context.Context, r journal.ClaimRequest) (journal.Claims, error) {
	if err := l.flush(ctx); err != nil {
		return journal.Claims{}, err
	}
	return l.Journal.Claim(ctx, r)
}

// oneEpoch calls every epoch 1.
type oneEpoch struct {
	journal.Journal
	mu   sync.Mutex
	real map[string]uint64
}

func (o *oneEpoch) Claim(ctx context.Context, r journal.ClaimRequest) (journal.Claims, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c, err := o.Journal.Claim(ctx, r)
	for i := range c.Claims {
		o.real[c.Claims[i].TaskID], c.Claims[i].Epoch = c.Claims[i].Epoch, 1
	}
	return c, err
}

func (o *oneEpoch) Commit(ctx context.Context, t journal.Transition) error {
	o.mu.Lock()
	t.Epoch = o.real[t.TaskID]
	o.mu.Unlock()
	return o.Journal.Commit(ctx, t)
}

func (o *oneEpoch) Yield(ctx context.Context, id string, _ uint64) error {
	o.mu.Lock()
	epoch := o.real[id]
	o.mu.Unlock()
	return o.Journal.Yield(ctx, id, epoch)
}

// anyEpoch commits every transition with the epoch of the newest owner.
type anyEpoch struct {
	journal.Journal
	mu     sync.Mutex
	newest map[string]uint64
}

func (a *anyEpoch) Claim(ctx context.Context, r journal.ClaimRequest) (journal.Claims, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, err := a.Journal.Claim(ctx, r)
	for _, claim := range c.Claims {
		a.newest[claim.TaskID] = claim.Epoch
	}
	return c, err
}

func (a *anyEpoch) Commit(ctx context.Context, t journal.Transition) error {
	a.mu.Lock()
	t.Epoch = a.newest[t.TaskID]
	a.mu.Unlock()
	return a.Journal.Commit(ctx, t)
}

// moreSlots claims with one slot too many.
type moreSlots struct{ journal.Journal }

func (m moreSlots) Claim(ctx context.Context, r journal.ClaimRequest) (journal.Claims, error) {
	r.Slots++
	return m.Journal.Claim(ctx, r)
}

// giveAnswersAgain treats every call that was lost after its answers as one that never got them.
func giveAnswersAgain(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	c, ended := in.(flow.Called)
	s := flow.ActiveStep(t.State, c.Ordinal)
	if ended && c.Lost && c.Outcome == commonv1.Outcome_OUTCOME_UNKNOWN && len(s.GetAnswers()) > 0 {
		in = flow.Undelivered{Ordinal: c.Ordinal, Attempt: c.Attempt, Err: c.Err}
	}
	return f.Apply(t, lane, in)
}
