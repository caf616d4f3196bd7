package sim

import (
	"fmt"
	"strings"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

type agentMessage = storagev1.Agent

// cancelled is also the end of a task that had failed, if a person cancelled it while it still waited for a call.
const cancelled = executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED

const pauseAtEnd = 100 * time.Millisecond

// audit compares a task's facts with what really happened and what people said.
type audit struct {
	w     *world
	k     *taskBook
	steps map[uint32]*stepAudit
	// last holds the newest step of the main line and of each branch.
	last map[string]*stepAudit
	// closed holds, by wait, the fact that closed it.
	closed map[string]*storagev1.Fact
	// unclear holds the calls that may have run, by tool and input.
	unclear map[intent]bool
	grants  map[decidedOn]commonv1.RiskLevel // by tool and revision
	shared  uint64                           // facts up to this seq were copied from the task that was forked
	seq     uint64
}

type stepAudit struct {
	ordinal  uint32
	tool     string
	risk     commonv1.RiskLevel
	shown    map[string]string  // inputs by wait
	said     string             // the wait by which a person said that the next attempt may run
	approved map[decidedOn]bool // inputs, with the revision of the server that was shown
	attempts []*attemptAudit
	status   executorv1.StepStatus
	skipped  bool
	went     bool // another step, or the answer, followed
}

type attemptAudit struct {
	id, input string
	no        uint32
	person    bool
	end       *storagev1.Fact
}

func (w *world) audit(k *taskBook) {
	a := &audit{
		w: w, k: k, steps: map[uint32]*stepAudit{}, last: map[string]*stepAudit{}, closed: map[string]*storagev1.Fact{}, unclear: map[intent]bool{}, grants: map[decidedOn]commonv1.RiskLevel{},
	}
	for _, f := range k.head.GetForks() {
		a.shared = f.GetSeq()
	}
	for _, f := range k.facts {
		a.seq++
		a.fact(f)
	}
	for _, s := range a.steps {
		a.repeats(s)
	}
	a.counters()
	a.cameBack()
	a.acknowledged()
}

func (a *audit) wrong(format string, args ...any) {
	a.w.book.fault("%s: %s", a.k.name, fmt.Sprintf(format, args...))
}

func (a *audit) inherited() bool { return a.seq <= a.shared }

func (a *audit) fact(f *storagev1.Fact) {
	if id := f.GetWaitId(); id != "" {
		a.closes(id, f)
	}
	if _, success := f.GetKind().(*storagev1.Fact_FlowSuccess); success {
		a.follows("")
	}
	if f.GetOrdinal() == 0 {
		s := a.shownIn(f.GetWaitId())
		if c := f.GetStatusChanged(); c.GetReason() == "approved" && s != nil {
			s.said = f.GetWaitId()
			a.approve(s, f.GetWaitId(), "", 0)
		}
		return
	}
	s := a.steps[f.GetOrdinal()]
	if s == nil {
		s = &stepAudit{ordinal: f.GetOrdinal(), tool: f.GetToolId(), shown: map[string]string{}, approved: map[decidedOn]bool{}}
		a.steps[s.ordinal] = s
		a.follows(f.GetSubtaskId())
		a.last[f.GetSubtaskId()] = s
	}
	s.status = f.GetStepStatus()
	a.step(s, f)
}

// follows notes that a branch, or the main line, went on: then the step before has ended, and for the main line those of all branches.
func (a *audit) follows(branch string) {
	for of, s := range a.last {
		if branch == "" || of == "" || of == branch {
			s.went = true
			delete(a.last, of)
		}
	}
}

// shownIn returns the step that a wait shows, or nil.
func (a *audit) shownIn(wait string) *stepAudit {
	for _, s := range a.steps {
		if _, is := s.shown[wait]; is {
			return s
		}
	}
	return nil
}

// closes writes down what closed a wait; what opens one does not.
func (a *audit) closes(id string, f *storagev1.Fact) {
	switch f.GetKind().(type) {
	case *storagev1.Fact_StepWaitingForStart, *storagev1.Fact_StepWaitingForParam, *storagev1.Fact_InputRequired, *storagev1.Fact_PlanCreated:
		return
	}
	if a.closed[id] == nil {
		a.closed[id] = f
	}
}

func (a *audit) step(s *stepAudit, f *storagev1.Fact) {
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_StepInit:
		s.risk = max(floors[s.tool], commonv1.RiskLevel(commonv1.RiskLevel_value[k.StepInit]))
	case *storagev1.Fact_StepWaitingForStart:
		s.shown[f.GetWaitId()] = k.StepWaitingForStart.GetInputJson()
		if k.StepWaitingForStart.GetOutcomeUnknown() != nil {
			s.ends(f)
			a.unclear[intent{tool: s.tool, input: s.newest().input}] = true
		}
	case *storagev1.Fact_StepInput:
		a.begins(s, f, k.StepInput)
	case *storagev1.Fact_StepOutput:
		if f.GetWaitId() != "" && len(s.attempts) > 0 {
			delete(a.unclear, intent{tool: s.tool, input: s.newest().input})
		}
		s.ends(f)
	case *storagev1.Fact_StepError:
		s.ends(f)
		if f.GetWaitId() != "" && k.StepError.GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN {
			s.skipped = true
		}
		if a.inherited() && k.StepError.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN && !repeatable(s.tool) {
			a.unclear[intent{tool: s.tool, input: s.newest().input}] = true
		}
	case *storagev1.Fact_StepCancel:
		s.ends(f)
	}
}

func (s *stepAudit) newest() *attemptAudit { return s.attempts[len(s.attempts)-1] }

func (s *stepAudit) ends(f *storagev1.Fact) {
	if f.GetAttempt() == 0 || len(s.attempts) == 0 {
		return
	}
	s.newest().end = f
}

// begins checks that a call was allowed: by a person who was shown exactly that or wrote it, or by the policy (A9, A29).
func (a *audit) begins(s *stepAudit, f *storagev1.Fact, input string) {
	at := &attemptAudit{id: flow.AttemptID(a.k.id, s.ordinal, f.GetAttempt()), input: input, no: f.GetAttempt()}
	s.attempts = append(s.attempts, at)
	wait := f.GetWaitId()
	if wait == "" {
		wait = s.said
	}
	s.said = ""
	at.person = wait != ""
	revision := a.k.calls[at.id].GetExpectedConfigRevision()
	switch {
	case a.inherited() || a.k.calls[at.id] == nil: // not called, or in another task
		if wait != "" {
			a.approve(s, wait, input, 0)
		}
	case wait != "":
		switch {
		case a.approve(s, wait, input, revision):
		case a.grants[decidedOn{s.tool, revision}] >= s.risk && s.shown[wait] == input && at.no == 1 && !a.unclear[intent{tool: s.tool, input: input}]:
			s.approved[decidedOn{input, revision}] = true // the grant of another lane's approval answered this wait too
		default:
			a.wrong("%s calls %s(%s), which no one approved with %s", a.w.book.shortID(at.id), s.tool, input, wait)
		}
	case s.approved[decidedOn{input, revision}]:
	case a.unclear[intent{tool: s.tool, input: input}]:
		a.wrong("%s calls %s(%s) without a person's word, although it may have run", a.w.book.shortID(at.id), s.tool, input)
	case a.grants[decidedOn{s.tool, revision}] >= s.risk:
	case a.k.head.GetConfirm() == executorv1.Confirm_CONFIRM_NEVER:
	case a.k.head.GetConfirm() == executorv1.Confirm_CONFIRM_BY_RISK && s.risk <= low:
	default:
		a.wrong("%s calls %s(%s) without an approval", a.w.book.shortID(at.id), s.tool, input)
	}
}

// approve reports whether a person answered a wait so that this input may run, with the server's revision that was shown; revision 0
// stands for any, and input "" too. It notes what the answers approve and grant.
func (a *audit) approve(s *stepAudit, wait, input string, revision uint64) (found bool) {
	for _, n := range a.w.book.answers {
		if n.task != a.k.id || n.wait != wait || n.refused() {
			continue
		}
		if n.command.GetOutcome().GetRetry() && (input == "" || s.shown[wait] == input) {
			s.approved[decidedOn{s.shown[wait], a.k.revisions[wait]}] = true
			found = found || revision == 0 || revision == a.k.revisions[wait]
		}
		c := n.command.GetApprove()
		if c == nil {
			continue
		}
		meant := c.GetInputJson()
		if meant == "" {
			meant = s.shown[wait]
		}
		if input != "" && input != meant {
			continue
		}
		found = found || revision == 0 || revision == a.k.revisions[wait]
		if input != "" {
			s.approved[decidedOn{input, a.k.revisions[wait]}] = true
		}
		grant, of := c.GetGrant(), decidedOn{s.tool, a.k.revisions[wait]}
		if grant == shown {
			grant = s.risk
		}
		a.grants[of] = max(a.grants[of], grant)
	}
	return found
}

// repeats checks that a call with a side effect was executed again only if the server itself reported that the earlier one failed, or
// if a person or the policy decided so (A11).
func (a *audit) repeats(s *stepAudit) {
	var before *attemptAudit // the newest that was executed
	said := false
	for _, at := range s.attempts {
		said = said || at.person
		if a.k.runs[at.id] == 0 {
			continue
		}
		if o, says := outcomeOf(at.end); says && o == commonv1.Outcome_OUTCOME_NOT_EXECUTED {
			a.wrong("%s was executed, and is recorded as not executed", a.w.book.shortID(at.id))
		}
		if before != nil && !repeatable(s.tool) && !said &&
			a.k.head.GetOnUnknownOutcome() != executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY {
			if o, says := outcomeOf(before.end); !says || o != commonv1.Outcome_OUTCOME_KNOWN {
				a.wrong("%s repeats %s, which was executed", a.w.book.shortID(at.id), a.w.book.shortID(before.id))
			}
		}
		before, said = at, false
	}
}

// outcomeOf returns the outcome that a fact gives to the attempt that it ends; false if it gives none.
func outcomeOf(f *storagev1.Fact) (commonv1.Outcome, bool) {
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_StepOutput:
		return commonv1.Outcome_OUTCOME_KNOWN, true
	case *storagev1.Fact_StepError:
		return k.StepError.GetOutcome(), true
	case *storagev1.Fact_StepCancel:
		return k.StepCancel.GetOutcome(), true
	case *storagev1.Fact_StepWaitingForStart:
		return commonv1.Outcome_OUTCOME_UNKNOWN, true
	}
	return 0, false
}

// counters checks the checkpoint's counters against the events (A1, A19, A21, A24), and the budgets.
func (a *audit) counters() {
	c, limits := a.k.checkpoint, a.k.head.GetLimits()
	failed, sure, spent := uint32(0), uint32(0), uint32(0)
	for _, s := range a.steps {
		if s.status == executorv1.StepStatus_STEP_STATUS_ERROR && !s.skipped {
			failed++
			if s.went {
				sure++
			}
		}
		for _, at := range s.attempts {
			o, says := outcomeOf(at.end)
			if says && at.end.GetAttempt() != 0 && (o == commonv1.Outcome_OUTCOME_KNOWN || o == commonv1.Outcome_OUTCOME_UNKNOWN) {
				spent++
			}
			if at.no > limits.GetMaxAttempts() && !at.person {
				a.wrong("attempt %d of step %d, there are %d (A11)", at.no, s.ordinal, limits.GetMaxAttempts())
			}
		}
	}
	limited := c.GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED
	switch {
	case a.k.head.GetChat() != nil: // the agent's reply tells of failed calls
		sure, limited = 0, c.GetErrorCount() >= limits.GetMaxFailedSteps()
	case a.k.head.GetFlow() == codingFlow: // failed steps are part of the work, and refused ones do not count
		sure, limited = 0, c.GetErrorCount() >= limits.GetMaxFailedSteps()
	}
	switch {
	case c.GetStepCount() != uint32(len(a.steps)):
		a.wrong("%d steps are counted, there are %d", c.GetStepCount(), len(a.steps))
	case c.GetStepCount() > limits.GetMaxSteps() && a.k.head.GetFlow() != codingFlow: // which limits the thoughts of each subtask
		a.wrong("%d steps, the limit is %d (A21)", c.GetStepCount(), limits.GetMaxSteps())
	case c.GetErrorCount() < sure || c.GetErrorCount() > failed:
		a.wrong("%d failed steps are counted, there are %d to %d (A19)", c.GetErrorCount(), sure, failed)
	case limited != (c.GetErrorCount() >= limits.GetMaxFailedSteps()) && (limited || c.GetStatus() != cancelled):
		a.wrong("%d failed steps of %d, ended with %v (A19)", c.GetErrorCount(), limits.GetMaxFailedSteps(), c.GetError())
	}
	if most := limits.GetMaxToolCalls(); most > 0 && spent > most {
		a.wrong("%d tool calls, the budget is %d", spent, most)
	}
}

// cameBack checks that an outcome that came back to a process that lived on is in the log, even after a cancel.
func (a *audit) cameBack() {
	for _, c := range a.k.came {
		if c.to.died || a.k.stale[c.epoch] {
			continue // its owner died or had lost its claim
		}
		found := false
		for _, f := range a.k.facts {
			if flow.AttemptID(a.k.id, f.GetOrdinal(), f.GetAttempt()) != c.callID {
				continue
			}
			if c.failed {
				e := f.GetStepError()
				found = found || e.GetOutcome() == commonv1.Outcome_OUTCOME_KNOWN && e.GetError().GetErrMsg() == c.text
			} else {
				found = found || strings.Contains(f.GetStepOutput(), c.text)
			}
		}
		if !found {
			a.wrong("the outcome %q came back, and is not in the log", strings.ReplaceAll(c.text, a.k.id, a.k.name))
		}
	}
}

// acknowledged checks that what people were told to be done was done.
func (a *audit) acknowledged() {
	end := a.k.facts[len(a.k.facts)-1]
	for _, n := range a.w.book.answers {
		if n.task != a.k.id || !n.done || n.err != nil {
			continue
		}
		if n.command.GetCancel() != nil {
			if a.k.stopped < len(a.k.facts) && end.GetFlowCancel() == "" && a.k.checkpoint.GetError().GetReason() != commonv1.ErrorReason_ERROR_REASON_NO_PROGRESS {
				a.wrong("%s was told that it is cancelled, but it ended with %T", n.actor, end.GetKind())
			}
			continue
		}
		f := a.closed[n.wait]
		switch {
		case f == nil && n.applied:
			a.wrong("%s was told that %s is answered, but it had no effect", n.actor, n.wait)
		case f != nil && n.applied && !a.fits(n, f):
			a.wrong("%s was told that %v is done, but what happened was %v", n.actor, n.command, f)
		}
	}
}

// fits reports whether a fact is what an answer asks for.
func (a *audit) fits(n *answerNote, f *storagev1.Fact) bool {
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_StepInput:
		return n.command.GetOutcome().GetRetry() || n.command.GetApprove() != nil && a.means(n, f.GetOrdinal(), k.StepInput)
	case *storagev1.Fact_StatusChanged:
		if did := n.command.GetInput(); did != nil {
			return k.StatusChanged.GetReason() == words[did.GetAction()]
		}
		if k.StatusChanged.GetReason() != "approved" {
			return n.command.GetParams() != nil
		}
		return n.command.GetOutcome().GetRetry() || n.command.GetApprove() != nil && a.meansLater(n)
	case *storagev1.Fact_StepOutput:
		return n.command.GetOutcome().GetOutputJson() == k.StepOutput
	case *storagev1.Fact_StepError:
		_, skip := n.command.GetOutcome().GetAnswer().(*storagev1.SettleOutcome_Skip)
		return skip || n.command.GetReject() != nil && k.StepError.GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_REJECTED
	case *storagev1.Fact_FlowCancel:
		return n.command.GetReject() != nil
	case *storagev1.Fact_StepCancel:
		return n.command.GetReject() != nil || a.k.checkpoint.GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED
	}
	return false
}

// words are the log's words for the answers to a question of a tool's server.
var words = map[executorv1.InputAnswer_Action]string{
	executorv1.InputAnswer_ACTION_ACCEPT: "answered", executorv1.InputAnswer_ACTION_DECLINE: "declined", executorv1.InputAnswer_ACTION_CANCEL: "dismissed",
}

func (a *audit) means(n *answerNote, ordinal uint32, input string) bool {
	meant := n.command.GetApprove().GetInputJson()
	return input == meant || meant == "" && input == a.steps[ordinal].shown[n.wait]
}

// meansLater is means for an approval of a paused task: it looks for the input that ran later, and is true if there is none.
func (a *audit) meansLater(n *answerNote) bool {
	for _, s := range a.steps {
		if _, asked := s.shown[n.wait]; !asked {
			continue
		}
		behind := false
		for _, f := range a.k.facts {
			behind = behind || f.GetWaitId() == n.wait && f.GetStatusChanged() != nil
			if behind && f.GetOrdinal() == s.ordinal && f.GetStepInput() != "" {
				return a.means(n, s.ordinal, f.GetStepInput())
			}
		}
	}
	return true
}
