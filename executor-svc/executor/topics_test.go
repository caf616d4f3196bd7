package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/fake"
)

// user has the clients of one user.
type user struct {
	t      *testing.T
	tasks  executorv1.ExecutorServiceClient
	agents executorv1.AgentServiceClient
	hooks  executorv1.WebhookServiceClient
	conversationv1.TopicServiceClient
}

// users starts the rig with API keys and returns users by name.
func users(t *testing.T, r *rig) func(sub string) *user {
	r.stop()
	keys := openKeys(t)
	r.options.Auth = keys
	r.start()
	return func(sub string) *user { return r.user(keys.Ephemeral(sub, []identity.Role{identity.RoleUser})) }
}

// user returns the clients of the user with a key; without keys there is one user.
func (r *rig) user(key string) *user {
	conn := r.dial(key)
	return &user{
		t: r.t, tasks: executorv1.NewExecutorServiceClient(conn), agents: executorv1.NewAgentServiceClient(conn), hooks: executorv1.NewWebhookServiceClient(conn),
		TopicServiceClient: conversationv1.NewTopicServiceClient(conn),
	}
}

func (u *user) agent(id string) {
	u.t.Helper()
	if _, err := u.agents.CreateAgent(u.t.Context(), &executorv1.CreateAgentRequest{AgentId: id, Agent: &executorv1.Agent{DisplayName: "Agent " + id}}); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) topic(ps ...*conversationv1.Participant) *conversationv1.Topic {
	u.t.Helper()
	topic, err := u.CreateTopic(u.t.Context(), &conversationv1.CreateTopicRequest{Topic: &conversationv1.Topic{DisplayName: "talk"}, Participants: ps})
	if err != nil {
		u.t.Fatal(err)
	}
	return topic
}

func (u *user) post(topicID string, m *conversationv1.Message) *conversationv1.Message {
	u.t.Helper()
	posted, err := u.PostMessage(u.t.Context(), &conversationv1.PostMessageRequest{TopicId: topicID, Message: m})
	if err != nil {
		u.t.Fatal(err)
	}
	return posted
}

// events returns a topic's events after a seq, as they are now.
func (u *user) events(topicID string, after uint64) []*conversationv1.TopicEvent {
	u.t.Helper()
	return u.eventsUntil(topicID, after, nil)
}

// eventsUntil follows a topic until an event for which last returns true; nil: until its newest event.
func (u *user) eventsUntil(topicID string, after uint64, last func(*conversationv1.TopicEvent) bool) (events []*conversationv1.TopicEvent) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), time.Minute)
	defer cancel()
	stream, err := u.WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: topicID, AfterSeq: after, NoFollow: last == nil})
	for err == nil {
		var e *conversationv1.TopicEvent
		if e, err = stream.Recv(); err != nil {
			break
		}
		if e.GetSeq() != after+uint64(len(events))+1 {
			u.t.Fatalf("event %d follows event %d", e.GetSeq(), after+uint64(len(events)))
		}
		if events = append(events, e); last != nil && last(e) {
			return events
		}
	}
	if !errors.Is(err, io.EOF) {
		u.t.Fatalf("WatchTopic: %v, after %s", err, topicTypes(events))
	}
	return events
}

// topicTypes shows the types of events, with the agent.
func topicTypes(events []*conversationv1.TopicEvent) string {
	var out []string
	for _, e := range events {
		name := strings.ToLower(strings.TrimPrefix(e.GetType().String(), "TOPIC_EVENT_TYPE_"))
		if e.GetAgent() != "" {
			name += ":" + e.GetAgent()
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func isType(want conversationv1.TopicEventType) func(*conversationv1.TopicEvent) bool {
	return func(e *conversationv1.TopicEvent) bool { return e.GetType() == want }
}

func texts(ms []*conversationv1.Message) string {
	var out []string
	for _, m := range ms {
		out = append(out, m.GetText())
	}
	return strings.Join(out, " ")
}

func userNamed(sub string, role conversationv1.Role) *conversationv1.Participant {
	return &conversationv1.Participant{Who: &conversationv1.Participant_UserSub{UserSub: sub}, Role: role}
}

func agentNamed(id string) *conversationv1.Participant {
	return &conversationv1.Participant{Who: &conversationv1.Participant_AgentId{AgentId: id}}
}

const (
	owner  = conversationv1.Role_ROLE_OWNER
	member = conversationv1.Role_ROLE_MEMBER
	reader = conversationv1.Role_ROLE_READER
)

// B1: participants and a log of messages, of which each id counts once.
func TestPeopleShareATopic(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	ann, bob, ctx := as("ann"), as("bob@example.com"), t.Context()
	topic := ann.topic(userNamed("bob@example.com", member))
	if got := topic.GetParticipants(); len(got) != 2 || got[0].GetRole() != owner || got[1].GetName() != "bob-example.com" || got[1].GetAddedBy() != "ann" {
		t.Fatalf("participants: %v", got)
	}
	first := ann.post(topic.GetId(), &conversationv1.Message{Id: "m1", Text: "hello"})
	if again := ann.post(topic.GetId(), &conversationv1.Message{Id: "m1", Text: "another text"}); again.GetText() != "hello" || again.GetSeq() != first.GetSeq() {
		t.Errorf("the same id again: %v", again)
	}
	ext, _ := structpb.NewStruct(map[string]any{"color": "red"})
	second := bob.post(topic.GetId(), &conversationv1.Message{Text: "hi @ann", ReplyTo: "m1", Ext: ext, Mentions: []string{"ann"}, Media: []*conversationv1.Media{
		{Type: "image", MimeType: "image/png", Data: []byte{1, 2, 3}}, {Type: "file", Url: "https://example.com/x"},
	}})
	if second.GetId() == "" || second.GetSender() != "bob-example.com" || second.GetFromAgent() {
		t.Errorf("posted: %v", second)
	}
	listed, err := ann.ListMessages(ctx, &conversationv1.ListMessagesRequest{TopicId: topic.GetId()})
	if err != nil || texts(listed.GetMessages()) != "hi @ann hello" {
		t.Fatalf("messages: %v, %v", listed, err)
	}
	if m := listed.GetMessages()[0]; string(m.GetMedia()[0].GetData()) != "\x01\x02\x03" || m.GetExt().GetFields()["color"].GetStringValue() != "red" || m.GetReplyTo() != "m1" {
		t.Errorf("message: %v", m)
	}
	if got, want := topicTypes(bob.events(topic.GetId(), 0)), "topic_updated topic_participants_updated topic_participants_updated new_message new_message"; got != want {
		t.Errorf("events: %s\nwant:   %s", got, want)
	}
}

func TestPagesOfMessagesAndTopics(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	ann, ctx := as("ann"), t.Context()
	first, second := ann.topic(), ann.topic()
	for i := range 5 {
		ann.post(first.GetId(), &conversationv1.Message{Text: fmt.Sprint(i)})
	}
	for oldest, want := range map[bool]string{true: "0 1|2 3|4", false: "4 3|2 1|0"} {
		var pages []string
		req := &conversationv1.ListMessagesRequest{TopicId: first.GetId(), PageSize: 2, OldestFirst: oldest}
		for more := true; more; more = req.PageToken != "" {
			page, err := ann.ListMessages(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, texts(page.GetMessages()))
			req.PageToken = page.GetNextPageToken()
		}
		if got := strings.Join(pages, "|"); got != want {
			t.Errorf("pages: %s, want %s", got, want)
		}
	}
	// The topic with the newest message comes first.
	page, err := ann.ListTopics(ctx, &conversationv1.ListTopicsRequest{PageSize: 1})
	if err != nil || page.GetTopics()[0].GetId() != first.GetId() || page.GetNextPageToken() == "" {
		t.Fatalf("topics: %v, %v", page, err)
	}
	page, err = ann.ListTopics(ctx, &conversationv1.ListTopicsRequest{PageSize: 1, PageToken: page.GetNextPageToken()})
	if err != nil || page.GetTopics()[0].GetId() != second.GetId() || page.GetNextPageToken() != "" {
		t.Errorf("second page: %v, %v", page, err)
	}
	_, err = ann.ListMessages(ctx, &conversationv1.ListMessagesRequest{TopicId: first.GetId(), PageToken: "x"})
	refused(t, "a token", err, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "start again without it")
	if page, err = as("bob").ListTopics(ctx, &conversationv1.ListTopicsRequest{}); err != nil || len(page.GetTopics()) != 0 {
		t.Errorf("another user's topics: %v, %v", page, err)
	}
}

// Only participants see a topic, readers only read, and only owners change it.
func TestRightsInATopic(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	ann, bob, eve, cat, dan, ctx := as("ann"), as("bob"), as("eve"), as("cat"), as("dan"), t.Context()
	ann.agent("helper")
	dan.agent("dans")
	topic := ann.topic(userNamed("bob", member), userNamed("cat", reader), userNamed("dan", owner), agentNamed("helper"))
	if _, err := dan.AddParticipant(ctx, &conversationv1.AddParticipantRequest{TopicId: topic.GetId(), Participant: agentNamed("dans")}); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.RemoveParticipant(ctx, &conversationv1.RemoveParticipantRequest{TopicId: topic.GetId(), Name: "dan"}); err != nil {
		t.Fatal(err)
	}
	const notFound, denied = commonv1.ErrorReason_ERROR_REASON_TOPIC_NOT_FOUND, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED
	try := map[string]func(u *user) error{
		"GetTopic": func(u *user) error {
			_, err := u.GetTopic(ctx, &conversationv1.GetTopicRequest{Id: topic.GetId()})
			return err
		},
		"WatchTopic": func(u *user) error {
			stream, err := u.WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: topic.GetId(), NoFollow: true})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"ListMessages": func(u *user) error {
			_, err := u.ListMessages(ctx, &conversationv1.ListMessagesRequest{TopicId: topic.GetId()})
			return err
		},
		"ListParticipants": func(u *user) error {
			_, err := u.ListParticipants(ctx, &conversationv1.ListParticipantsRequest{TopicId: topic.GetId()})
			return err
		},
		"ExportTopic": func(u *user) error {
			stream, err := u.ExportTopic(ctx, &conversationv1.ExportTopicRequest{Id: topic.GetId()})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"ArchiveTopic": func(u *user) error {
			_, err := u.ArchiveTopic(ctx, &conversationv1.ArchiveTopicRequest{Id: topic.GetId()})
			return err
		},
		"PostMessage": func(u *user) error {
			_, err := u.PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: topic.GetId(), Message: &conversationv1.Message{Text: "x"}})
			return err
		},
		"RollbackTopic": func(u *user) error {
			_, err := u.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: topic.GetId(), All: true})
			return err
		},
		"InterruptAgent": func(u *user) error {
			_, err := u.InterruptAgent(ctx, &conversationv1.InterruptAgentRequest{TopicId: topic.GetId(), Name: "helper"})
			return err
		},
		"UpdateTopic": func(u *user) error {
			_, err := u.UpdateTopic(ctx, &conversationv1.UpdateTopicRequest{Topic: &conversationv1.Topic{Id: topic.GetId(), DisplayName: "x"}})
			return err
		},
		"AddParticipant": func(u *user) error {
			_, err := u.AddParticipant(ctx, &conversationv1.AddParticipantRequest{TopicId: topic.GetId(), Participant: userNamed("dan", member)})
			return err
		},
		"RemoveParticipant": func(u *user) error {
			_, err := u.RemoveParticipant(ctx, &conversationv1.RemoveParticipantRequest{TopicId: topic.GetId(), Name: "helper"})
			return err
		},
	}
	owners, posters := []string{"UpdateTopic", "AddParticipant", "RemoveParticipant", "ArchiveTopic"}, []string{"PostMessage", "RollbackTopic", "InterruptAgent"}
	for rpc, call := range try {
		if err := call(eve); errs.Reason(err) != notFound {
			t.Errorf("%s of a stranger: %v", rpc, err)
		}
		if err := call(dan); errs.Reason(err) != notFound {
			t.Errorf("%s of an owner who was removed, with an agent: %v", rpc, err)
		}
		want := commonv1.ErrorReason_ERROR_REASON_UNSPECIFIED
		if slices.Contains(owners, rpc) || slices.Contains(posters, rpc) {
			want = denied
		}
		if err := call(cat); errs.Reason(err) != want {
			t.Errorf("%s of a reader: %v, want %v", rpc, err, want)
		}
		want = commonv1.ErrorReason_ERROR_REASON_UNSPECIFIED
		if slices.Contains(owners, rpc) {
			want = denied
		}
		if err := call(bob); errs.Reason(err) != want {
			t.Errorf("%s of a member: %v, want %v", rpc, err, want)
		}
	}
	for _, rpc := range append(posters, owners...) {
		if err := try[rpc](ann); err != nil {
			t.Errorf("%s of an owner: %v", rpc, err)
		}
	}
}

// Changes at once leave a topic whose events lead to its participants, and messages that a rollback marks or does not.
func TestConcurrentChangesOfATopic(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	ann, ctx := as("ann"), t.Context()
	topic := ann.topic()
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			sub := fmt.Sprint("user-", i)
			if _, err := ann.AddParticipant(ctx, &conversationv1.AddParticipantRequest{TopicId: topic.GetId(), Participant: userNamed(sub, member)}); err != nil {
				t.Errorf("AddParticipant: %v", err)
			}
			_, err := as(sub).PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: topic.GetId(), Message: &conversationv1.Message{Text: "x"}})
			if err != nil && errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TOPIC_ARCHIVED {
				t.Errorf("PostMessage: %v", err)
			}
			if i%2 == 0 {
				if _, err := ann.RemoveParticipant(ctx, &conversationv1.RemoveParticipantRequest{TopicId: topic.GetId(), Name: sub}); err != nil {
					t.Errorf("RemoveParticipant: %v", err)
				}
			}
			if i%3 == 0 {
				_, err := ann.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: topic.GetId(), All: true})
				if err != nil && errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TOPIC_ARCHIVED {
					t.Errorf("RollbackTopic: %v", err)
				}
			}
			if i == 11 {
				if _, err := ann.ArchiveTopic(ctx, &conversationv1.ArchiveTopicRequest{Id: topic.GetId()}); err != nil {
					t.Errorf("ArchiveTopic: %v", err)
				}
			}
		})
	}
	wg.Wait()
	participants, last := map[string]bool{}, uint64(0)
	events := ann.events(topic.GetId(), 0)
	for _, e := range events {
		if p := e.GetParticipant(); p != nil {
			participants[p.GetName()] = true
		}
		delete(participants, e.GetParticipantLeft().GetParticipant().GetName())
		if e.GetMessagesRolledBack() != nil {
			last = e.GetSeq()
		}
	}
	for _, e := range events {
		if m := e.GetNewMessage(); m != nil && m.GetRolledBack() != (e.GetSeq() < last) {
			t.Errorf("message %d, after a rollback at %d: %v", e.GetSeq(), last, m.GetRolledBack())
		}
	}
	now, err := ann.GetTopic(ctx, &conversationv1.GetTopicRequest{Id: topic.GetId()})
	if err != nil || !now.GetArchived() || len(now.GetParticipants()) != len(participants) {
		t.Errorf("topic: %v, %v; want %v", now, err, participants)
	}
	for _, p := range now.GetParticipants() {
		if !participants[p.GetName()] {
			t.Errorf("%s is not among those of the events", p.GetName())
		}
	}
}

// An agent is added by its owner, acts with the owner's rights, and leaves with the owner.
func TestParticipants(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	ann, bob, ctx := as("ann"), as("bob"), t.Context()
	bob.agent("helper")
	topic := ann.topic(userNamed("bob", owner))
	add := func(u *user, p *conversationv1.Participant) (*conversationv1.Participant, error) {
		return u.AddParticipant(ctx, &conversationv1.AddParticipantRequest{TopicId: topic.GetId(), Participant: p})
	}
	remove := func(u *user, name string) error {
		_, err := u.RemoveParticipant(ctx, &conversationv1.RemoveParticipantRequest{TopicId: topic.GetId(), Name: name})
		return err
	}
	_, err := add(ann, agentNamed("helper"))
	refused(t, "another user's agent", err, commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND, `no agent "helper"`)
	helper, err := add(bob, agentNamed("helper"))
	if err != nil || helper.GetName() != "helper" || helper.GetAddedBy() != "bob" || helper.GetRole() != member || helper.GetDisplayName() != "Agent helper" {
		t.Fatalf("the agent: %v, %v", helper, err)
	}
	seq := bob.events(topic.GetId(), 0)
	if again, err := add(bob, agentNamed("helper")); err != nil || again.GetName() != "helper" || len(bob.events(topic.GetId(), uint64(len(seq)))) != 0 {
		t.Errorf("the same agent again: %v, %v", again, err)
	}
	ann.agent("helper")
	_, err = add(ann, agentNamed("helper"))
	refused(t, "a name that is taken", err, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, `a participant "helper" already`, "choose another name")
	other := agentNamed("helper")
	other.Name = "Anns-helper"
	if _, err := add(ann, other); err != nil {
		t.Errorf("another name: %v", err)
	}
	if p, err := add(ann, userNamed("bob", reader)); err != nil || p.GetRole() != reader {
		t.Errorf("another role: %v, %v", p, err)
	}
	refused(t, "the last owner", remove(ann, "ann"), commonv1.ErrorReason_ERROR_REASON_INVALID_STATE_TRANSITION, "no owner")
	refused(t, "a name", remove(ann, "nobody"), commonv1.ErrorReason_ERROR_REASON_PARTICIPANT_NOT_FOUND, `no participant "nobody"`)
	// Watches of those who are removed end after the event that says so.
	stream, err := bob.WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: topic.GetId(), AfterSeq: uint64(len(seq))})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv() // the server has begun the watch
	if err != nil {
		t.Fatal(err)
	}
	if err := remove(ann, "bob"); err != nil {
		t.Fatal(err)
	}
	ann.post(topic.GetId(), &conversationv1.Message{Text: "bob must not see this"})
	seen := []*conversationv1.TopicEvent{first}
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, e)
	}
	if got := topicTypes(seen); got != "agent_joined:Anns-helper topic_participants_updated participant_left" {
		t.Errorf("the removed user saw %s", got)
	}
	got, err := ann.ListParticipants(ctx, &conversationv1.ListParticipantsRequest{TopicId: topic.GetId()})
	if ps := got.GetParticipants(); err != nil || len(ps) != 2 || ps[0].GetName() != "ann" || ps[1].GetName() != "Anns-helper" {
		t.Errorf("participants: %v, %v", got, err)
	}
}

func TestATopicHasABoundedNumberOfParticipants(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	var ps []*conversationv1.Participant
	for i := range 99 {
		ps = append(ps, userNamed(fmt.Sprintf("user-%d", i), member))
	}
	topic := as("ann").topic(ps...)
	_, err := as("ann").AddParticipant(t.Context(), &conversationv1.AddParticipantRequest{TopicId: topic.GetId(), Participant: userNamed("one-more", member)})
	refused(t, "the 101st", err, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED, "at most 100 participants")
}

func TestSettingsOfATopic(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	ann, ctx := as("ann"), t.Context()
	req := &conversationv1.CreateTopicRequest{Topic: &conversationv1.Topic{DisplayName: "a", Description: "b"}, RequestId: "r1"}
	topic, err := ann.CreateTopic(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ann.CreateTopic(ctx, req); err != nil || again.GetId() != topic.GetId() {
		t.Errorf("the same request: %v, %v", again, err)
	}
	_, err = ann.CreateTopic(ctx, &conversationv1.CreateTopicRequest{Topic: &conversationv1.Topic{DisplayName: "c"}, RequestId: "r1"})
	refused(t, "another request", err, commonv1.ErrorReason_ERROR_REASON_REQUEST_ID_REUSED)
	update := func(topic *conversationv1.Topic, mask ...string) (*conversationv1.Topic, error) {
		return ann.UpdateTopic(ctx, &conversationv1.UpdateTopicRequest{Topic: topic, UpdateMask: &fieldmaskpb.FieldMask{Paths: mask}})
	}
	next, err := update(&conversationv1.Topic{Id: topic.GetId(), Description: "new", Etag: topic.GetEtag()})
	if err != nil || next.GetDescription() != "new" || next.GetDisplayName() != "a" || next.GetEtag() == topic.GetEtag() {
		t.Fatalf("updated: %v, %v", next, err)
	}
	_, err = update(&conversationv1.Topic{Id: topic.GetId(), Description: "lost", Etag: topic.GetEtag()})
	refused(t, "an old etag", err, commonv1.ErrorReason_ERROR_REASON_CONFLICT)
	if next, err = update(&conversationv1.Topic{Id: topic.GetId()}, "display_name"); err != nil || next.GetDisplayName() != "" || next.GetDescription() != "new" {
		t.Errorf("cleared: %v, %v", next, err)
	}
	_, err = update(&conversationv1.Topic{Id: topic.GetId()}, "color")
	refused(t, "a field", err, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, `"color", which is not a field of a topic`)
	ann.post(topic.GetId(), &conversationv1.Message{Id: "before", Text: "x"})
	if next, err = ann.ArchiveTopic(ctx, &conversationv1.ArchiveTopicRequest{Id: topic.GetId()}); err != nil || !next.GetArchived() {
		t.Fatalf("archived: %v, %v", next, err)
	}
	_, err = ann.PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: topic.GetId(), Message: &conversationv1.Message{Text: "x"}})
	refused(t, "a post", err, commonv1.ErrorReason_ERROR_REASON_TOPIC_ARCHIVED, "archived: false")
	ann.post(topic.GetId(), &conversationv1.Message{Id: "before", Text: "x"}) // a repeated request changes nothing
	if page, err := ann.ListTopics(ctx, &conversationv1.ListTopicsRequest{}); err != nil || len(page.GetTopics()) != 0 {
		t.Errorf("topics: %v, %v", page, err)
	}
	if page, err := ann.ListTopics(ctx, &conversationv1.ListTopicsRequest{IncludeArchived: true}); err != nil || len(page.GetTopics()) != 1 {
		t.Errorf("archived topics: %v, %v", page, err)
	}
	if _, err = update(&conversationv1.Topic{Id: topic.GetId()}, "archived"); err != nil {
		t.Error(err)
	}
	ann.post(topic.GetId(), &conversationv1.Message{Text: "open again"})
	if got, want := topicTypes(ann.events(topic.GetId(), 0)),
		"topic_updated topic_participants_updated topic_updated topic_updated new_message topic_updated topic_updated new_message"; got != want {
		t.Errorf("events: %s\nwant:   %s", got, want)
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	ann, ctx := as("ann"), t.Context()
	topic := ann.topic()
	ext := func(key string, value any) *structpb.Struct {
		s, err := structpb.NewStruct(map[string]any{key: value})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ann.post(topic.GetId(), &conversationv1.Message{Id: "plain", Text: "x"})
	for want, req := range map[string]*conversationv1.PostMessageRequest{
		"a message needs text": {Message: &conversationv1.Message{}},
		"mcp_servers names 4 servers, and an agent uses at most 3": {Message: &conversationv1.Message{Text: "x", Ext: ext("mcp_servers", []any{"a", "b", "c", "d"})}},
		"use_new_flow must be a boolean":                           {Message: &conversationv1.Message{Text: "x", Ext: ext("use_new_flow", "yes")}},
		"at most 65536 are allowed":                                {Message: &conversationv1.Message{Text: "x", Ext: ext("x", strings.Repeat("x", 64<<10))}},
		"either a url or data":                                     {Message: &conversationv1.Message{Media: []*conversationv1.Media{{Type: "image"}}}},
		"at most 1048576 bytes": {Message: &conversationv1.Message{Media: []*conversationv1.Media{
			{Type: "image", Data: make([]byte, 1<<19)}, {Type: "image", Data: make([]byte, 1<<19+1)},
		}}},
		"message.id":                       {Message: &conversationv1.Message{Text: "x", Id: "0190a5c0-0000-7000-8000-000000000000/1"}}, // could be the id of an agent's reply
		`no participant "bob"`:             {Message: &conversationv1.Message{Text: "x", Mentions: []string{"bob"}}},
		`no message "none"`:                {Message: &conversationv1.Message{Text: "x", ReplyTo: "none"}},
		"an answer needs message.reply_to": {Message: &conversationv1.Message{}, Answer: &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Approve{Approve: &executorv1.Approve{}}}},
		`"plain" asks nothing`: {Message: &conversationv1.Message{ReplyTo: "plain"}, Answer: &conversationv1.WaitAnswer{
			Answer: &conversationv1.WaitAnswer_Approve{Approve: &executorv1.Approve{}},
		}},
	} {
		req.TopicId = topic.GetId()
		if _, err := ann.PostMessage(ctx, req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	stream, err := ann.WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: topic.GetId(), AfterSeq: 100})
	if err == nil {
		_, err = stream.Recv()
	}
	refused(t, "after_seq", err, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the topic's newest event is 3")
	_, err = ann.GetTopic(ctx, &conversationv1.GetTopicRequest{Id: "0190a5c0-0000-7000-8000-000000000000"})
	if errs.From(err).Code != codes.NotFound {
		t.Errorf("a topic that does not exist: %v", err)
	}
}

// B19: a rollback marks.
func TestRollback(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	ann, ctx := as("ann"), t.Context()
	topic := ann.topic()
	for i := range 4 {
		ann.post(topic.GetId(), &conversationv1.Message{Id: fmt.Sprint("m", i), Text: fmt.Sprint(i)})
	}
	back := func(to string) *conversationv1.RollbackTopicResponse {
		t.Helper()
		out, err := ann.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: topic.GetId(), ToMessageId: to, All: to == ""})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := back("m2"); out.GetMessageCount() != 1 {
		t.Errorf("rolled back to m2: %v", out)
	}
	if out := back("m0"); out.GetMessageCount() != 2 {
		t.Errorf("rolled back to m0: %v", out)
	}
	_, err := ann.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: topic.GetId(), ToMessageId: "m1"})
	refused(t, "a message that no longer counts", err, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "was rolled back itself")
	for _, req := range []*conversationv1.RollbackTopicRequest{{}, {ToMessageId: "m0", All: true}} {
		req.TopicId = topic.GetId()
		_, err = ann.RollbackTopic(ctx, req)
		refused(t, "a rollback to no message, or to two", err, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "to_message_id, or set all")
	}
	ann.post(topic.GetId(), &conversationv1.Message{Text: "new"})
	list := func(all bool) string {
		page, err := ann.ListMessages(ctx, &conversationv1.ListMessagesRequest{TopicId: topic.GetId(), OldestFirst: true, IncludeRolledBack: all})
		if err != nil {
			t.Fatal(err)
		}
		return texts(page.GetMessages())
	}
	if list(false) != "0 new" || list(true) != "0 1 2 3 new" {
		t.Errorf("messages: %s; all: %s", list(false), list(true))
	}
	if out := back(""); out.GetMessageCount() != 2 || list(false) != "" {
		t.Errorf("rolled back to nothing: %v", out)
	}
	events := ann.events(topic.GetId(), 0)
	last := events[len(events)-1].GetMessagesRolledBack()
	if last.GetBy() != "ann" || last.GetToSeq() != 0 {
		t.Errorf("event: %v", last)
	}
	for _, e := range events {
		if m := e.GetNewMessage(); m != nil && !m.GetRolledBack() {
			t.Errorf("%s is not marked in its event", m.GetText())
		}
	}
}

// An export has all events, also of messages that were rolled back.
func TestExportOfATopic(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	ann, ctx := as("ann"), t.Context()
	topic := ann.topic(userNamed("cat", reader))
	for i := range 30 {
		ann.post(topic.GetId(), &conversationv1.Message{Id: fmt.Sprint("m", i), Text: strings.Repeat("x", 100<<10)})
	}
	if _, err := ann.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: topic.GetId(), ToMessageId: "m9"}); err != nil {
		t.Fatal(err)
	}
	export := func(u *user) (document []byte, err error) {
		stream, err := u.ExportTopic(ctx, &conversationv1.ExportTopicRequest{Id: topic.GetId()})
		for err == nil {
			var piece *conversationv1.ExportTopicResponse
			if piece, err = stream.Recv(); err == nil {
				document = append(document, piece.GetData()...)
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return document, err
	}
	_, err := export(as("eve"))
	refused(t, "a stranger", err, commonv1.ErrorReason_ERROR_REASON_TOPIC_NOT_FOUND)
	raw, err := export(as("cat"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Format int
		Topic  struct{ ID, DisplayName string }
		Events []struct {
			Seq        string
			NewMessage struct{ RolledBack bool }
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != 1 || got.Topic.ID != topic.GetId() || len(got.Events) != len(ann.events(topic.GetId(), 0)) {
		t.Errorf("format %d, topic %v, %d events", got.Format, got.Topic, len(got.Events))
	}
	marked := 0
	for i, e := range got.Events {
		if e.Seq != fmt.Sprint(i+1) {
			t.Errorf("event %d has seq %s", i, e.Seq)
		}
		if e.NewMessage.RolledBack {
			marked++
		}
	}
	if marked != 20 {
		t.Errorf("%d messages are marked as rolled back", marked)
	}
}

// An agent whose task cannot be created says why.
func TestAgentThatCannotAnswer(t *testing.T) {
	r := newRig(t, fake.Script())
	as := users(t, r)
	ann, ctx := as("ann"), t.Context()
	ann.agent("helper")
	topic := ann.topic(agentNamed("helper"))
	if _, err := ann.agents.DeleteAgent(ctx, &executorv1.DeleteAgentRequest{Id: "helper"}); err != nil {
		t.Fatal(err)
	}
	m := ann.post(topic.GetId(), &conversationv1.Message{Text: "hello"})
	events := ann.eventsUntil(topic.GetId(), m.GetSeq(), isType(conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_SILENT))
	if e := events[0]; len(events) != 1 || e.GetAgent() != "helper" || e.GetMessageId() != m.GetId() || !strings.Contains(e.GetAgentSilent().GetReason(), `no agent "helper"`) {
		t.Errorf("events: %v", events)
	}
}

// Every watcher gets every event, in order, whenever it begins; none delays the posts.
func TestManyWatchersOfATopic(t *testing.T) {
	as := users(t, newRig(t, fake.Script()))
	ann := as("ann")
	topic := ann.topic()
	const posts, watchers = 60, 12
	last := func(e *conversationv1.TopicEvent) bool { return e.GetNewMessage().GetText() == fmt.Sprint(posts-1) }
	var wg sync.WaitGroup
	start := func(after uint64) {
		wg.Go(func() {
			if got := ann.eventsUntil(topic.GetId(), after, last); len(got) != posts+2-int(after) {
				t.Errorf("%d events after %d", len(got), after)
			}
		})
	}
	// One watcher reads nothing until the end.
	slow, err := ann.WatchTopic(t.Context(), &conversationv1.WatchTopicRequest{TopicId: topic.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range posts {
		if i%(posts/watchers) == 0 {
			start(uint64(i % 3))
		}
		ann.post(topic.GetId(), &conversationv1.Message{Text: fmt.Sprint(i)})
	}
	wg.Wait()
	for n := uint64(1); n <= posts+2; n++ {
		if e, err := slow.Recv(); err != nil || e.GetSeq() != n {
			t.Fatalf("the slow watcher: %v, %v; want event %d", e, err, n)
		}
	}
}
