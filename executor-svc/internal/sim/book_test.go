package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// book is what really happened: what became durable and in which order, what reached the pool, what was executed, what
// came back to which process, and what people said. Rules that can be checked at once are checked here.
type book struct {
	mu       sync.Mutex // guards everything here
	problems []string
	tasks    map[string]*taskBook
	order    []*taskBook
	slots    int
	answers  []*answerNote
	// commands holds the ids of durable commands, by the person who sent them.
	commands map[string][]string
	// requests holds the times of accepted requests, by user.
	requests map[string][]time.Time
	talks    []*talkBook
	hooks    []*hookBook
	clock    int // counts what people did in topics
}

type taskBook struct {
	id, name   string
	head       *storagev1.TaskHead
	checkpoint *storagev1.Checkpoint
	facts      []*storagev1.Fact
	// intents holds, by attempt, the durable intents.
	intents map[string]intent
	// ended holds the attempts whose end is durable.
	ended map[string]bool
	// calls holds, by attempt, the requests that reached the pool; runs counts its executions.
	calls map[string]*mcppoolv1.CallToolRequest
	runs  map[string]int
	// came holds the outcomes that came back to a process that was alive.
	came []cameBack
	// tasked holds, by attempt, the durable MCP tasks; polled those whose server was asked for the result.
	tasked map[string]tasked
	polled map[string]bool
	// revisions holds, by wait, the revision of the server's configuration that is shown.
	revisions map[string]uint64
	// answered holds, by attempt and question, the call that took an answer.
	answered map[string]string

	owner  *proc
	epoch  uint64
	newest uint64 // highest epoch of all claims
	slot   bool
	stale  map[uint64]bool // epochs of claims that were lost

	pending map[string]*storagev1.Command // durable commands that were not applied, by id
	ids     map[uint64]string             // command ids by number, as far as they were read
	applied map[string]bool
	// queued holds commands that had to wait for a slot, with the epoch that read them first: their senders were told that they are
	// stored, unless the same epoch applied them.
	queued map[string]uint64
	// unslotted holds the epochs of claims without a slot; adrift the processes that lost such a claim, and may not know it yet.
	unslotted map[uint64]bool
	adrift    map[*proc]bool
	// stopped is how many facts there were when a cancellation was acknowledged; -1: never.
	stopped int
	gone    bool
	// subtasks are those of the durable plan, by id.
	subtasks map[string]*subtaskBook
}

// subtaskBook is a subtask as it is durable.
type subtaskBook struct {
	status    executorv1.SubtaskStatus
	dependsOn []string
}

// tasked is the MCP task that does one of an attempt's calls.
type tasked struct {
	round uint32
	task  string
}

type intent struct{ tool, input, branch string }

// cameBack is an outcome that a living process was told.
type cameBack struct {
	callID, text string
	failed       bool
	to           *proc
	epoch        uint64
}

// answerNote is what a person said, and what the person was told.
type answerNote struct {
	task, actor, wait string
	command           *storagev1.Command // as it was meant
	err               error
	done              bool
	// applied: the command was applied, and had not waited for a slot, when the person was told that it was done.
	applied bool
}

func newBook() *book {
	return &book{tasks: map[string]*taskBook{}, commands: map[string][]string{}, requests: map[string][]time.Time{}}
}

func (b *book) wrong(format string, args ...any) {
	if len(b.problems) < 20 {
		b.problems = append(b.problems, fmt.Sprintf(format, args...))
	}
}

func (b *book) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong(format, args...)
}

func (b *book) name(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tasks[id]; t != nil {
		return t.name
	}
	for _, k := range b.talks {
		if k.id == id {
			return k.name
		}
	}
	return "?"
}

func (b *book) all() []*taskBook {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.order)
}

func (b *book) created(n journal.NewTask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &taskBook{
		id: n.ID, name: fmt.Sprintf("t%d", len(b.order)+1), head: n.Head, checkpoint: n.Checkpoint, intents: map[string]intent{},
		tasked: map[string]tasked{}, polled: map[string]bool{}, answered: map[string]string{}, revisions: map[string]uint64{},
		ended: map[string]bool{}, calls: map[string]*mcppoolv1.CallToolRequest{}, runs: map[string]int{},
		pending: map[string]*storagev1.Command{}, ids: map[uint64]string{}, applied: map[string]bool{}, queued: map[string]uint64{}, stale: map[uint64]bool{}, stopped: -1,
		unslotted: map[uint64]bool{}, adrift: map[*proc]bool{}, subtasks: map[string]*subtaskBook{},
	}
	for _, r := range n.Records {
		t.facts = append(t.facts, r.GetFacts()...)
		for _, f := range r.GetFacts() {
			t.plan(f)
		}
	}
	b.tasks[n.ID], b.order = t, append(b.order, t)
	if n.Head.GetChat() != nil {
		b.dispatched(t)
		return
	}
	user := n.Head.GetUserSub()
	taken := append(b.requests[user], n.Admission.Now)
	slices.SortFunc(taken, time.Time.Compare) // some overtook others on the way
	for i := requests; i < len(taken); i++ {
		if taken[i].Sub(taken[i-requests]) < window {
			b.wrong("%s: more than %d requests of %s within %s (A28)", t.name, requests, user, window)
		}
	}
	b.requests[user] = taken
}

// commits is called before a transition is stored: it must be its owner's.
func (b *book) commits(p *proc, t journal.Transition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.tasks[t.TaskID]
	switch {
	case k == nil:
		b.wrong("a transition of a task that was never created")
	case k.gone || k.stale[t.Epoch]: // it will be refused
	case k.owner != p || k.epoch != t.Epoch:
		b.wrong("%s: %s commits with epoch %d, but its claim has %d", k.name, p.name, t.Epoch, k.epoch)
	}
}

// committed writes down a transition that is durable.
func (b *book) committed(t journal.Transition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.tasks[t.TaskID]
	if k.stale[t.Epoch] || t.Epoch < k.newest {
		b.wrong("%s: an owner that lost its claim commits with epoch %d", k.name, t.Epoch)
	}
	k.checkpoint = t.Checkpoint
	for _, f := range t.Record.GetFacts() {
		k.facts = append(k.facts, f)
		k.plan(f)
		id := flow.AttemptID(k.id, f.GetOrdinal(), f.GetAttempt())
		switch in := f.GetKind().(type) {
		case *storagev1.Fact_StepInput:
			k.intents[id] = intent{f.GetToolId(), in.StepInput, f.GetSubtaskId()}
			if k.stopped >= 0 {
				b.wrong("%s: %s begins after a cancellation was acknowledged", k.name, b.short(id))
			}
		case *storagev1.Fact_StepOutput, *storagev1.Fact_StepError, *storagev1.Fact_StepCancel, *storagev1.Fact_StepWaitingForStart:
			k.ended[id] = true
			b.givenUp(k, id, f)
		}
	}
	k.show(t.Checkpoint)
	for _, s := range activeSteps(t.Checkpoint) {
		id := flow.AttemptID(k.id, s.GetOrdinal(), s.GetAttempt())
		if s.GetMcpTaskId() != "" || k.tasked[id].round != s.GetRound() {
			k.tasked[id] = tasked{s.GetRound(), s.GetMcpTaskId()}
		}
	}
	if n := uint64(len(k.facts)); n != t.Checkpoint.GetLastSeq() {
		b.wrong("%s: the checkpoint says %d events, there are %d", k.name, t.Checkpoint.GetLastSeq(), n)
	}
	for _, no := range t.Applied {
		id := k.ids[no]
		if k.applied[id] {
			b.wrong("%s: command %d is applied twice", k.name, no)
		}
		k.applied[id] = true
		delete(k.pending, id)
		if k.unslotted[t.Epoch] && k.queued[id] == t.Epoch {
			delete(k.queued, id)
		}
	}
}

func (b *book) short(callID string) string {
	const uuidLength = 36
	if t := b.tasks[callID[:min(uuidLength, len(callID))]]; t != nil {
		return t.name + callID[uuidLength:]
	}
	return callID
}

// attemptOf returns the attempt that a call belongs to, and whether the call continues an earlier one of the attempt.
func attemptOf(callID string) (attempt string, round bool) {
	parts := strings.Split(callID, "/")
	return strings.Join(parts[:3], "/"), len(parts) > 3
}

func (b *book) shortID(callID string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.short(callID)
}

func (b *book) sent(ctx context.Context, id string, c *storagev1.Command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[id].pending[c.GetId()] = c
	if actor, ok := ctx.Value(actorKey{}).(string); ok {
		b.commands[actor] = append(b.commands[actor], c.GetId())
	}
}

// looked is called when a process has read an inbox. If it has no slot for the task, it may tell senders that their commands are
// stored, even if another owner is about to apply them.
func (b *book) looked(p *proc, id string, inbox []journal.Command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.tasks[id]
	for _, c := range inbox {
		k.ids[c.No] = c.GetId()
		if k.owner == p && !k.slot || k.adrift[p] {
			k.queue(c.GetId())
		}
	}
}

func (k *taskBook) queue(command string) {
	if k.queued[command] == 0 {
		k.queued[command] = k.epoch
	}
}

func (b *book) claimed(p *proc, claims []journal.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range claims {
		k := b.tasks[c.TaskID]
		if k.owner != nil {
			b.wrong("%s: claimed while %s owns it", k.name, k.owner.name)
		}
		if c.Epoch <= k.newest {
			b.wrong("%s: epoch %d after %d", k.name, c.Epoch, k.newest)
		}
		k.owner, k.epoch, k.newest, k.slot = p, c.Epoch, max(k.newest, c.Epoch), c.Slot
		k.unslotted[c.Epoch] = !c.Slot
	}
	held := 0
	for _, k := range b.order {
		if k.owner != nil && k.slot {
			held++
		}
	}
	if held > b.slots {
		b.wrong("%d tasks run at once when %s claims, there are %d slots (A28)", held, p.name, b.slots)
	}
}

func (b *book) yielded(id string, epoch uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.tasks[id]
	if k.epoch != epoch {
		return
	}
	k.owner = nil
	if !k.slot {
		for command := range k.pending {
			k.queue(command)
		}
	}
}

// lost is called when an owner loses its claim. What the owner commits until it learns that must be refused.
func (b *book) lost(p *proc, id string, epoch uint64) {
	b.yielded(id, epoch)
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.tasks[id]
	k.stale[epoch] = true
	k.adrift[p] = k.adrift[p] || k.unslotted[epoch]
}

// died ends the claims of a process.
func (b *book) died(p *proc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.order {
		if k.owner == p {
			k.owner = nil
		}
	}
}

func (b *book) deleted(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.tasks[id]
	if !state.Ended(k.checkpoint.GetStatus()) {
		b.wrong("%s is deleted while it is %s", k.name, k.checkpoint.GetStatus())
	}
	k.gone, k.owner = true, nil // its claim goes with it
}

// sends is called when a process makes or attaches to a call: it must be the task's owner.
func (b *book) sends(p *proc, callID, task string, epoch uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.tasks[task]; k != nil && !p.isDead() && !k.stale[epoch] && (k.owner != p || k.epoch != epoch) {
		b.wrong("%s is called with epoch %d, its owner has %d", b.short(callID), epoch, k.epoch)
	}
}

// received is called when a call reaches the pool: exactly what is durable may be called (A9).
func (b *book) received(req *mcppoolv1.CallToolRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.tasks[req.GetSessionId()]
	if k == nil {
		b.wrong("a call of no task: %s", req.GetCallId())
		return
	}
	id, round := attemptOf(req.GetCallId())
	k.calls[id] = req
	in, durable := k.intents[id]
	switch {
	case !durable:
		b.wrong("%s is called before its intent is durable", b.short(req.GetCallId()))
	case in.tool != req.GetMcpId()+"/"+req.GetName() || in.input != req.GetInputJson():
		b.wrong("%s calls %s(%s), its intent was %s(%s)", b.short(req.GetCallId()), req.GetName(), req.GetInputJson(), in.tool, in.input)
	case round != (req.GetRequestState() != "") || round != (len(req.GetAnswers()) > 0):
		b.wrong("%s goes on with the state %q and %v", b.short(req.GetCallId()), req.GetRequestState(), req.GetAnswers())
	case k.openBeside(id) != "":
		b.wrong("%s is called before the end of %s is durable", b.short(req.GetCallId()), b.short(k.openBeside(id)))
	case k.openBefore(id) != "":
		b.wrong("%s is called before the end of subtask %s is durable", b.short(req.GetCallId()), k.openBefore(id))
	case b.hasAnswers(k, id, req):
		b.wrong("%s is given answers that another call has", b.short(req.GetCallId()))
	case req.GetIdempotencyKey() == "" || req.GetStartBy() == nil:
		b.wrong("%s is called without an idempotency key or a time to start by", b.short(req.GetCallId()))
	}
}

// plan writes down what a fact says about the plan.
func (k *taskBook) plan(f *storagev1.Fact) {
	switch in := f.GetKind().(type) {
	case *storagev1.Fact_PlanCreated:
		if f.GetSubtaskId() == "" { // a whole plan
			clear(k.subtasks)
		}
		for _, s := range in.PlanCreated.GetSubtasks() {
			k.subtasks[s.GetId()] = &subtaskBook{dependsOn: s.GetDependsOn()}
		}
	case *storagev1.Fact_SubtaskChanged:
		if s := k.subtasks[f.GetSubtaskId()]; s != nil {
			s.status = in.SubtaskChanged.GetTo()
		}
	}
}

// openBefore returns a subtask without a durable end on which that of an attempt depends; "" if there is none.
func (k *taskBook) openBefore(id string) string {
	s := k.subtasks[k.intents[id].branch]
	if s == nil || k.ended[id] {
		return ""
	}
	for _, d := range s.dependsOn {
		if before := k.subtasks[d]; before == nil || before.status != executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED {
			return d
		}
	}
	return ""
}

// openBeside returns an attempt without a durable end that excludes an attempt: the main line makes no call while a branch makes one, and each
// makes one at a time, except that a subtask may make several calls that only read. It returns "" if there is none, and for a call that comes so late that its attempt has ended.
func (k *taskBook) openBeside(id string) string {
	if k.ended[id] {
		return ""
	}
	of := k.intents[id]
	reads := k.head.GetFlow() == codingFlow && of.tool == toolRead
	for other, in := range k.intents {
		if reads && in.tool == toolRead {
			continue
		}
		if other != id && !k.ended[other] && (of.branch == in.branch || of.branch == "" || in.branch == "") {
			return other
		}
	}
	return ""
}

// hasAnswers reports whether another call of the attempt took an answer that this request carries.
func (b *book) hasAnswers(k *taskBook, attempt string, req *mcppoolv1.CallToolRequest) bool {
	return slices.ContainsFunc(req.GetAnswers(), func(a *mcppoolv1.CallAnswer) bool {
		had := k.answered[attempt+" "+a.GetInputId()]
		return had != "" && had != req.GetCallId()
	})
}

// begins is called when a process is about to send something for a call: not once its task's cancellation was acknowledged.
func (b *book) begins(p *proc, callID, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.tasks[callID[:36]]; k != nil && k.stopped >= 0 && k.owner == p && len(k.stale) == 0 && !p.isDead() {
		b.wrong("%s %s after a cancellation was acknowledged", b.short(callID), what)
	}
}

// took writes down which call got an answer.
func (b *book) took(callID string, a *mcppoolv1.CallAnswer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	attempt, _ := attemptOf(callID)
	b.tasks[callID[:36]].answered[attempt+" "+a.GetInputId()] = callID
}

// polls is called when a server is asked for the MCP task that does a call.
func (b *book) polls(callID, task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[callID[:36]].polled[task] = true
}

// givenUp checks the end of an attempt: the outcome of an MCP task's call is unknown only after its server was asked for it.
func (b *book) givenUp(k *taskBook, id string, f *storagev1.Fact) {
	e := f.GetStepError().GetError()
	if f.GetStepWaitingForStart() != nil {
		e = f.GetStepWaitingForStart().GetOutcomeUnknown()
	}
	task := k.tasked[id].task
	if task != "" && !k.polled[task] && f.GetAttempt() != 0 && e.GetReason() == commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN {
		b.wrong("%s is given up, and its server was not asked for the task", b.short(id))
	}
}

// executed counts what a tool really did.
func (b *book) executed(req *mcppoolv1.CallToolRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.tasks[req.GetSessionId()]
	id, _ := attemptOf(req.GetCallId())
	if k.runs[id]++; k.runs[id] > 1 {
		b.wrong("%s is executed twice", b.short(req.GetCallId()))
	}
}

// told writes down an outcome that came back to a living process.
func (b *book) told(c cameBack) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.callID, _ = attemptOf(c.callID)
	if k := b.tasks[c.callID[:36]]; k != nil {
		k.came = append(k.came, c)
	}
}

// acknowledged is called when the pool is told that it may forget a call: its end must be durable.
func (b *book) acknowledged(callIDs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range callIDs {
		attempt, _ := attemptOf(id)
		if k := b.tasks[id[:36]]; k == nil || !k.ended[attempt] {
			b.wrong("%s is acknowledged before its end is durable", b.short(id))
		}
	}
}

// answered is called when a person receives the result of an answer.
func (b *book) answered(a *answerNote, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.err, a.done = err, true
	k := b.tasks[a.task]
	if err != nil || k == nil {
		return
	}
	a.applied = true
	for _, id := range b.commands[a.actor] {
		if k.pending[id] != nil || k.queued[id] != 0 {
			a.applied = false
		}
	}
	if a.command.GetCancel() != nil && k.stopped < 0 {
		k.stopped = len(k.facts)
	}
}

// repeatable reports whether a tool may be called again without a person's decision.
func repeatable(tool string) bool { return tool == toolRead || tool == toolIdempotent }

var effects = map[string]commonv1.Effect{
	toolRead: commonv1.Effect_EFFECT_READ, toolWrite: commonv1.Effect_EFFECT_WRITE,
	toolIdempotent: commonv1.Effect_EFFECT_WRITE, toolDestroy: commonv1.Effect_EFFECT_DESTRUCTIVE,
}

// floors is the lowest risk of each tool.
var floors = map[string]commonv1.RiskLevel{
	toolRead: commonv1.RiskLevel_RISK_LEVEL_LOW, toolWrite: commonv1.RiskLevel_RISK_LEVEL_MEDIUM,
	toolIdempotent: commonv1.RiskLevel_RISK_LEVEL_MEDIUM, toolDestroy: commonv1.RiskLevel_RISK_LEVEL_HIGH,
}

const (
	toolRead       = "s/read"
	toolWrite      = "s/write"
	toolIdempotent = "s/idempotent"
	toolDestroy    = "s/destroy"
)
