package executor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/fake"
)

const (
	rateLimited  = commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED
	limitReached = commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED
)

// What people post is no request of the agents' owner, so agents answer all of it.
func TestMessagesAreNoRequestsOfTheAgentsOwner(t *testing.T) {
	r := newRig(t, fake.Script())
	r.cfg.MaxRequests, r.cfg.RequestWindow = 2, time.Hour
	as := users(t, r)
	ann, bob := as("ann"), as("bob")
	ann.agent("one")
	ann.agent("two")
	topic := ann.topic(userNamed("bob", member), agentNamed("one"), agentNamed("two"))
	const n = 6
	for i := range n {
		bob.post(topic.GetId(), &conversationv1.Message{Text: fmt.Sprint("@one @two ", i)})
	}
	events := ann.replies(topic.GetId(), 0, 2*n)
	if ms := agentMessages(events); len(ms) != 2*n {
		t.Errorf("%d replies to %d messages: %s", len(ms), n, topicTypes(events))
	}
	for range 2 {
		if _, err := ann.tasks.CreateTask(t.Context(), auto("x")); err != nil {
			t.Errorf("a request of the agents' owner: %v", err)
		}
	}
	_, err := ann.tasks.CreateTask(t.Context(), auto("x"))
	refused(t, "a third request", err, rateLimited)
}

// Each user may post so many messages and rollbacks within the window. Repeated posts and answers do not count.
func TestPostsAreLimited(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	r.cfg.MaxPosts, r.cfg.RequestWindow = 3, time.Hour
	as := users(t, r)
	ann, bob, ctx := as("ann"), as("bob"), t.Context()
	ann.agent("helper")
	topic := ann.topic(userNamed("bob", member), agentNamed("helper"))
	m := ann.post(topic.GetId(), &conversationv1.Message{Id: "m", Text: "@helper write it"})
	ann.post(topic.GetId(), &conversationv1.Message{Id: "m", Text: "@helper write it"})
	ask := ann.eventsUntil(topic.GetId(), m.GetSeq(), func(e *conversationv1.TopicEvent) bool { return e.GetNewMessage().GetWait() != nil })
	ann.post(topic.GetId(), &conversationv1.Message{Text: "second"})
	if _, err := ann.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: topic.GetId(), ToMessageId: "m"}); err != nil {
		t.Error(err)
	}
	_, err := ann.PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: topic.GetId(), Message: &conversationv1.Message{Text: "fourth"}})
	refused(t, "a post", err, rateLimited, "at most 3 such requests within 1h")
	if after := errs.From(err).RetryAfter; after < 50*time.Minute || after > time.Hour {
		t.Errorf("retry after %s", after)
	}
	_, err = ann.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: topic.GetId(), All: true})
	refused(t, "a rollback", err, rateLimited)
	bob.post(topic.GetId(), &conversationv1.Message{Text: "of another user"})
	ann.post(topic.GetId(), &conversationv1.Message{Id: "m", Text: "a repeated post"})
	if _, err := ann.PostMessage(ctx, &conversationv1.PostMessageRequest{
		TopicId: topic.GetId(), Message: &conversationv1.Message{ReplyTo: ask[len(ask)-1].GetNewMessage().GetId()},
		Answer: &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Approve{Approve: &executorv1.Approve{}}},
	}); err != nil {
		t.Errorf("an answer: %v", err)
	}
}

// Topics count for the user who created them. What adds to them is refused once that user has too many bytes; what makes them smaller is not.
func TestBytesOfTopicsAreLimited(t *testing.T) {
	r := newRig(t, fake.Script())
	r.cfg.MaxUserBytes = 64 << 10
	as := users(t, r)
	ann, bob, ctx := as("ann"), as("bob"), t.Context()
	ann.agent("helper")
	request := &conversationv1.CreateTopicRequest{RequestId: "r", Participants: []*conversationv1.Participant{userNamed("bob", member), agentNamed("helper")}}
	topic, err := ann.CreateTopic(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	large := &conversationv1.Message{Id: "large", Text: strings.Repeat("x", 100<<10)}
	ann.post(topic.GetId(), large)
	post := func(u *user) error {
		_, err := u.PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: topic.GetId(), Message: &conversationv1.Message{Text: "more"}})
		return err
	}
	refused(t, "the creator's post", post(ann), limitReached, "your tasks and topics take", "--max-user-bytes")
	refused(t, "a member's post", post(bob), limitReached, "of the topic's creator")
	_, err = ann.AddParticipant(ctx, &conversationv1.AddParticipantRequest{TopicId: topic.GetId(), Participant: userNamed("cat", member)})
	refused(t, "a participant", err, limitReached)
	_, err = ann.UpdateTopic(ctx, &conversationv1.UpdateTopicRequest{Topic: &conversationv1.Topic{Id: topic.GetId(), Description: "more"}})
	refused(t, "a description", err, limitReached)
	_, err = ann.CreateTopic(ctx, &conversationv1.CreateTopicRequest{})
	refused(t, "a topic", err, limitReached)
	if again, err := ann.CreateTopic(ctx, request); err != nil || again.GetId() != topic.GetId() {
		t.Errorf("the same topic again: %v, %v", again, err)
	}
	ann.post(topic.GetId(), large)
	bob.topic()
	events := ann.eventsUntil(topic.GetId(), 0, isType(silent)) // the agent's owner has no bytes left for a task
	if why := events[len(events)-1].GetAgentSilent().GetReason(); !strings.Contains(why, "of the agent's owner") {
		t.Errorf("silent: %s", why)
	}
	if _, err := ann.RemoveParticipant(ctx, &conversationv1.RemoveParticipantRequest{TopicId: topic.GetId(), Name: "helper"}); err != nil {
		t.Error(err)
	}
	if _, err := ann.ArchiveTopic(ctx, &conversationv1.ArchiveTopicRequest{Id: topic.GetId()}); err != nil {
		t.Error(err)
	}
}
