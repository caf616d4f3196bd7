package executor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
)

const (
	newMessage = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_NEW_MESSAGE
	silent     = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_SILENT
)

// replies follows a topic until agents have replied or stayed silent n times.
func (u *user) replies(topicID string, after uint64, n int) []*conversationv1.TopicEvent {
	u.t.Helper()
	return u.eventsUntil(topicID, after, func(e *conversationv1.TopicEvent) bool {
		if e.GetType() == silent || e.GetNewMessage().GetFromAgent() && e.GetNewMessage().GetWait() == nil {
			n--
		}
		return n == 0
	})
}

func agentMessages(events []*conversationv1.TopicEvent) (ms []*conversationv1.Message) {
	for _, e := range events {
		if e.GetNewMessage().GetFromAgent() {
			ms = append(ms, e.GetNewMessage())
		}
	}
	return ms
}

// B1, B10, B18: a message of a private topic starts a task, whose reply is streamed and becomes a message.
func TestAgentReplies(t *testing.T) {
	planner := fake.Script()
	planner.AnswerFn = func(_ context.Context, _ *plannerv1.GenerateAnswerRequest, send func(string) error) error {
		for _, piece := range []string{"There ", "are ", "three."} {
			if err := send(piece); err != nil {
				return err
			}
		}
		return nil
	}
	ann := newRig(t, planner).user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "How many?"})
	events := ann.replies(topic.GetId(), m.GetSeq(), 1)
	reply := events[len(events)-1].GetNewMessage()
	if reply.GetText() != "There are three." || reply.GetSender() != "helper" || reply.GetReplyTo() != m.GetId() || reply.GetTaskId() == "" {
		t.Errorf("reply: %v", reply)
	}
	text, kinds := "", []string{}
	for _, e := range events {
		if e.GetAgent() != "helper" || e.GetMessageId() != m.GetId() || e.GetTaskId() != reply.GetTaskId() {
			t.Errorf("whose event: %v", e)
		}
		kinds = append(kinds, strings.TrimPrefix(e.GetType().String(), "TOPIC_EVENT_TYPE_"))
		if c := e.GetStreamChunk(); c != nil {
			if c.GetReplyId() != reply.GetId() || c.GetOffset() != uint64(len(text)) {
				t.Errorf("piece: %v after %q", c, text)
			}
			text += c.GetText()
		}
		if d := e.GetStreamDone(); d != nil && (d.GetReplyId() != reply.GetId() || d.GetSize() != uint64(len(text)) || d.GetError() != "") {
			t.Errorf("end: %v", d)
		}
	}
	if got := strings.Join(slices.Compact(kinds), " "); got != "AGENT_RECEIVED AGENT_THINKING AGENT_STREAM_CHUNK AGENT_STREAM_DONE NEW_MESSAGE" || text != reply.GetText() {
		t.Errorf("events: %s; streamed %q", got, text)
	}
	task, err := ann.tasks.GetTask(t.Context(), &executorv1.GetTaskRequest{Id: reply.GetTaskId()})
	if err != nil || task.GetConversationId() != topic.GetId() || task.GetAgentId() != "helper" || task.GetFlow() != "chat" {
		t.Errorf("task: %v, %v", task, err)
	}
}

// B2: agents that are not mentioned decide; a delegated message goes to the other agent, and the conversation ends.
func TestAgentsDecide(t *testing.T) {
	planner := fake.Script()
	planner.DecideFn = func(req *plannerv1.DecideRequest) *plannerv1.DecideResponse {
		if slices.Contains(req.GetAgents(), "two") { // it is the agent one
			return &plannerv1.DecideResponse{Decision: plannerv1.Decision_DECISION_DELEGATE, DelegateTo: "two", Reason: "two knows more"}
		}
		return &plannerv1.DecideResponse{Decision: plannerv1.Decision_DECISION_SILENT, Reason: "nothing to add"}
	}
	as := users(t, newRig(t, planner))
	ann := as("ann")
	ann.agent("one")
	ann.agent("two")
	topic := ann.topic(userNamed("bob", member), agentNamed("one"), agentNamed("two"))
	m := as("bob").post(topic.GetId(), &conversationv1.Message{Text: "What now?"})
	events := ann.replies(topic.GetId(), m.GetSeq(), 3) // two stays silent, one delegates, two replies
	said := map[string]string{}
	for _, e := range events {
		said[e.GetAgent()+" "+strings.TrimPrefix(e.GetType().String(), "TOPIC_EVENT_TYPE_")] += e.GetAgentDecision().GetReason() + e.GetAgentSilent().GetReason()
	}
	if said["one AGENT_DECISION_MADE"] != "two knows more" || said["two AGENT_SILENT"] != "nothing to add" {
		t.Errorf("events: %v", events)
	}
	ms := agentMessages(events)
	if len(ms) != 2 || ms[0].GetSender() != "one" || ms[1].GetSender() != "two" || ms[1].GetReplyTo() != ms[0].GetId() {
		t.Errorf("messages: %v", ms)
	}
	if _, mentioned := said["two AGENT_DECIDING"]; !mentioned {
		t.Errorf("two did not decide about the first message: %v", said)
	}
}

// asking returns a topic of ann with the member bob, the reader cat and an agent that waits for an approval, and the message that asks.
func asking(t *testing.T) (as func(string) *user, topic *conversationv1.Topic, ask *conversationv1.Message) {
	as = users(t, newRig(t, fake.Script("write")))
	ann := as("ann")
	ann.agent("helper")
	topic = ann.topic(userNamed("bob", member), userNamed("cat", reader), agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "@helper write it"})
	events := ann.eventsUntil(topic.GetId(), m.GetSeq(), func(e *conversationv1.TopicEvent) bool {
		return e.GetNewMessage().GetWait() != nil || e.GetType() == silent
	})
	ask = events[len(events)-1].GetNewMessage()
	if w := ask.GetWait(); w.GetToolId() != "t/write" || w.GetInput() == nil {
		t.Fatalf("the question: %v", events)
	}
	return as, topic, ask
}

// Any member of the topic answers what an agent asks; who did is recorded.
func TestMembersAnswerInTheTopic(t *testing.T) {
	as, topic, ask := asking(t)
	ann, bob, ctx := as("ann"), as("bob"), t.Context()
	req := &conversationv1.PostMessageRequest{
		TopicId: topic.GetId(), Message: &conversationv1.Message{Id: "yes", ReplyTo: ask.GetId(), Text: "go on"},
		Answer: &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Approve{Approve: &executorv1.Approve{}}},
	}
	answer, err := bob.PostMessage(ctx, req)
	if err != nil || answer.GetSender() != "bob" || answer.GetAnsweredWaitId() != ask.GetWait().GetId() {
		t.Fatalf("answer: %v, %v", answer, err)
	}
	if again, err := bob.PostMessage(ctx, req); err != nil || again.GetSeq() != answer.GetSeq() {
		t.Errorf("again: %v, %v", again, err)
	}
	req.Message.Id = "another"
	req.Answer = &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Reject{Reject: &executorv1.Reject{}}}
	_, err = ann.PostMessage(ctx, req)
	refused(t, "another answer", err, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN)
	ms := agentMessages(ann.replies(topic.GetId(), ask.GetSeq(), 1))
	if len(ms) != 1 || !strings.Contains(ms[0].GetText(), "done") {
		t.Errorf("reply: %v", ms)
	}
}

// An equal answer that is given again, also by ResumeTask, is one message.
func TestAnswerTwice(t *testing.T) {
	as, topic, ask := asking(t)
	ann, bob, ctx := as("ann"), as("bob"), t.Context()
	req := &conversationv1.PostMessageRequest{
		TopicId: topic.GetId(), Message: &conversationv1.Message{ReplyTo: ask.GetId()},
		Answer: &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Approve{Approve: &executorv1.Approve{}}},
	}
	first, err := bob.PostMessage(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ann.tasks.ResumeTask(ctx, &executorv1.ResumeTaskRequest{Id: ask.GetTaskId(), WaitId: ask.GetWait().GetId(), Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}})
	if err != nil {
		t.Errorf("ResumeTask: %v", err)
	}
	if again, err := ann.PostMessage(ctx, req); err != nil || again.GetId() != first.GetId() || again.GetSender() != "bob" {
		t.Errorf("again: %v, %v", again, err)
	}
	page, err := ann.ListMessages(ctx, &conversationv1.ListMessagesRequest{TopicId: topic.GetId()})
	if n := strings.Count(texts(page.GetMessages()), "approved"); err != nil || n != 1 {
		t.Errorf("%d answers in %s, %v", n, texts(page.GetMessages()), err)
	}
}

// ResumeTask takes answers of members of the task's topic too; they see nothing else of the task.
func TestMembersResumeTasks(t *testing.T) {
	as, topic, ask := asking(t)
	ann, bob, ctx := as("ann"), as("bob"), t.Context()
	reject := &executorv1.ResumeTaskRequest{Id: ask.GetTaskId(), WaitId: ask.GetWait().GetId(), Answer: &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: "no"}}}
	for _, name := range []string{"cat", "eve"} {
		_, err := as(name).tasks.ResumeTask(ctx, reject)
		refused(t, name, err, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND)
	}
	_, err := bob.tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: ask.GetTaskId()})
	refused(t, "GetTask", err, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND)
	_, err = bob.tasks.ResumeTask(ctx, &executorv1.ResumeTaskRequest{Id: ask.GetTaskId(), Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}}})
	refused(t, "unpause", err, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND)
	task, err := bob.tasks.ResumeTask(ctx, reject)
	if err != nil || task.GetId() != ask.GetTaskId() || task.GetGoal() != "" {
		t.Fatalf("a member's answer: %v, %v", task, err)
	}
	events := ann.eventsUntil(topic.GetId(), ask.GetSeq(), func(e *conversationv1.TopicEvent) bool { return e.GetNewMessage().GetAnsweredWaitId() != "" })
	m := events[len(events)-1].GetNewMessage()
	if m.GetSender() != "bob" || m.GetAnsweredWaitId() != ask.GetWait().GetId() || m.GetReplyTo() != ask.GetId() || m.GetText() != "rejected: no" {
		t.Errorf("recorded: %v", m)
	}
}

// holding returns a planner whose answers stop after the first piece until release is called.
func holding() (planner *fake.Planner, release func()) {
	planner, held := fake.Script(), make(chan struct{})
	planner.AnswerFn = func(ctx context.Context, _ *plannerv1.GenerateAnswerRequest, send func(string) error) error {
		if err := send("begin "); err != nil {
			return err
		}
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
		return send("end")
	}
	return planner, func() { close(held) }
}

func isChunk(e *conversationv1.TopicEvent) bool { return e.GetStreamChunk() != nil }

// B19: an interrupted reply ends; the topic goes on.
func TestInterrupt(t *testing.T) {
	planner, release := holding()
	ann := newRig(t, planner).user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "x"})
	events := ann.eventsUntil(topic.GetId(), m.GetSeq(), isChunk)
	chunk := events[len(events)-1]
	out, err := ann.InterruptAgent(t.Context(), &conversationv1.InterruptAgentRequest{TopicId: topic.GetId(), Name: "helper", Reason: "enough"})
	if err != nil || len(out.GetTaskIds()) != 1 || out.GetTaskIds()[0] != chunk.GetTaskId() {
		t.Fatalf("interrupt: %v, %v", out, err)
	}
	events = ann.eventsUntil(topic.GetId(), chunk.GetSeq(), isType(streamDone))
	if d := events[len(events)-1].GetStreamDone(); d.GetError() == "" || d.GetReplyId() != chunk.GetStreamChunk().GetReplyId() {
		t.Errorf("end: %v", d)
	}
	if out, err = ann.InterruptAgent(t.Context(), &conversationv1.InterruptAgentRequest{TopicId: topic.GetId(), Name: "helper"}); err != nil || len(out.GetTaskIds()) != 0 {
		t.Errorf("again: %v, %v", out, err)
	}
	release()
	m = ann.post(topic.GetId(), &conversationv1.Message{Text: "y"})
	if ms := agentMessages(ann.replies(topic.GetId(), m.GetSeq(), 1)); len(ms) != 1 || ms[0].GetText() != "begin end" {
		t.Errorf("the next reply: %v", ms)
	}
}

// B19: a rollback in the middle of a reply cancels it, if the message that it answers no longer counts.
func TestRollbackInTheMiddleOfAReply(t *testing.T) {
	planner, release := holding()
	defer release()
	ann := newRig(t, planner).user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "x"})
	events := ann.eventsUntil(topic.GetId(), m.GetSeq(), isChunk)
	chunk := events[len(events)-1]
	out, err := ann.RollbackTopic(t.Context(), &conversationv1.RollbackTopicRequest{TopicId: topic.GetId(), All: true})
	if err != nil || out.GetMessageCount() != 1 || !slices.Equal(out.GetCancelledTaskIds(), []string{chunk.GetTaskId()}) {
		t.Fatalf("rollback: %v, %v", out, err)
	}
	ann.eventsUntil(topic.GetId(), chunk.GetSeq(), isType(streamDone))
	list, err := ann.ListMessages(t.Context(), &conversationv1.ListMessagesRequest{TopicId: topic.GetId()})
	if err != nil || len(list.GetMessages()) != 0 {
		t.Errorf("messages: %v, %v", list, err)
	}
}

// A client that reconnects after each event, also in the middle of a reply, misses nothing and gets nothing twice.
func TestReconnectInTheMiddleOfAReply(t *testing.T) {
	planner, release := holding()
	ann := newRig(t, planner).user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "x"})
	text, after := "", m.GetSeq()
	for reply := ""; reply == ""; {
		e := ann.eventsUntil(topic.GetId(), after, func(*conversationv1.TopicEvent) bool { return true })[0]
		after = e.GetSeq()
		if c := e.GetStreamChunk(); c != nil {
			if c.GetOffset() != uint64(len(text)) {
				t.Errorf("piece at %d after %q", c.GetOffset(), text)
			}
			if text += c.GetText(); text == "begin " {
				release()
			}
		}
		reply = e.GetNewMessage().GetText()
	}
	if text != "begin end" {
		t.Errorf("streamed: %q", text)
	}
}

// A message that was stored before the executor stopped is dispatched once it is back, and each message has one reply.
func TestMessagesAfterARestart(t *testing.T) {
	r := newRig(t, fake.Script())
	ann := r.user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	const n = 8
	for i := range n {
		ann.post(topic.GetId(), &conversationv1.Message{Id: fmt.Sprint("m", i), Text: fmt.Sprint(i)})
		if i%3 == 2 {
			r.stop()
			r.start()
			ann = r.user("")
		}
	}
	ann.replies(topic.GetId(), 0, n)
	r.stop()
	r.start()
	ann = r.user("")
	answered := map[string]int{}
	for _, m := range agentMessages(ann.events(topic.GetId(), 0)) {
		answered[m.GetReplyTo()]++
	}
	for i := range n {
		if id := fmt.Sprint("m", i); answered[id] != 1 {
			t.Errorf("%s has %d replies", id, answered[id])
		}
	}
}

// The task of an agent that was removed is cancelled.
func TestRemovedAgentStops(t *testing.T) {
	planner, release := holding()
	defer release()
	ann := newRig(t, planner).user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "x"})
	chunk := ann.eventsUntil(topic.GetId(), m.GetSeq(), isChunk)
	if _, err := ann.RemoveParticipant(t.Context(), &conversationv1.RemoveParticipantRequest{TopicId: topic.GetId(), Name: "helper"}); err != nil {
		t.Fatal(err)
	}
	task, err := ann.tasks.WatchTask(t.Context(), &executorv1.WatchTaskRequest{Id: chunk[0].GetTaskId()})
	for err == nil {
		_, err = task.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	got, err := ann.tasks.GetTask(t.Context(), &executorv1.GetTaskRequest{Id: chunk[0].GetTaskId()})
	if err != nil || got.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
		t.Errorf("task: %v, %v", got, err)
	}
}

// An owner deletes a topic: its tasks are cancelled, its webhooks disabled, its watches end, and it is gone for all.
func TestDeletedTopic(t *testing.T) {
	as, topic, ask := asking(t)
	ann, bob, ctx := as("ann"), as("bob"), t.Context()
	hook := hook(t, bob.hooks, &executorv1.Webhook{Url: "https://hooks.example.com", TopicId: topic.GetId()})
	del := func(u *user, etag string) error {
		_, err := u.DeleteTopic(ctx, &conversationv1.DeleteTopicRequest{Id: strings.ToUpper(topic.GetId()), Etag: etag})
		return err
	}
	refused(t, "a member", del(bob, ""), commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, "only owners")
	refused(t, "a stranger", del(as("eve"), ""), commonv1.ErrorReason_ERROR_REASON_TOPIC_NOT_FOUND)
	refused(t, "an old etag", del(ann, topic.GetEtag()+"0"), commonv1.ErrorReason_ERROR_REASON_CONFLICT)
	watch, err := bob.WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: topic.GetId()})
	if err == nil {
		_, err = watch.Recv() // the watch has begun
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := del(ann, topic.GetEtag()); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = watch.Recv()
	}
	refused(t, "the watch", err, commonv1.ErrorReason_ERROR_REASON_TOPIC_NOT_FOUND)
	refused(t, "deleted again", del(ann, ""), commonv1.ErrorReason_ERROR_REASON_TOPIC_NOT_FOUND)
	cancelled := false
	events, err := ann.tasks.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: ask.GetTaskId()})
	for err == nil {
		var e *executorv1.ExecutorEvent
		e, err = events.Recv()
		cancelled = cancelled || e.GetFlowCancel().GetReason() == "the topic was deleted"
	}
	if !errors.Is(err, io.EOF) || !cancelled {
		t.Errorf("the task was cancelled: %t, %v", cancelled, err)
	}
	if w, err := bob.hooks.GetWebhook(ctx, &executorv1.GetWebhookRequest{Id: hook.GetId()}); err != nil || !w.GetDisabled() || w.GetDisabledReason() != "its topic was deleted" {
		t.Errorf("webhook: %v, %v", w, err)
	}
}

// A message without text is worked on too.
func TestMediaOnly(t *testing.T) {
	ann := newRig(t, fake.Script()).user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Media: []*conversationv1.Media{{Type: "image", Url: "https://example.com/x.png"}}})
	if ms := agentMessages(ann.replies(topic.GetId(), m.GetSeq(), 1)); len(ms) != 1 {
		t.Errorf("replies: %v", ms)
	}
}
