package agent_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

var effectOf = map[string]commonv1.Effect{
	"t/read": commonv1.Effect_EFFECT_READ, "t/write": commonv1.Effect_EFFECT_WRITE,
	"t/idempotent": commonv1.Effect_EFFECT_WRITE, "t/destroy": commonv1.Effect_EFFECT_DESTRUCTIVE,
}

var levels = rapid.Map(rapid.IntRange(0, 3), func(n int) commonv1.RiskLevel { return commonv1.RiskLevel(n) })

// poolModel is a pool with the calls that it knows, and the world with what really happened in it.
type poolModel struct {
	w *world
	// ledger holds what the pool knows of calls by id; it is lost with the pool.
	ledger map[string]*commonv1.Outcome
	// dead holds the calls whose pool is gone.
	dead map[string]bool
	// ran counts real executions of "tool input" that may not be repeated, since a person last allowed it.
	ran map[string]bool
	// asked holds the tools of the steps that a person is deciding on.
	asked map[string]bool
	// parked holds the calls that wait for answers.
	parked map[string]bool
	// revision of the server's configuration.
	revision uint64
}

func newPoolModel(w *world) *poolModel {
	return &poolModel{w: w, ledger: map[string]*commonv1.Outcome{}, ran: map[string]bool{}, asked: map[string]bool{}, parked: map[string]bool{}, dead: map[string]bool{}}
}

func (p *poolModel) step(ordinal uint32) *storagev1.ActiveStep {
	return flow.ActiveStep(p.w.task.State, ordinal)
}

func key(s *storagev1.ActiveStep) string { return s.GetToolId() + " " + s.GetInputJson() }

// deciding notes the steps that a person is deciding on: a call that starts meanwhile is the person's decision.
func (p *poolModel) deciding(lanes []*storagev1.Lane) {
	clear(p.asked)
	for _, l := range lanes {
		if l.GetStep() != nil {
			p.asked[l.GetStep().GetToolId()] = true
		}
	}
}

// seen: a person says what the call returned; if the same call is made again, that is a new decision.
func (p *poolModel) seen(wait string) {
	for _, w := range p.w.task.State.GetWaits() {
		if s := p.step(w.GetOrdinal()); w.GetId() == wait && w.GetKind() == executorv1.WaitKind_WAIT_KIND_OUTCOME {
			delete(p.ran, key(s))
		}
	}
}

// started checks that a call with a side effect that may have happened is not made again unless a person allowed it.
func (p *poolModel) started(c flow.Call) {
	s := p.step(c.Ordinal)
	policy := p.w.task.Head.GetOnUnknownOutcome() == executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY
	approved := len(s.GetApprovedHash()) > 0
	if s.GetRound() > 0 != s.GetAnswersSent() || s.GetAnswersSent() && s.GetRequestState() == "" {
		p.w.Fatalf("call %d of an attempt is made without what it goes on from: %v", s.GetRound(), s)
	}
	if p.ran[key(s)] && !p.asked[s.GetToolId()] && !approved && !policy {
		p.w.Fatalf("%s is called again although it may have run: %v", key(s), p.w.events)
	}
	delete(p.dead, callIDOf(s))
}

// execute lets the call happen for real.
func (p *poolModel) execute(s *storagev1.ActiveStep) {
	if s.GetEffect() != commonv1.Effect_EFFECT_READ && !s.GetIdempotent() {
		p.ran[key(s)] = true
	}
}

// called returns the outcome of a call or, unless the call is being stopped, its questions.
func (p *poolModel) called(ordinal, attempt uint32, stopping bool) flow.Input {
	w, s := p.w, p.step(ordinal)
	if !stopping && rapid.IntRange(0, 4).Draw(w.T, "asks") == 0 {
		return p.asks(s, attempt)
	}
	out := flow.Called{Ordinal: ordinal, Attempt: attempt, Outcome: commonv1.Outcome_OUTCOME_KNOWN}
	switch rapid.IntRange(0, 5).Draw(w.T, "called") {
	case 0: // the server's own error: known, and a retry is its business
		out.Err = &storagev1.ErrorNote{ErrMsg: "tool", Reason: commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED}
		return out
	case 1:
		out.Err, out.Outcome = &storagev1.ErrorNote{ErrMsg: "refused", Reason: commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED}, commonv1.Outcome_OUTCOME_NOT_EXECUTED
		return out
	case 2:
		p.execute(s)
		out.Err, out.Outcome = &storagev1.ErrorNote{ErrMsg: "lost", Reason: commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR}, commonv1.Outcome_OUTCOME_UNKNOWN
		out.Lost = rapid.Bool().Draw(w.T, "lost by Pawl")
		return out
	}
	out.Output = `{"message":"ok"}`
	if rapid.Bool().Draw(w.T, "known ahead") {
		next := w.plan(1) // a step ahead does not branch
		out.Next = &next
	}
	return out
}

// asks lets a call wait for people. A server that sends a request state has had no effect yet.
func (p *poolModel) asks(s *storagev1.ActiveStep, attempt uint32) flow.Elicited {
	p.parked[callIDOf(s)] = true
	in := flow.Elicited{Ordinal: s.GetOrdinal(), Attempt: attempt, RequestState: rapid.SampledFrom([]string{"", "state"}).Draw(p.w.T, "request state")}
	if in.RequestState == "" && rapid.Bool().Draw(p.w.T, "effect before the answer") {
		p.execute(s)
	}
	for i := range rapid.IntRange(1, 2).Draw(p.w.T, "questions") {
		q := flow.Elicitation{InputID: fmt.Sprint(i), Message: "what?", SchemaJSON: "{}"}
		if lasts := rapid.IntRange(0, 90).Draw(p.w.T, "question lasts"); lasts > 0 {
			q.Expire = p.w.task.Now.Add(time.Duration(lasts) * time.Second).UnixNano()
		}
		in.Elicitations = append(in.Elicitations, q)
	}
	return in
}

func callIDOf(s *storagev1.ActiveStep) string {
	return flow.CallID("", s.GetOrdinal(), s.GetAttempt(), s.GetRound())
}

// interrupted: the executor died while a call was about to start or running.
func (p *poolModel) interrupted(lane uint32, c flow.Call) {
	s := p.step(c.Ordinal)
	id := callIDOf(s)
	switch rapid.IntRange(0, 2).Draw(p.w.T, "interrupted") {
	case 0: // it never came to the pool
	case 1: // it was put off at a stop
		p.w.apply(p.w.on(lane, flow.NotStarted{Ordinal: c.Ordinal}))
	default:
		p.execute(s)
		known := commonv1.Outcome_OUTCOME_KNOWN
		p.ledger[id] = &known
	}
}

// answered: the executor died while it gave the pool the answers, which may have arrived.
func (p *poolModel) answered(a flow.Attach) {
	s := p.step(a.Ordinal)
	if p.parked[callIDOf(s)] && rapid.Bool().Draw(p.w.T, "answers came to the pool") {
		p.execute(s)
		known := commonv1.Outcome_OUTCOME_KNOWN
		p.ledger[callIDOf(s)] = &known
	}
}

func (p *poolModel) forget(dies bool) {
	if dies {
		clear(p.ledger)
		clear(p.parked)
		for _, l := range p.w.task.State.GetLanes() {
			if l.GetStep() != nil {
				p.dead[callIDOf(l.GetStep())] = true
			}
		}
	}
}

// attached returns what the pool says of a call that was made before.
func (p *poolModel) attached(a flow.Attach) flow.Input {
	id := callIDOf(p.step(a.Ordinal))
	out := flow.Called{Ordinal: a.Ordinal, Attempt: a.Attempt, Outcome: commonv1.Outcome_OUTCOME_UNKNOWN, Lost: true,
		Err: &storagev1.ErrorNote{ErrMsg: "the pool does not know it", Reason: commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND}}
	switch {
	case p.ledger[id] != nil:
		delete(p.ran, key(p.step(a.Ordinal))) // it is recorded now: one execution, one record
		return flow.Called{Ordinal: a.Ordinal, Attempt: a.Attempt, Outcome: commonv1.Outcome_OUTCOME_KNOWN, Output: `{"message":"ok"}`}
	case p.parked[id]:
		delete(p.parked, id)
		in := p.called(a.Ordinal, a.Attempt, a.Stopping)
		if c, ended := in.(flow.Called); ended && c.Outcome == commonv1.Outcome_OUTCOME_KNOWN {
			delete(p.ran, key(p.step(a.Ordinal))) // as above
		}
		return in
	case a.Fresh && p.step(a.Ordinal).GetRequestState() != "":
		return flow.Undelivered{Ordinal: a.Ordinal, Attempt: a.Attempt, Err: out.Err}
	case a.Fresh:
	case !p.dead[id]:
		out.Outcome = commonv1.Outcome_OUTCOME_NOT_EXECUTED
	}
	return out
}

// asked returns the question of an Ask, or else the action.
func asked(a flow.LaneAction) any {
	if ask, ok := a.Action.(flow.Ask); ok {
		return ask.Question
	}
	return a.Action
}

func (w *world) answer(a flow.LaneAction) flow.Input {
	usage := &storagev1.Usage{ModelCalls: uint32(rapid.IntRange(0, 1).Draw(w.T, "model calls made")), InputTokens: 3}
	switch e := asked(a).(type) {
	case flow.Begin:
		p := w.plan(a.Lane)
		p.Usage = usage
		return flow.Begun{Tools: &storagev1.ToolsLoaded{}, Name: "n", Risk: &storagev1.RiskNote{}, Plan: p}
	case flow.Plan:
		p := w.plan(a.Lane)
		p.Usage = usage
		return p
	case flow.Call:
		if s := w.pool.step(e.Ordinal); s.GetConfigRevision() != w.pool.revision {
			return refusal(s)
		}
		return w.pool.called(e.Ordinal, e.Attempt, false)
	case flow.Attach:
		return w.pool.attached(e)
	case flow.RefreshTool:
		return w.refreshed(e.Ordinal)
	case flow.Derive:
		return w.derived(e.Ordinal, usage)
	case flow.Fill:
		return w.derived(e.Ordinal, usage)
	case flow.Diagnose:
		return flow.Diagnosed{Ordinal: e.Ordinal, IsParamError: e.Known || rapid.Bool().Draw(w.T, "param error"), Message: "m", SchemaJSON: "{}", Usage: usage}
	case flow.Answer:
		if rapid.IntRange(0, 3).Draw(w.T, "more text") > 0 {
			w.pending = append(w.pending, a)
			return flow.Text{Text: "text"}
		}
		if rapid.IntRange(0, 4).Draw(w.T, "answer fails") == 0 {
			return flow.Answered{Err: &storagev1.ErrorNote{ErrMsg: "model"}}
		}
		return flow.Answered{FullAnswer: "text", Text: "text", Usage: usage}
	}
	return nil
}

func (w *world) plan(lane uint32) flow.Planned {
	switch rapid.IntRange(0, 9).Draw(w.T, "plan") {
	case 2, 3:
		if lane != 0 {
			break
		}
		var ids []string
		for range rapid.IntRange(1, 4).Draw(w.T, "branches") {
			w.branches++
			ids = append(ids, fmt.Sprint("b", w.branches))
		}
		return flow.Planned{Branches: ids}
	case 0:
		return flow.Planned{}
	case 1:
		return flow.Planned{Err: &storagev1.ErrorNote{ErrMsg: "no way on"}}
	}
	tool := rapid.SampledFrom([]string{"t/read", "t/write", "t/idempotent", "t/destroy"}).Draw(w.T, "tool")
	return flow.Planned{Step: &flow.PlannedStep{
		ToolID: tool, InputJSON: w.input(), Problem: w.problem(), Risk: &storagev1.RiskNote{Level: commonv1.RiskLevel_RISK_LEVEL_LOW},
		Tool: flow.Tool{
			Effect: effectOf[tool], Idempotent: tool == "t/idempotent", RiskFloor: commonv1.RiskLevel(effectOf[tool]), ConfigRevision: w.pool.revision,
		},
	}}
}

// input returns an input of a few, which no other lane has, so that equal calls are repetitions.
func (w *world) input() string {
	return fmt.Sprintf(`{"n":%d,"lane":%d}`, rapid.IntRange(0, 3).Draw(w.T, "input"), w.lane)
}

func (w *world) problem() string {
	return rapid.SampledFrom([]string{"", "", "", "does not fit"}).Draw(w.T, "problem")
}

func (w *world) derived(ordinal uint32, usage *storagev1.Usage) flow.Derived {
	if rapid.IntRange(0, 5).Draw(w.T, "underivable") == 0 {
		return flow.Derived{Ordinal: ordinal, Err: &storagev1.ErrorNote{ErrMsg: "cannot"}, Usage: usage}
	}
	return flow.Derived{Ordinal: ordinal, Input: w.input(), Problem: w.problem(), Usage: usage}
}

// isQuestion reports whether a wait is a question of a tool's server.
func (p *poolModel) isQuestion(wait string) bool {
	for _, w := range p.w.task.State.GetWaits() {
		if w.GetId() == wait {
			return w.GetKind() == executorv1.WaitKind_WAIT_KIND_INPUT
		}
	}
	return false
}

// withdrawn ends a call that waits for people; false if it cannot have waited.
func (p *poolModel) withdrawn(e flow.Withdraw) bool {
	id := flow.CallID("", e.Ordinal, e.Attempt, e.Round)
	known := p.parked[id] || p.dead[id]
	delete(p.parked, id)
	return known
}
