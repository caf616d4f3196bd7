package sim

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/api"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

var users = []string{"ann", "bob", "cid"}

const codingFlow = "coding"

// agents are what tasks run as: policies that a request alone cannot set.
var agents = map[string]*storagev1.Agent{
	"careful":  {Confirm: executorv1.Confirm_CONFIRM_ALWAYS, WaitTimeout: int64(3 * time.Minute), Rev: 1},
	"free":     {Confirm: executorv1.Confirm_CONFIRM_NEVER, Rev: 1},
	"stubborn": {Confirm: executorv1.Confirm_CONFIRM_NEVER, OnUnknownOutcome: executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY, Rev: 1},
	"timid":    {Confirm: executorv1.Confirm_CONFIRM_NEVER, OnUnknownOutcome: executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_FAIL, Rev: 1},
	"short":    {Confirm: executorv1.Confirm_CONFIRM_BY_RISK, MaxSteps: 2, MaxFailedSteps: 1, Rev: 1},
	"coder":    {Confirm: executorv1.Confirm_CONFIRM_NEVER, Flow: codingFlow, Rev: 1},
	"asking":   {Confirm: executorv1.Confirm_CONFIRM_BY_RISK, Flow: codingFlow, WaitTimeout: int64(3 * time.Minute), Rev: 1},
	"hasty":    {Confirm: executorv1.Confirm_CONFIRM_NEVER, Flow: codingFlow, OnUnknownOutcome: executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_FAIL, MaxFailedSteps: 1, Rev: 1},
	"sparing":  {Confirm: executorv1.Confirm_CONFIRM_BY_RISK, Flow: codingFlow, Budget: &storagev1.Limits{MaxModelCalls: 12}, Rev: 1},
	"poor":     {Confirm: executorv1.Confirm_CONFIRM_NEVER, Budget: &storagev1.Limits{MaxToolCalls: 2, MaxModelCalls: 6, MaxRunTime: int64(5 * time.Minute)}, Rev: 1},
}

// does runs a person's request do on a goroutine of its own. note, if not nil, receives the result.
func (w *world) does(user, what string, note *answerNote, do func(context.Context, *api.Tasks) error) {
	w.people++
	p, actor := w.proc, fmt.Sprintf("%s#%d", user, w.people)
	patience := pick(w.s, 2*time.Minute, 2*time.Minute, 200*time.Millisecond)
	if w.s.calm {
		patience = 2 * time.Minute
	}
	w.s.note(actor+" "+what, 0)
	if note != nil {
		note.actor = actor
		w.book.mu.Lock()
		w.book.answers = append(w.book.answers, note)
		w.book.mu.Unlock()
	}
	calm := w.s.calm
	w.active.Add(1)
	w.goes(func() {
		defer w.active.Add(-1)
		ctx, cancel := context.WithTimeout(as(w.ctx, actor), patience)
		defer cancel()
		ctx = identity.NewContext(ctx, identity.Principal{Sub: user, Roles: []identity.Role{identity.RoleUser, identity.RoleOperator}})
		err := do(ctx, p.tasks)
		if note != nil {
			w.book.answered(note, err)
		}
		_, _ = w.s.pass(w.ctx, nil, fmt.Sprintf("%s is told %s", actor, errs.ReasonName(errs.Reason(err))))
		w.checkTold(actor, what, err, calm)
	})
}

// checkTold checks that an error that a person is told is no defect of Pawl, nor a failure of the network while nothing fails.
func (w *world) checkTold(actor, what string, err error, calm bool) {
	if err == nil {
		return
	}
	switch errs.From(err).Code {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		w.book.fault("%s %s: %v", actor, what, err)
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		if calm && w.ctx.Err() == nil {
			w.book.fault("%s %s: %v, although nothing fails", actor, what, err)
		}
	}
}

// personActs lets a person act, mostly answer.
func (w *world) personActs() {
	all := w.book.all()
	if len(w.book.talks) > 0 && w.s.chance(2) {
		w.talks()
		return
	}
	if len(all) == 0 || len(all) < w.cfg.tasks && w.s.chance(3) {
		w.creates()
		return
	}
	k := all[w.s.rng.IntN(len(all))]
	if k.gone {
		return
	}
	c := k.checkpoint
	waits := c.GetWaits()
	switch n := w.s.rng.IntN(40); {
	case len(waits) > 0 && n < 23:
		wait := waits[w.s.rng.IntN(len(waits))]
		w.answers(k, wait)
		if w.s.chance(4) { // twice, and perhaps not the same
			w.answers(k, wait)
		}
	case n < 28 && c.GetWaitCount() > 0 && !state.Ended(c.GetStatus()): // one that may be closed, or to come
		id := fmt.Sprintf("wait-%d", 1+w.s.rng.IntN(int(c.GetWaitCount())+1))
		w.answers(k, &storagev1.Wait{Id: id, Kind: executorv1.WaitKind_WAIT_KIND_APPROVAL})
	case n == 28:
		w.cancels(k)
	case n <= 30 && k.head.GetFlow() == codingFlow && w.s.chance(2):
		id := fmt.Sprintf("sub%d", 1+w.s.rng.IntN(mostSubtasks))
		w.does(k.head.GetUserSub(), "cancels "+id+" of "+k.name, nil, func(ctx context.Context, t *api.Tasks) error {
			_, err := t.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: k.id, SubtaskId: id})
			return err
		})
	case n <= 30:
		w.does(k.head.GetUserSub(), "pauses "+k.name, nil, func(ctx context.Context, t *api.Tasks) error {
			_, err := t.PauseTask(ctx, &executorv1.PauseTaskRequest{Id: k.id})
			return err
		})
	case n <= 32 && c.GetPauseRequested():
		w.unpauses(k, "")
	case n <= 34 && len(all) < w.cfg.tasks+3:
		w.forks(k)
	case n == 35 && state.Ended(c.GetStatus()):
		w.deletes(k)
	case n == 36:
		w.does("dan", "looks at "+k.name, nil, func(ctx context.Context, t *api.Tasks) error {
			if _, err := t.GetTask(ctx, &executorv1.GetTaskRequest{Id: k.id}); err == nil {
				w.book.fault("%s is shown to a stranger", k.name)
			}
			return nil
		})
	case n <= 38:
		w.watches(k)
	}
}

func (w *world) creates() {
	user := users[w.s.rng.IntN(w.cfg.users)]
	flow := ""
	if w.s.chance(w.cfg.coding) {
		flow = codingFlow
	}
	req := &executorv1.CreateTaskRequest{Goal: w.planner.write(w.s, flow), McpIds: []string{"s"}, Flow: flow}
	switch n := w.s.rng.IntN(4); {
	case flow != "" && n > 0:
		req.AgentId = pick(w.s, "coder", "asking", "hasty", "sparing")
		req.PlanOptions = &executorv1.PlanOptions{MaxParallel: uint32(1 + w.s.rng.IntN(4)), MaxLoops: uint32(3 + w.s.rng.IntN(8))}
	case n == 0:
		auto := w.s.chance(2)
		req.AutoExecute = &auto
	default:
		req.AgentId = pick(w.s, "careful", "free", "free", "stubborn", "timid", "short", "poor")
	}
	if w.s.chance(3) {
		req.ConversationId = "talk"
	}
	if w.s.chance(3) {
		req.RequestId = fmt.Sprintf("request-%d", w.s.rng.Uint32())
	}
	if w.s.chance(6) {
		req.WaitTimeout = durationpb.New(30 * time.Second)
	}
	create := func(ctx context.Context, t *api.Tasks) error {
		_, err := t.CreateTask(ctx, req)
		return err
	}
	w.does(user, "creates a task", nil, create)
	if req.GetRequestId() != "" && w.s.chance(2) {
		w.does(user, "creates the same task", nil, create)
	}
}

func (w *world) cancels(k *taskBook) {
	note := &answerNote{task: k.id, command: &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{}}}}
	w.does(k.head.GetUserSub(), "cancels "+k.name, note, func(ctx context.Context, t *api.Tasks) error {
		_, err := t.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: k.id})
		return err
	})
}

func (w *world) unpauses(k *taskBook, wait string) {
	w.does(k.head.GetUserSub(), "unpauses "+k.name, nil, func(ctx context.Context, t *api.Tasks) error {
		_, err := t.ResumeTask(ctx, &executorv1.ResumeTaskRequest{Id: k.id, WaitId: wait, Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}}})
		return err
	})
}

func (w *world) forks(k *taskBook) {
	w.does(k.head.GetUserSub(), "forks "+k.name, nil, func(ctx context.Context, t *api.Tasks) error {
		_, err := t.ForkTask(ctx, &executorv1.ForkTaskRequest{Id: k.id})
		return err
	})
}

func (w *world) deletes(k *taskBook) {
	w.does(k.head.GetUserSub(), "deletes "+k.name, nil, func(ctx context.Context, t *api.Tasks) error {
		_, err := t.DeleteTask(ctx, &executorv1.DeleteTaskRequest{Id: k.id})
		return err
	})
}

// watcher reads a task's events as they come.
type watcher struct {
	task   *taskBook
	events []*executorv1.ExecutorEvent
}

func (w *world) watches(k *taskBook) {
	if len(w.watchers) >= 4 {
		return
	}
	seen := &watcher{task: k}
	w.watchers = append(w.watchers, seen)
	p := w.proc
	w.people++
	actor := fmt.Sprintf("watcher#%d", w.people)
	w.s.note(actor+" watches "+k.name, 0)
	w.goes(func() {
		never := func(executorv1.ExecutorStatus) bool { return false }
		_ = p.engine.Watch(as(w.ctx, actor), k.id, 0, never, func(e *executorv1.ExecutorEvent) error {
			seen.events = append(seen.events, e)
			return nil
		})
	})
}

// answers gives an answer to a wait: mostly one that fits.
func (w *world) answers(k *taskBook, wait *storagev1.Wait) {
	req := &executorv1.ResumeTaskRequest{Id: k.id, WaitId: wait.GetId()}
	n := w.s.rng.IntN(20)
	switch wait.GetKind() {
	case executorv1.WaitKind_WAIT_KIND_PAUSE:
		w.unpauses(k, wait.GetId())
		return
	case executorv1.WaitKind_WAIT_KIND_APPROVAL:
		a := &executorv1.Approve{}
		switch {
		case n < 3:
			a.InputJson = fmt.Sprintf(`{"text":"edited %d"}`, w.s.rng.IntN(3))
		case n == 3:
			a.InputJson = `{"misfit":1}`
		case n < 7:
			a.Grant = &executorv1.Grant{MaxRisk: pick(w.s, 0, low, medium, high)}
		}
		req.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: a}
	case executorv1.WaitKind_WAIT_KIND_PLAN:
		a := &executorv1.Approve{}
		if n < 4 {
			a.Plan = &executorv1.Plan{Subtasks: []*executorv1.Subtask{{Id: "sub2", Title: "second", DependsOn: []string{"sub1"}}, {Id: "sub1", Title: "first"}}}
		}
		req.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: a}
	case executorv1.WaitKind_WAIT_KIND_PARAMS:
		content := pick(w.s, `{"text":"filled"}`, `{"text":"filled"}`, `{"text":"filled otherwise"}`, `{"misfit":1}`)
		req.Answer = &executorv1.ResumeTaskRequest_Params{Params: &executorv1.Params{ContentJson: content}}
	case executorv1.WaitKind_WAIT_KIND_INPUT:
		req.Answer = &executorv1.ResumeTaskRequest_Input{Input: pick(w.s,
			&executorv1.InputAnswer{ContentJson: `{"text":"yes"}`}, &executorv1.InputAnswer{ContentJson: `{"text":"yes"}`},
			&executorv1.InputAnswer{ContentJson: `{"misfit":1}`}, &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_DECLINE},
			&executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_CANCEL},
		)}
	case executorv1.WaitKind_WAIT_KIND_OUTCOME:
		req.Answer = &executorv1.ResumeTaskRequest_Outcome{Outcome: pick(w.s,
			&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}},
			&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: `{"message":"seen"}`}}},
			&executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{}}},
		)}
	}
	if n >= 18 && !w.s.calm {
		req.Answer = &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: "no"}}
	}
	note := &answerNote{task: k.id, wait: wait.GetId(), command: meant(req)}
	w.does(k.head.GetUserSub(), fmt.Sprintf("answers %s of %s: %v", wait.GetId(), k.name, note.command), note, func(ctx context.Context, t *api.Tasks) error {
		_, err := t.ResumeTask(ctx, req)
		return err
	})
}

// meant returns an answer as the command that it stands for, for the checker.
func meant(req *executorv1.ResumeTaskRequest) *storagev1.Command {
	switch a := req.GetAnswer().(type) {
	case *executorv1.ResumeTaskRequest_Approve:
		c := &storagev1.Approve{WaitId: req.GetWaitId(), InputJson: a.Approve.GetInputJson()}
		if g := a.Approve.GetGrant(); g != nil {
			if c.Grant = g.GetMaxRisk(); c.Grant == 0 {
				c.Grant = shown
			}
		}
		return &storagev1.Command{Kind: &storagev1.Command_Approve{Approve: c}}
	case *executorv1.ResumeTaskRequest_Reject:
		return &storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: req.GetWaitId()}}}
	case *executorv1.ResumeTaskRequest_Params:
		return &storagev1.Command{Kind: &storagev1.Command_Params{Params: &storagev1.SupplyParams{WaitId: req.GetWaitId()}}}
	}
	if in := req.GetInput(); in != nil {
		action := max(in.GetAction(), executorv1.InputAnswer_ACTION_ACCEPT)
		return &storagev1.Command{Kind: &storagev1.Command_Input{Input: &storagev1.SupplyInput{WaitId: req.GetWaitId(), Action: action}}}
	}
	o := &storagev1.SettleOutcome{WaitId: req.GetWaitId()}
	switch a := req.GetOutcome().GetAnswer().(type) {
	case *executorv1.OutcomeAnswer_Retry:
		o.Answer = &storagev1.SettleOutcome_Retry{Retry: true}
	case *executorv1.OutcomeAnswer_Output:
		o.Answer = &storagev1.SettleOutcome_OutputJson{OutputJson: a.Output.GetOutputJson()}
	case *executorv1.OutcomeAnswer_Skip:
		o.Answer = &storagev1.SettleOutcome_Skip{}
	}
	return &storagev1.Command{Kind: &storagev1.Command_Outcome{Outcome: o}}
}

// shown, as the level of a grant, stands for the risk that was shown.
const shown = 99
