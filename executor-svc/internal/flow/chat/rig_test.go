package chat

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// tester is a test, or a check of rapid.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// rig drives the flow as the engine does: it keeps the state, and the actions that run.
type rig struct {
	tester
	task    *flow.Task
	pending []flow.LaneAction
	facts   []*storagev1.Fact
	posts   []*storagev1.TopicFact
	summary *storagev1.TopicSummary
	seen    int // how many posts want has compared
}

func newRig(t tester, change ...func(*storagev1.TaskHead)) *rig {
	head := &storagev1.TaskHead{
		UserSub: "u", Goal: "what is new?", Flow: Kind, AgentId: "helper", Confirm: executorv1.Confirm_CONFIRM_BY_RISK,
		Limits: &storagev1.Limits{MaxSteps: 25, MaxFailedSteps: 3, MaxAttempts: 5, MaxRecoveries: 5},
		Chat: &storagev1.Chat{
			TopicId: "topic", MessageId: "m1", MessageSeq: 7, Agent: "bob", AgentName: "Bob", Sender: "ann", OtherAgents: []string{"carl", "dora"},
		},
	}
	for _, c := range change {
		c(head)
	}
	r := &rig{tester: t, task: &flow.Task{ID: "task", Head: head, State: Flow{}.Start(), Now: time.Unix(1000, 0)}}
	r.resume(false)
	return r
}

func deciding(h *storagev1.TaskHead) { h.Chat.Decide = true }
func inPhases(h *storagev1.TaskHead) { h.Chat.Phases = true }

func (r *rig) resume(recovered bool) {
	r.Helper()
	before := proto.CloneOf(r.task.State)
	r.pending = nil
	tr, err := Flow{}.Resume(r.task, recovered)
	if err != nil {
		r.Fatalf("Resume: %v", err)
	}
	r.take(before, tr)
}

// crash loses what runs; the task is loaded from what was stored.
func (r *rig) crash() {
	r.Helper()
	raw, err := proto.Marshal(r.task.State)
	if err != nil {
		r.Fatal(err)
	}
	r.task.State = &storagev1.Checkpoint{}
	if err := proto.Unmarshal(raw, r.task.State); err != nil {
		r.Fatal(err)
	}
	r.resume(true)
}

// on applies an input and returns the flow's error. As in the engine, a refused or Unchanged transition leaves the state as it was.
func (r *rig) on(lane uint32, in flow.Input) error {
	r.Helper()
	before := proto.CloneOf(r.task.State)
	tr, err := Flow{}.Apply(r.task, lane, in)
	if err != nil {
		r.task.State = before
		return err
	}
	r.take(before, tr)
	return nil
}

func (r *rig) must(lane uint32, in flow.Input) {
	r.Helper()
	if err := r.on(lane, in); err != nil {
		r.Fatalf("%T: %v after %v", in, err, r.all())
	}
}

func (r *rig) command(c *storagev1.Command) error {
	r.Helper()
	return r.on(0, flow.Command{Command: c})
}

func (r *rig) take(before *storagev1.Checkpoint, tr flow.Transition) {
	r.Helper()
	if tr.Unchanged {
		if r.task.State = before; len(tr.Posts) > 0 || tr.Summary != nil {
			r.Fatal("an unchanged transition posts")
		}
	}
	r.facts, r.posts = append(r.facts, tr.Facts...), append(r.posts, tr.Posts...)
	if tr.Summary != nil {
		r.summary = tr.Summary
	}
	r.task.State.LastSeq += uint64(len(tr.Facts))
	r.task.State.UpdateTime = r.task.Now.UnixNano()
	for _, a := range tr.Actions {
		switch a.Action.(type) {
		case flow.Abandon:
			r.pending = slices.DeleteFunc(r.pending, func(p flow.LaneAction) bool { return p.Lane == a.Lane })
		case flow.StopCall, flow.Withdraw:
		default:
			r.pending = append(r.pending, a)
		}
	}
}

// pop returns an action of a server's lane that fits, and removes it; server "" is lane 0.
func (r *rig) pop(server string, fits func(flow.Action) bool) flow.LaneAction {
	r.Helper()
	for i, a := range r.pending {
		if flow.LaneOf(r.task.State, a.Lane).GetSubtaskId() == server && fits(a.Action) {
			r.pending = slices.Delete(r.pending, i, i+1)
			return a
		}
	}
	r.Fatalf("nothing that fits runs for %q; there is %v after %v", server, r.pending, r.all())
	return flow.LaneAction{}
}

func asks[Q flow.Question](a flow.Action) bool {
	ask, ok := a.(flow.Ask)
	if !ok {
		return false
	}
	_, ok = ask.Question.(Q)
	return ok
}

func isCall(a flow.Action) bool {
	switch a.(type) {
	case flow.Call, flow.Attach:
		return true
	}
	return false
}

func (r *rig) decide(in flow.Decided) {
	r.Helper()
	r.must(r.pop("", asks[flow.Decide]).Lane, in)
}

// lists answers ListTools with these servers; those in skipped failed.
func (r *rig) lists(servers string, skipped ...string) {
	r.Helper()
	in := flow.ToolsListed{Tools: &storagev1.ToolsLoaded{}, Servers: strings.Fields(servers)}
	for _, id := range skipped {
		in.Tools.Skipped = append(in.Tools.Skipped, &storagev1.Skipped{McpId: id, Reason: commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, Message: "it is down"})
	}
	r.must(r.pop("", asks[flow.ListTools]).Lane, in)
}

// selects answers SelectTools of a server; a tool that begins with "write" needs approval.
func (r *rig) selects(server string, tools ...string) {
	r.Helper()
	in := flow.ToolsSelected{}
	for _, t := range tools {
		in.Steps = append(in.Steps, planned(server+"/"+t))
	}
	r.must(r.pop(server, asks[flow.SelectTools]).Lane, in)
}

func planned(tool string) *flow.PlannedStep {
	p := &flow.PlannedStep{ToolID: tool, InputJSON: `{}`, Description: "d", Risk: &storagev1.RiskNote{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "risky"}}
	p.Effect, p.RiskFloor = commonv1.Effect_EFFECT_READ, commonv1.RiskLevel_RISK_LEVEL_LOW
	if strings.Contains(tool, "/write") {
		p.Effect, p.RiskFloor = commonv1.Effect_EFFECT_WRITE, commonv1.RiskLevel_RISK_LEVEL_MEDIUM
	}
	return p
}

// called ends the running call of a server's lane.
func (r *rig) called(server string, out flow.Called) {
	r.Helper()
	a := r.pop(server, isCall)
	s := flow.LaneOf(r.task.State, a.Lane).GetStep()
	out.Ordinal, out.Attempt = s.GetOrdinal(), s.GetAttempt()
	if out.Outcome == 0 {
		out.Outcome = commonv1.Outcome_OUTCOME_KNOWN
	}
	if out.Err == nil {
		out.Output = `{"message":"ok"}`
	}
	r.must(a.Lane, out)
}

func failure(reason, text string) flow.Called {
	return flow.Called{Err: &storagev1.ErrorNote{ErrMsg: text, Reason: commonv1.ErrorReason(commonv1.ErrorReason_value["ERROR_REASON_"+reason])}}
}

func (r *rig) summarizes(server, text string) {
	r.Helper()
	if server == "" {
		r.must(r.pop("", asks[flow.SummarizeConversation]).Lane, flow.Summarized{Text: text, ToSeq: 3})
		return
	}
	r.must(r.pop(server, asks[flow.Summarize]).Lane, flow.Summarized{Text: text})
}

// says sends a piece of the reply, which stays running.
func (r *rig) says(text string) {
	r.Helper()
	r.must(0, flow.Text{Text: text})
}

// answers ends the reply.
func (r *rig) answers(in flow.Answered) {
	r.Helper()
	r.must(r.pop("", asks[flow.Answer]).Lane, in)
}

func (r *rig) responds(in flow.Responded) {
	r.Helper()
	r.must(r.pop("", asks[flow.Respond]).Lane, in)
}

func (r *rig) status(want executorv1.ExecutorStatus) {
	r.Helper()
	if got := r.task.State.GetStatus(); got != want {
		r.Errorf("the task is %s, want %s", got, want)
	}
	if state.Ended(want) {
		r.checkServersEnded()
		for _, a := range r.pending {
			r.Errorf("after the end runs %v", a)
		}
	}
}

// checkServersEnded checks that the work with each server has ended with the task.
func (r *rig) checkServersEnded() {
	r.Helper()
	open := map[string]bool{}
	for _, f := range r.facts {
		for _, s := range f.GetPlanCreated().GetSubtasks() {
			open[s.GetId()] = true
		}
		if c := f.GetSubtaskChanged(); c != nil {
			open[f.GetSubtaskId()] = !state.SubtaskEnded(c.GetTo())
		}
	}
	for id, is := range open {
		if is {
			r.Errorf("the task has ended, and the work with %s has not", id)
		}
	}
}

// want compares the new posts in short.
func (r *rig) want(posts string) {
	r.Helper()
	if got, want := r.short(r.seen), strings.Join(strings.Fields(posts), " "); got != want {
		r.Errorf("posts:\n%s\nwant:\n%s", got, want)
	}
	r.seen = len(r.posts)
}

func (r *rig) all() string { return r.short(0) }

func (r *rig) short(from int) string {
	var words []string
	for _, p := range r.posts[from:] {
		words = append(words, shortly(p))
	}
	return strings.Join(words, " ")
}

// shortly names a post.
func shortly(p *storagev1.TopicFact) string {
	switch k := p.GetKind().(type) {
	case *storagev1.TopicFact_AgentReceived:
		return "received"
	case *storagev1.TopicFact_AgentDeciding:
		return "deciding"
	case *storagev1.TopicFact_AgentThinking:
		return "thinking"
	case *storagev1.TopicFact_AgentDecision:
		return "decision:" + strings.TrimPrefix(k.AgentDecision.GetKind().String(), "KIND_")
	case *storagev1.TopicFact_AgentSilent:
		return "silent:" + strings.ReplaceAll(k.AgentSilent, " ", "_")
	case *storagev1.TopicFact_StreamChunk:
		c := k.StreamChunk
		return fmt.Sprintf("chunk:%s:%d:%s", c.GetReplyId(), c.GetOffset(), strings.TrimSpace(c.GetText()))
	case *storagev1.TopicFact_StreamDone:
		d := k.StreamDone
		return strings.TrimSuffix(fmt.Sprintf("done:%s:%d:%s", d.GetReplyId(), d.GetSize(), strings.ReplaceAll(d.GetError(), " ", "_")), ":")
	case *storagev1.TopicFact_Process:
		return k.Process.GetPhase() + ":" + k.Process.GetStatus()
	case *storagev1.TopicFact_Message:
		m := k.Message
		out := "message:" + m.GetId()
		if m.GetWait() != nil {
			out += ":" + m.GetWait().GetId()
		}
		if m.GetDelegateTo() != "" {
			out += ":to:" + m.GetDelegateTo()
		}
		return out
	}
	return fmt.Sprintf("%T", p.GetKind())
}

// message returns the last message that was posted.
func (r *rig) message() *storagev1.TopicMessage {
	r.Helper()
	for _, p := range slices.Backward(r.posts) {
		if p.GetMessage() != nil {
			return p.GetMessage()
		}
	}
	r.Fatal("no message was posted")
	return nil
}
