package chat

import (
	"slices"
	"strings"
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	success   = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
	failed    = executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR
	cancelled = executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED
	waiting   = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
)

func TestOnlyForMessages(t *testing.T) {
	if err := (Flow{}).Accepts(&storagev1.TaskHead{Goal: "g"}); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
		t.Errorf("a task without a message: %v", err)
	}
}

// B10: without tools the planner replies at once. Each piece is an event; the message follows with the same id.
func TestReply(t *testing.T) {
	r := newRig(t)
	r.want("received thinking")
	r.lists("")
	r.says("Hello ")
	r.says("Ann")
	r.answers(flow.Answered{Text: "!", FullAnswer: "Hello Ann!"})
	r.want("chunk:task/1:0:Hello  chunk:task/1:6:Ann chunk:task/1:9:! done:task/1:10 message:task/1")
	r.status(success)
	m := r.message()
	if m.GetText() != "Hello Ann!" || m.GetReplyTo() != "m1" || m.GetSender() != "bob" || !m.GetFromAgent() {
		t.Errorf("%v", m)
	}
	for _, p := range r.posts {
		if p.GetAgent() != "bob" || p.GetMessageId() != "m1" || p.GetTaskId() != "task" {
			t.Errorf("%v", p)
		}
	}
}

// B2: the planner decides whether the agent responds.
func TestDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		in   flow.Decided
		head func(*storagev1.TaskHead)
		want string
	}{
		"silent": {
			in:   flow.Decided{Kind: conversationv1.AgentDecision_KIND_SILENT, Reason: "not mine"},
			want: "decision:SILENT silent:not_mine",
		},
		"a question": {
			in:   flow.Decided{Kind: conversationv1.AgentDecision_KIND_ASK_HUMAN, Question: "which?"},
			want: "decision:ASK_HUMAN message:task/1",
		},
		"delegation": {
			in:   flow.Decided{Kind: conversationv1.AgentDecision_KIND_DELEGATE, DelegateTo: "carl"},
			want: "decision:DELEGATE message:task/1:to:carl",
		},
		"delegation to nobody": {in: flow.Decided{Kind: conversationv1.AgentDecision_KIND_DELEGATE, DelegateTo: "zoe"}, want: "decision:REPLY thinking"},
		"silence about a delegated message": {
			in:   flow.Decided{Kind: conversationv1.AgentDecision_KIND_SILENT},
			head: func(h *storagev1.TaskHead) { h.Chat.FromAgent, h.Chat.PassedBy = true, []string{"ann"} },
			want: "decision:REPLY thinking",
		},
		"no decision": {want: "decision:REPLY thinking"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.head == nil {
				c.head = func(*storagev1.TaskHead) {}
			}
			r := newRig(t, deciding, c.head)
			r.want("received deciding")
			r.decide(c.in)
			r.want(c.want)
			if !strings.HasSuffix(c.want, "thinking") {
				r.status(success)
			}
			if c.in.Kind == conversationv1.AgentDecision_KIND_DELEGATE && strings.Contains(c.want, "DELEGATE") {
				m := r.message()
				if m.GetText() != "@carl what is new?" || !slices.Equal(m.GetPassedBy(), []string{"bob"}) || !slices.Equal(m.GetMentions(), []string{"carl"}) {
					t.Errorf("%v", m)
				}
			}
		})
	}
}

// B4, B5, B9: each server has a lane; tools are selected again after the calls, and the reply follows once all are done.
func TestServers(t *testing.T) {
	r := newRig(t)
	r.lists("x y z more")
	if n := len(r.task.State.GetLanes()); n != 1+maxServers {
		t.Fatalf("%d lanes", n)
	}
	r.selects("x", "a", "b")
	r.selects("y")
	r.called("x", flow.Called{})
	r.called("x", flow.Called{})
	r.selects("x", "c")
	r.called("x", flow.Called{})
	r.selects("x")
	r.summarizes("x", "found it")
	r.selects("z", "a")
	r.called("z", flow.Called{})
	r.selects("z")
	r.summarizes("z", "nothing")
	r.answers(flow.Answered{Text: "done", FullAnswer: "done", Gathered: flow.Gathered{Media: []*storagev1.Media{{Type: "image"}}}})
	r.want("received thinking chunk:task/1:0:done done:task/1:4 message:task/1")
	r.status(success)
	if m := r.message(); len(m.GetMedia()) != 1 {
		t.Errorf("%v", m)
	}
	var ends []string
	for _, f := range r.facts {
		if c := f.GetSubtaskChanged(); c.GetTo() == serverCompleted {
			ends = append(ends, f.GetSubtaskId()+":"+c.GetSummary())
		}
	}
	if got := strings.Join(ends, " "); got != "y: x:found it z:nothing" {
		t.Errorf("%s", got)
	}
}

// B9: at most 10 rounds.
func TestRounds(t *testing.T) {
	r := newRig(t, func(h *storagev1.TaskHead) { h.Limits.MaxSteps = 100 })
	r.lists("x")
	for range maxRounds {
		r.selects("x", "a")
		r.called("x", flow.Called{})
	}
	r.summarizes("x", "enough")
	r.answers(flow.Answered{FullAnswer: "done"})
	r.status(success)
}

// B11: a server that fails is reported with its class, and the reply explains it, also if all fail.
func TestFailedServers(t *testing.T) {
	r := newRig(t, func(h *storagev1.TaskHead) { h.McpIds = []string{"x", "y", "down"} })
	r.lists("x y", "down")
	r.want("received thinking message:task/1")
	if m := r.message(); !strings.Contains(m.GetExtJson(), `"class":"network"`) || !strings.Contains(m.GetExtJson(), `"auto_trigger":true`) ||
		!strings.Contains(m.GetExtJson(), `"server":"down"`) {
		t.Errorf("%v", m)
	}
	r.selects("x", "a")
	r.called("x", failure("TOOL_EXECUTION_FAILED", "no such file"))
	r.selects("x") // the planner gives up
	if m := r.message(); !strings.Contains(m.GetExtJson(), `"class":"business"`) || !strings.Contains(m.GetText(), "no such file") {
		t.Errorf("%v", m)
	}
	r.selects("y", "a")
	r.called("y", flow.Called{})
	r.selects("y")
	r.summarizes("y", "ok")
	r.answers(flow.Answered{FullAnswer: "without x"})
	r.status(success)

	r = newRig(t)
	r.lists("x")
	r.selects("x", "a")
	r.called("x", failure("NETWORK_ERROR", "unreachable"))
	r.want("received thinking message:task/1")
	r.answers(flow.Answered{FullAnswer: "it cannot be reached", Gathered: flow.Gathered{MediaOmitted: 2, Results: []flow.ToolResult{{Tool: "x/a", Error: "unreachable"}}}})
	r.status(success)
	if m := r.message(); m.GetExtJson() != `{"media_omitted":2,"tool_results":[{"tool":"x/a","success":false,"error":"unreachable"}]}` {
		t.Errorf("%v", m)
	}

	// A report is no reply: what comes of the message is still to be said.
	r = newRig(t)
	r.lists("x")
	r.selects("x", "a")
	r.called("x", failure("NETWORK_ERROR", "unreachable"))
	r.answers(flow.Answered{Err: &storagev1.ErrorNote{ErrMsg: "no model", Reason: commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR}})
	r.want("received thinking message:task/1 silent:no_model")
	r.status(failed)
}

// B8: a call that takes longer than a minute is stopped; the server has failed.
func TestCallTimeout(t *testing.T) {
	r := newRig(t)
	r.lists("x")
	r.selects("x", "a")
	r.task.Now = r.task.Now.Add(callTime + time.Second)
	r.must(0, flow.Timeout{})
	r.called("x", failure("CANCELLED", "stopped"))
	if m := r.message(); !strings.Contains(m.GetText(), "60 seconds") || !strings.Contains(m.GetExtJson(), `"class":"network"`) {
		t.Errorf("%v", m)
	}
	r.answers(flow.Answered{FullAnswer: "it takes too long"})
	r.status(success)
}

// A wait is posted as a message, and answered as every wait. A refused call is not the end.
func TestWaits(t *testing.T) {
	r := newRig(t)
	r.lists("x")
	r.selects("x", "write")
	r.want("received thinking message:task/1:wait-1")
	r.status(waiting)
	w := r.message().GetWait()
	if w.GetToolId() != "x/write" || w.GetStepId() != "step-1" || w.GetInputJson() != "{}" || w.GetHash() == "" || r.message().GetText() != "risky\nx/write {}" {
		t.Errorf("%v", r.message())
	}
	if err := r.command(&storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: "wait-1", Reason: "no"}}}); err != nil {
		t.Fatal(err)
	}
	r.selects("x")
	r.answers(flow.Answered{FullAnswer: "I did not write"})
	r.want("done:task/2:0 message:task/2")
	r.status(success)
}

// B19: an interrupted reply ends with an error; an agent that has said nothing is silent.
func TestInterrupt(t *testing.T) {
	cancel := &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{Reason: "enough"}}}
	r := newRig(t)
	r.lists("")
	r.says("Well, ")
	if err := r.command(cancel); err != nil {
		t.Fatal(err)
	}
	r.want("received thinking chunk:task/1:0:Well,  done:task/1:6:interrupted")
	r.status(cancelled)

	r = newRig(t)
	if err := r.command(cancel); err != nil {
		t.Fatal(err)
	}
	r.want("received thinking silent:interrupted:_enough")
	r.status(cancelled)
}

// A reply that a crash broke off begins again under another id. So does one whose planner was lost.
func TestBrokenReply(t *testing.T) {
	r := newRig(t)
	r.lists("")
	r.crash()
	r.says("one ")
	r.crash()
	r.says("two ")
	r.answers(flow.Answered{Err: &storagev1.ErrorNote{ErrMsg: "lost", Reason: commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR}})
	r.answers(flow.Answered{Text: "three", FullAnswer: "three"})
	r.want(`received thinking
		chunk:task/2:0:one done:task/2:4:the_reply_broke_off_and_begins_again
		chunk:task/3:0:two done:task/3:4:the_reply_broke_off_and_begins_again
		chunk:task/4:0:three done:task/4:5 message:task/4`)
	r.status(success)
}

// A failure of the planner is not silent.
func TestPlannerFails(t *testing.T) {
	r := newRig(t)
	r.lists("")
	r.answers(flow.Answered{Err: &storagev1.ErrorNote{ErrMsg: "no model", Reason: commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR}})
	r.want("received thinking silent:no_model")
	r.status(failed)
}

const beforeDeal = `received thinking load_llm_tool:running load_llm_tool:completed prepare_context:running prepare_context:completed
	msg_type_classify:running msg_type_classify:completed msg_pre_deal:running `

// B12, B16: six phases, each running and completed.
func TestPhases(t *testing.T) {
	r := newRig(t, inPhases)
	r.lists("x")
	r.summarizes("", "so far")
	r.responds(flow.Responded{Text: "the reply", Gathered: flow.Gathered{Media: []*storagev1.Media{{Type: "image"}}}})
	r.want(beforeDeal + `msg_pre_deal:completed msg_deal:running msg_deal:completed post_msg_deal:running message:task/1 post_msg_deal:completed`)
	r.status(success)
	if r.summary.GetText() != "so far" || r.summary.GetToSeq() != 3 || r.summary.GetAgent() != "bob" {
		t.Errorf("%v", r.summary)
	}
	last := r.posts[len(r.posts)-1].GetProcess()
	if !last.GetIsComplete() || last.GetMsgType() != userMessage || last.GetLlmDecision() != "complete" || !slices.Equal(last.GetProcessSteps(), phases) ||
		last.GetAgentName() != "Bob" || last.GetAgentId() != "helper" {
		t.Errorf("%v", last)
	}
}

// B17: a further call is posted as a message, with which the flow begins again; at most 10 times.
func TestContinue(t *testing.T) {
	next := planned("x/look")
	next.InputJSON = `{"n":1}`
	r := newRig(t, inPhases, func(h *storagev1.TaskHead) { h.Chat.EarlierTasks, h.Chat.ProcessSeq = []string{"before"}, 7 })
	r.lists("x")
	r.summarizes("", "")
	r.responds(flow.Responded{Text: "looking", Call: next, Result: "before", Gathered: flow.Gathered{Media: []*storagev1.Media{{Type: "image"}}}})
	m := r.message()
	if m.GetRounds() != 1 || m.GetProcessSeq() != 7 || !slices.Equal(m.GetEarlierTasks(), []string{"before", "task"}) || len(m.GetMedia()) > 0 || !strings.Contains(m.GetExtJson(), `"tool_call":{"description":"d","params":{"n":1},"server_id":"x","tool_name":"look"}`) ||
		!strings.Contains(m.GetExtJson(), `"use_new_flow":true`) || !strings.Contains(m.GetExtJson(), `"tool_result":"before"`) {
		t.Errorf("%v", m)
	}
	r.status(success)

	r = newRig(t, inPhases, func(h *storagev1.TaskHead) { h.Chat.Rounds = maxRounds })
	r.lists("x")
	r.summarizes("", "")
	a := r.pop("", asks[flow.Respond])
	if q := a.Action.(flow.Ask).Question.(flow.Respond); !q.MustComplete {
		t.Errorf("%v", q)
	}
	r.must(a.Lane, flow.Responded{Text: "enough", Call: next})
	if m := r.message(); m.GetExtJson() != "" || m.GetText() != "enough" {
		t.Errorf("%v", m)
	}
}

// B14, B15: a call comes first, and its result is the message; the agent's own other messages end the flow.
func TestMessageTypes(t *testing.T) {
	call := func(h *storagev1.TaskHead) {
		h.Chat.Call, h.Chat.FromAgent, h.Chat.Sender, h.Chat.Rounds = &storagev1.ChatCall{ToolId: "x/look"}, true, "bob", 1
	}
	r := newRig(t, inPhases, call)
	r.must(r.pop("", asks[flow.ListTools]).Lane, flow.ToolsListed{Tools: &storagev1.ToolsLoaded{}, Call: planned("x/look")})
	r.summarizes("", "")
	r.want(beforeDeal)
	if p := r.posts[len(r.posts)-1].GetProcess(); p.GetMsgType() != callMessage {
		t.Errorf("%v", p)
	}
	r.called("", failure("NETWORK_ERROR", "down"))
	r.want("message:task/1 msg_pre_deal:completed msg_deal:running")
	if m := r.message(); !strings.Contains(m.GetExtJson(), `"mcp_error":{"class":"network","message":"down","server":"x"}`) {
		t.Errorf("%v", m)
	}
	a := r.pop("", asks[flow.Respond])
	if q := a.Action.(flow.Ask).Question.(flow.Respond); q.MessageType != resultMessage {
		t.Errorf("%v", q)
	}
	r.must(a.Lane, flow.Responded{Text: "it is down"})
	r.status(success)

	own := func(h *storagev1.TaskHead) { h.Chat.FromAgent, h.Chat.Sender = true, "bob" }
	r = newRig(t, inPhases, own)
	r.lists("")
	r.summarizes("", "")
	r.want(beforeDeal + "msg_pre_deal:completed silent:the_agent_wrote_the_message_itself")
	r.status(success)
}

// B11: in phases, a named server that cannot be used is reported, and the reply explains it. A call that a person refuses is no error of its server.
func TestErrorsInPhases(t *testing.T) {
	r := newRig(t, inPhases, func(h *storagev1.TaskHead) { h.McpIds = []string{"x", "down"} })
	r.lists("x", "down")
	r.want("received thinking load_llm_tool:running message:task/1 load_llm_tool:completed prepare_context:running")
	r.summarizes("", "")
	r.crash()
	a := r.pop("", asks[flow.Respond])
	if q := a.Action.(flow.Ask).Question.(flow.Respond); !slices.Equal(q.Errors, []string{"The MCP server down failed: it is down"}) {
		t.Errorf("%v", q)
	}
	r.must(a.Lane, flow.Responded{Text: "down is down"})
	r.status(success)

	r = newRig(t, inPhases, func(h *storagev1.TaskHead) { h.Chat.Call = &storagev1.ChatCall{ToolId: "x/write"} })
	r.must(r.pop("", asks[flow.ListTools]).Lane, flow.ToolsListed{Tools: &storagev1.ToolsLoaded{}, Call: planned("x/write")})
	r.summarizes("", "")
	if err := r.command(&storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: "wait-1"}}}); err != nil {
		t.Fatal(err)
	}
	if r.responds(flow.Responded{Text: "not written"}); strings.Contains(r.message().GetExtJson(), "mcp_error") || strings.Count(r.all(), "message:") != 2 {
		t.Errorf("%s", r.all())
	}
}

// B12: the phase that fails says so.
func TestPhaseFails(t *testing.T) {
	r := newRig(t, inPhases)
	r.lists("")
	r.must(r.pop("", asks[flow.SummarizeConversation]).Lane, flow.Summarized{Err: &storagev1.ErrorNote{ErrMsg: "no model"}})
	r.want("received thinking load_llm_tool:running load_llm_tool:completed prepare_context:running prepare_context:error silent:no_model")
	r.status(failed)
}
