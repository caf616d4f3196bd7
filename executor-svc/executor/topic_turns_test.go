package executor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
)

// An agent answers the messages of a topic one after the other, in their order; those of another topic meanwhile.
func TestAgentAnswersInOrder(t *testing.T) {
	planner := fake.Script()
	var answering, most atomic.Int32
	planner.AnswerFn = func(_ context.Context, _ *plannerv1.GenerateAnswerRequest, send func(string) error) error {
		most.Store(max(most.Load(), answering.Add(1)))
		defer answering.Add(-1)
		return send("done")
	}
	ann := newRig(t, planner).user("")
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	var want []string
	for i := range 12 {
		want = append(want, ann.post(topic.GetId(), &conversationv1.Message{Id: fmt.Sprint("m", i), Text: "x"}).GetId())
	}
	var got []string
	for _, m := range agentMessages(ann.replies(topic.GetId(), 0, len(want))) {
		got = append(got, m.GetReplyTo())
	}
	if !slices.Equal(got, want) || most.Load() != 1 {
		t.Errorf("replies to %v, at most %d at once", got, most.Load())
	}
}

func TestAnotherTopicIsAnsweredMeanwhile(t *testing.T) {
	planner, release := holding()
	ann := newRig(t, planner).user("")
	ann.agent("helper")
	busy, other := ann.topic(agentNamed("helper")), ann.topic(agentNamed("helper"))
	first := ann.post(busy.GetId(), &conversationv1.Message{Text: "x"})
	ann.eventsUntil(busy.GetId(), first.GetSeq(), isChunk)
	second := ann.post(busy.GetId(), &conversationv1.Message{Text: "y"})
	m := ann.post(other.GetId(), &conversationv1.Message{Text: "z"})
	ann.eventsUntil(other.GetId(), m.GetSeq(), isChunk)
	if got := topicTypes(ann.events(busy.GetId(), second.GetSeq())); got != "" {
		t.Errorf("beside the first reply: %s", got)
	}
	release()
	if ms := agentMessages(ann.replies(busy.GetId(), 0, 2)); ms[0].GetReplyTo() != first.GetId() || ms[1].GetReplyTo() != second.GetId() {
		t.Errorf("replies: %v", ms)
	}
}

// While an agent waits for an answer, it works on the next message. A queued task can be cancelled, and what it waited for answered, while another one runs.
func TestAWaitDoesNotSilenceTheAgent(t *testing.T) {
	planner := fake.Script("write")
	held := make(chan struct{})
	planner.AnswerFn = func(ctx context.Context, req *plannerv1.GenerateAnswerRequest, send func(string) error) error {
		if strings.Contains(req.GetContext().GetGoal(), "hold") {
			if err := send("begin "); err != nil {
				return err
			}
			select {
			case <-held:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return send("done")
	}
	ann, ctx := newRig(t, planner).user(""), t.Context()
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	ask := func(text string) (asked *conversationv1.Message) {
		t.Helper()
		m := ann.post(topic.GetId(), &conversationv1.Message{Text: text})
		events := ann.eventsUntil(topic.GetId(), m.GetSeq(), func(e *conversationv1.TopicEvent) bool { return e.GetNewMessage().GetWait() != nil })
		return events[len(events)-1].GetNewMessage()
	}
	approve := func(ask *conversationv1.Message) {
		t.Helper()
		if _, err := ann.PostMessage(ctx, &conversationv1.PostMessageRequest{
			TopicId: topic.GetId(), Message: &conversationv1.Message{ReplyTo: ask.GetId()},
			Answer: &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Approve{Approve: &executorv1.Approve{}}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	first, second := ask("one"), ask("hold two")
	approve(second)
	events := ann.eventsUntil(topic.GetId(), second.GetSeq(), isChunk)
	last := events[len(events)-1]
	approve(first)
	third := ann.post(topic.GetId(), &conversationv1.Message{Text: "three"})
	if task, err := ann.tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: first.GetTaskId()}); err != nil || !task.GetQueued() {
		t.Errorf("the first task, beside the second one: %v, %v", task, err)
	}
	var page *executorv1.ListTasksResponse
	for len(page.GetTasks()) < 3 { // the dispatcher creates the third one
		var err error
		if page, err = ann.tasks.ListTasks(ctx, &executorv1.ListTasksRequest{ConversationId: topic.GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ann.tasks.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: page.GetTasks()[0].GetId()}); err != nil {
		t.Errorf("a queued task: %v", err)
	}
	events = ann.eventsUntil(topic.GetId(), third.GetSeq(), isType(silent))
	if e := events[len(events)-1]; e.GetMessageId() != third.GetId() {
		t.Errorf("silent: %v", e)
	}
	close(held)
	ms := agentMessages(ann.eventsUntil(topic.GetId(), last.GetSeq(), func(e *conversationv1.TopicEvent) bool { return e.GetNewMessage().GetTaskId() == first.GetTaskId() }))
	if len(ms) != 2 || ms[0].GetTaskId() != second.GetTaskId() {
		t.Errorf("replies: %v", ms)
	}
}
