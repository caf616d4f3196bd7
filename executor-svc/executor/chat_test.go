package executor_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/fake"
)

const (
	streamChunk = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_STREAM_CHUNK
	streamDone  = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_STREAM_DONE
)

// reply follows a topic until the agent's reply, which is no wait, and returns the events after a seq with it.
func (u *user) reply(topicID string, after uint64) (events []*conversationv1.TopicEvent, reply *conversationv1.Message) {
	u.t.Helper()
	events = u.eventsUntil(topicID, after, func(e *conversationv1.TopicEvent) bool {
		return e.GetNewMessage().GetFromAgent() && e.GetNewMessage().GetWait() == nil
	})
	return events, events[len(events)-1].GetNewMessage()
}

// B1, B2, B10, B18: a private message is answered with calls and a streamed reply.
func TestChat(t *testing.T) {
	p := fake.Script("read")
	var asked *plannerv1.TaskContext
	p.AnswerFn = func(_ context.Context, req *plannerv1.GenerateAnswerRequest, send func(string) error) error {
		asked = req.GetContext()
		return send("Hello " + req.GetContext().GetSpeaker())
	}
	r := newRig(t, p)
	ann := r.user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "read it"})
	events, wait := ann.waits(topic.GetId(), m.GetSeq())
	if got, want := topicTypes(events), "agent_received:helper agent_thinking:helper new_message:helper"; got != want {
		t.Fatalf("events: %s, want %s", got, want)
	}
	if w := wait.GetWait(); w.GetToolId() != "t/read" || w.GetStepId() != "step-1" || w.GetKind() != executorv1.WaitKind_WAIT_KIND_APPROVAL {
		t.Fatalf("%v", wait)
	}
	answer, err := ann.PostMessage(t.Context(), &conversationv1.PostMessageRequest{
		TopicId: topic.GetId(), Message: &conversationv1.Message{ReplyTo: wait.GetId()},
		Answer: &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Approve{Approve: &executorv1.Approve{}}},
	})
	if err != nil || answer.GetAnsweredWaitId() != "wait-1" {
		t.Fatalf("%v, %v", answer, err)
	}
	events, reply := ann.reply(topic.GetId(), wait.GetSeq())
	var types []string
	for _, e := range events {
		if e.GetAgent() == "helper" {
			types = append(types, strings.TrimPrefix(e.GetType().String(), "TOPIC_EVENT_TYPE_"))
		}
	}
	if got := strings.Join(types, " "); got != "AGENT_STREAM_CHUNK AGENT_STREAM_DONE NEW_MESSAGE" {
		t.Errorf("events: %s", got)
	}
	if reply.GetText() != "Hello local" || reply.GetReplyTo() != m.GetId() || reply.GetSender() != "helper" || reply.GetTaskId() != wait.GetTaskId() {
		t.Errorf("%v", reply)
	}
	if h := asked.GetHistory(); len(h) != 1 || h[0].GetToolId() != "t/read" || asked.GetGoal() != "read it" || asked.GetAgentName() != "helper" {
		t.Errorf("the planner got %v", asked)
	}
	task, err := ann.tasks.GetTask(t.Context(), &executorv1.GetTaskRequest{Id: reply.GetTaskId()})
	if err != nil || task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS || task.GetFullAnswer() != "Hello local" || task.GetFlow() != "chat" {
		t.Errorf("%v, %v", task, err)
	}
}

// waits follows a topic until an agent's question, and returns the events with it.
func (u *user) waits(topicID string, after uint64) (events []*conversationv1.TopicEvent, wait *conversationv1.Message) {
	u.t.Helper()
	events = u.eventsUntil(topicID, after, func(e *conversationv1.TopicEvent) bool { return e.GetNewMessage().GetWait() != nil })
	return events, events[len(events)-1].GetNewMessage()
}

// Tasks of the flow start by messages alone, and their forks would have no message.
func TestChatNeedsAMessage(t *testing.T) {
	r := newRig(t, fake.Script())
	_, err := r.tasks.CreateTask(t.Context(), &executorv1.CreateTaskRequest{Goal: "g", Flow: "chat"})
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST || !strings.Contains(err.Error(), "post a message") {
		t.Errorf("CreateTask: %v", err)
	}
}

// B7: in rounds the planner gets the last 6 messages, cut, and no message that was rolled back.
func TestContextOfAChat(t *testing.T) {
	p := fake.Script()
	contexts := make(chan *plannerv1.TaskContext, 10)
	p.AnswerFn = func(_ context.Context, req *plannerv1.GenerateAnswerRequest, send func(string) error) error {
		contexts <- req.GetContext()
		return send("reply to " + req.GetContext().GetGoal())
	}
	ann := newRig(t, p).user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	say := func(text string) *conversationv1.Message {
		_, reply := ann.reply(topic.GetId(), ann.post(topic.GetId(), &conversationv1.Message{Text: text}).GetSeq())
		return reply
	}
	say("one")
	two := say("two")
	say("forgotten")
	if _, err := ann.RollbackTopic(t.Context(), &conversationv1.RollbackTopicRequest{TopicId: topic.GetId(), ToMessageId: two.GetId()}); err != nil {
		t.Fatal(err)
	}
	say(strings.Repeat("é", 600))
	say("now")
	var last *plannerv1.TaskContext
	for range 5 {
		last = <-contexts
	}
	var got []string
	for _, m := range last.GetMessages() {
		text := m.GetText()
		if n := len([]rune(text)); n > 20 {
			text = "long"
			if n != 500 {
				t.Errorf("a message has %d characters", n)
			}
		}
		if m.GetFromSelf() != (m.GetSender() == "helper") {
			t.Errorf("%v", m)
		}
		got = append(got, text)
	}
	if want := []string{"one", "reply to one", "two", "reply to two", "long", "long"}; !slices.Equal(got, want) {
		t.Errorf("context: %q, want %q", got, want)
	}
}

// B11: a failed server is reported, and the reply explains it, also if no server works.
func TestExplainedError(t *testing.T) {
	p := fake.Script("read")
	p.AnswerFn = func(_ context.Context, req *plannerv1.GenerateAnswerRequest, send func(string) error) error {
		if !req.GetExplainError() {
			t.Errorf("a reply without a result: %v", req)
		}
		return send("it is broken")
	}
	r := newRig(t, p)
	r.pool.CallFn = func(context.Context, *mcppoolv1.CallToolRequest, func(*mcppoolv1.CallToolResponse) error) error {
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, "no route to the server").With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	ann := r.user("")
	if _, err := ann.agents.CreateAgent(t.Context(), &executorv1.CreateAgentRequest{AgentId: "helper", Agent: &executorv1.Agent{Confirm: executorv1.Confirm_CONFIRM_BY_RISK}}); err != nil {
		t.Fatal(err)
	}
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "read it"})
	_, report := ann.reply(topic.GetId(), m.GetSeq())
	failure := report.GetExt().GetFields()["mcp_error"].GetStructValue().GetFields()
	if failure["class"].GetStringValue() != "network" || failure["server"].GetStringValue() != "t" || !strings.Contains(report.GetText(), "no route") {
		t.Fatalf("%v", report)
	}
	_, explained := ann.reply(topic.GetId(), report.GetSeq())
	if explained.GetText() != "it is broken" || explained.GetReplyTo() != m.GetId() || explained.GetTaskId() != report.GetTaskId() {
		t.Errorf("%v", explained)
	}
	if got := explained.GetExt().GetFields()["tool_results"].String(); !strings.Contains(got, "t/read") || !strings.Contains(got, "no route") {
		t.Errorf("tool_results: %s", got)
	}
	task, err := ann.tasks.GetTask(t.Context(), &executorv1.GetTaskRequest{Id: report.GetTaskId()})
	if err != nil || task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS {
		t.Errorf("%v, %v", task, err)
	}
}

// answer approves a wait of a topic.
func (u *user) answer(wait *conversationv1.Message) {
	u.t.Helper()
	_, err := u.PostMessage(u.t.Context(), &conversationv1.PostMessageRequest{
		TopicId: wait.GetTopicId(), Message: &conversationv1.Message{ReplyTo: wait.GetId()},
		Answer: &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Approve{Approve: &executorv1.Approve{}}},
	})
	if err != nil {
		u.t.Fatal(err)
	}
}

// B12, B17: in phases, each call is a message with which the process goes on; it knows the results of all calls, and the reply has their media.
func TestChatInPhases(t *testing.T) {
	r := newRig(t, fake.Script("read", "write"))
	p := r.planner
	p.RespondFn = func(req *plannerv1.RespondRequest) *plannerv1.RespondResponse {
		h := req.GetContext().GetHistory()
		if len(h) < 2 {
			return &plannerv1.RespondResponse{Decision: plannerv1.RespondDecision_RESPOND_DECISION_CONTINUE, Text: "reading", NextCall: p.Steps[len(h)]}
		}
		if req.GetMessageType() != "result_msg" || h[0].GetStepId() != "step-1" || h[1].GetStepId() != "step-2" {
			t.Errorf("the last question: %v", req)
		}
		return &plannerv1.RespondResponse{Decision: plannerv1.RespondDecision_RESPOND_DECISION_COMPLETE, Text: h[0].GetInputJson() + h[1].GetInputJson()}
	}
	r.pool.CallFn = func(_ context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		res := fake.TextResult("pictures", false)
		for range 11 {
			res.GetResult().Content = append(res.GetResult().GetContent(), &mcppoolv1.Content{Kind: &mcppoolv1.Content_Image{Image: &mcppoolv1.Blob{MimeType: "image/png", Data: []byte(req.GetInputJson())}}})
		}
		return send(res)
	}
	ann := r.user("")
	if _, err := ann.agents.CreateAgent(t.Context(), &executorv1.CreateAgentRequest{AgentId: "helper", Agent: &executorv1.Agent{
		ChatOptions: &executorv1.ChatOptions{Phases: true},
	}}); err != nil {
		t.Fatal(err)
	}
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "read it"})
	events, call := ann.reply(topic.GetId(), m.GetSeq())
	if call.GetText() != "reading" || call.GetExt().GetFields()["tool_call"].GetStructValue().GetFields()["tool_name"].GetStringValue() != "read" {
		t.Fatalf("%v", call)
	}
	var steps []string
	for _, e := range events {
		if e.GetProcessEvent() != nil {
			steps = append(steps, e.GetProcessEvent().GetPhase()+":"+e.GetProcessEvent().GetStatus())
		}
	}
	if got := strings.Join(steps, " "); !strings.HasPrefix(got, "load_llm_tool:running load_llm_tool:completed") || !strings.HasSuffix(got, "msg_deal:completed post_msg_deal:running") {
		t.Errorf("phases: %s", got)
	}
	_, wait := ann.waits(topic.GetId(), call.GetSeq())
	ann.answer(wait)
	_, second := ann.reply(topic.GetId(), wait.GetSeq())
	_, wait = ann.waits(topic.GetId(), second.GetSeq())
	ann.answer(wait)
	_, reply := ann.reply(topic.GetId(), wait.GetSeq())
	if reply.GetText() != `{"text":"read 1"}{"text":"write 2"}` || reply.GetReplyTo() != second.GetId() || second.GetReplyTo() != call.GetId() {
		t.Errorf("%v", reply)
	}
	if n := len(reply.GetMedia()); n != 20 || len(call.GetMedia())+len(second.GetMedia()) > 0 || reply.GetExt().GetFields()["media_omitted"].GetNumberValue() != 2 {
		t.Errorf("%d media, %v", n, reply.GetExt())
	}
	last := ann.eventsUntil(topic.GetId(), reply.GetSeq(), func(e *conversationv1.TopicEvent) bool { return e.GetProcessEvent().GetEventData().GetIsComplete() })
	if e := last[len(last)-1].GetProcessEvent(); e.GetPhase() != "post_msg_deal" || e.GetStatus() != "completed" || e.GetEventData().GetMsgType() != "result_msg" ||
		e.GetEventData().GetTopicId() != topic.GetId() || e.GetAgentId() != "helper" {
		t.Errorf("%v", e)
	}
}

// B19: an interrupted reply ends in the topic, and no message follows.
func TestInterruptedReply(t *testing.T) {
	p := fake.Script()
	p.AnswerFn = func(ctx context.Context, _ *plannerv1.GenerateAnswerRequest, send func(string) error) error {
		if err := send("Well, "); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	ann := newRig(t, p).user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "tell me"})
	events := ann.eventsUntil(topic.GetId(), m.GetSeq(), isType(streamChunk))
	if _, err := ann.InterruptAgent(t.Context(), &conversationv1.InterruptAgentRequest{TopicId: topic.GetId(), Name: "helper"}); err != nil {
		t.Fatal(err)
	}
	events = ann.eventsUntil(topic.GetId(), events[len(events)-1].GetSeq(), isType(streamDone))
	if d := events[len(events)-1].GetStreamDone(); d.GetError() != "interrupted" || d.GetRestarts() || d.GetSize() != 6 {
		t.Errorf("%v", d)
	}
}

// A reply that the end of the process cut off begins again; a client that reconnects sees both, and one message.
func TestReplyAfterACrash(t *testing.T) {
	p := fake.Script()
	first := make(chan struct{}, 1)
	first <- struct{}{}
	p.AnswerFn = func(ctx context.Context, _ *plannerv1.GenerateAnswerRequest, send func(string) error) error {
		select {
		case <-first:
			if err := send("lost"); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		default:
			return send("found")
		}
	}
	r := newRig(t, p)
	ann := r.user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "tell me"})
	events := ann.eventsUntil(topic.GetId(), m.GetSeq(), isType(streamChunk))
	seen := events[len(events)-1].GetSeq()
	r.stop()
	r.start()
	ann = r.user("")
	events, reply := ann.reply(topic.GetId(), seen)
	var got []string
	for _, e := range events {
		got = append(got, strings.TrimPrefix(e.GetType().String(), "TOPIC_EVENT_TYPE_")+":"+e.GetStreamDone().GetError()+e.GetStreamChunk().GetText())
		if d := e.GetStreamDone(); d.GetRestarts() != (d.GetError() != "") {
			t.Errorf("end of a reply: %v", d)
		}
	}
	want := []string{"AGENT_STREAM_DONE:the reply broke off and begins again", "AGENT_STREAM_CHUNK:found", "AGENT_STREAM_DONE:", "NEW_MESSAGE:"}
	if !slices.Equal(got, want) || reply.GetText() != "found" {
		t.Errorf("%q, %v", got, reply)
	}
}

// B13: in phases, what exceeds the agent's share of the context is summarized; later tasks use the summary.
func TestSummaryOfAConversation(t *testing.T) {
	p := fake.Script()
	summarized, contexts := make(chan *plannerv1.SummarizeMemoryRequest, 10), make(chan *plannerv1.TaskContext, 10)
	p.SummarizeFn = func(req *plannerv1.SummarizeMemoryRequest) *plannerv1.SummarizeMemoryResponse {
		summarized <- req
		return &plannerv1.SummarizeMemoryResponse{Summary: "they counted", CoveredMessages: uint32(len(req.GetContext().GetMessages())) - req.GetKeepLast()}
	}
	p.RespondFn = func(req *plannerv1.RespondRequest) *plannerv1.RespondResponse {
		contexts <- req.GetContext()
		return &plannerv1.RespondResponse{Decision: plannerv1.RespondDecision_RESPOND_DECISION_COMPLETE, Text: "re " + req.GetContext().GetGoal()}
	}
	ann := newRig(t, p).user("")
	if _, err := ann.agents.CreateAgent(t.Context(), &executorv1.CreateAgentRequest{AgentId: "helper", Agent: &executorv1.Agent{
		ChatOptions: &executorv1.ChatOptions{Phases: true, ContextShare: 0.5},
	}}); err != nil {
		t.Fatal(err)
	}
	topic := ann.topic(agentNamed("helper"))
	for _, text := range []string{"1", "2", "3", "4"} {
		ann.reply(topic.GetId(), ann.post(topic.GetId(), &conversationv1.Message{Text: text}).GetSeq())
		c := <-contexts
		if text != "4" {
			continue
		}
		req := <-summarized
		if n := len(req.GetContext().GetMessages()); n != 6 || req.GetContextShare() != 0.5 || req.GetKeepLast() != 5 {
			t.Errorf("%d messages summarized as %v", n, req)
		}
		if len(c.GetMessages()) != 5 || c.GetMessages()[0].GetText() != "re 1" || c.GetConversationSummary() != "they counted" {
			t.Errorf("the context after the summary: %v", c)
		}
	}
	p.SummarizeFn = func(*plannerv1.SummarizeMemoryRequest) *plannerv1.SummarizeMemoryResponse {
		return &plannerv1.SummarizeMemoryResponse{}
	}
	ann.reply(topic.GetId(), ann.post(topic.GetId(), &conversationv1.Message{Text: "5"}).GetSeq())
	if c := <-contexts; c.GetConversationSummary() != "they counted" || len(c.GetMessages()) != 7 || c.GetMessages()[0].GetText() != "re 1" {
		t.Errorf("the next context: %v", c)
	}
}
