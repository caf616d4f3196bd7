package journaltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func topicTests() map[string]test {
	return map[string]test{
		"TopicsOfAModel":        topicsOfAModel,
		"TopicCreation":         topicCreation,
		"UnknownTopics":         unknownTopics,
		"DispatchedPosts":       dispatchedPosts,
		"DispatchedTasks":       dispatchedTasks,
		"InvalidPosts":          invalidPosts,
		"PostOfADeletedTopic":   postOfADeletedTopic,
		"RepeatedMessageOfTask": repeatedMessageOfTask,
		"ConcurrentPosts":       concurrentPosts,
		"PagesOfMessages":       pagesOfMessages,
		"WindowOfPosts":         windowOfPosts,
		"BytesOfTopics":         bytesOfTopics,
		"EndingsAreDispatched":  endingsAreDispatched,
		"Interruptions":         interruptions,
		"DeletedTopics":         deletedTopics,
		"EndingsOfDeletions":    endingsOfDeletions,
	}
}

// NewTopic returns the settings of a topic with these participants: users, and agents of the first user, whose names begin with @.
func NewTopic(participants ...string) *storagev1.Topic {
	t := &storagev1.Topic{DisplayName: "a topic", Rev: 1, CreateTime: start.UnixNano(), UserSub: participants[0]}
	for _, name := range participants {
		p := &storagev1.Participant{Name: name, AddedBy: participants[0]}
		if agent, ok := strings.CutPrefix(name, "@"); ok {
			p.AgentId = agent
		} else {
			p.UserSub = name
		}
		t.Participants = append(t.Participants, p)
	}
	return t
}

func createTopic(t *testing.T, j journal.Topics, settings *storagev1.Topic, facts ...*storagev1.TopicFact) string {
	t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	if _, created, err := j.CreateTopic(t.Context(), id, settings, facts, 0); err != nil || !created {
		t.Fatalf("CreateTopic: created=%v err=%v", created, err)
	}
	return id
}

// Message returns the fact of a message.
func Message(id, text string) *storagev1.TopicFact {
	return &storagev1.TopicFact{Kind: &storagev1.TopicFact_Message{Message: &storagev1.TopicMessage{Id: id, Sender: "ann", Text: text}}}
}

func piece(text string) *storagev1.TopicFact {
	return &storagev1.TopicFact{Agent: "x", Kind: &storagev1.TopicFact_StreamChunk{StreamChunk: &storagev1.StreamChunk{Text: text}}}
}

func rolledBack(to uint64) *storagev1.TopicFact {
	return &storagev1.TopicFact{Kind: &storagev1.TopicFact_RolledBack{RolledBack: &storagev1.RolledBack{ToSeq: to}}}
}

// wantPosted posts facts at seq.
func wantPosted(t *testing.T, j journal.Topics, id string, seq uint64, facts ...*storagev1.TopicFact) {
	t.Helper()
	got, posted, err := j.Post(t.Context(), journal.Post{TopicID: id, Now: start, Facts: facts})
	if err != nil || !posted || got != seq {
		t.Fatalf("Post: seq %d, %v, %v; want seq %d", got, posted, err, seq)
	}
}

func messagesOf(t *testing.T, j journal.Topics, q journal.MessageQuery) (all []string, more bool) {
	t.Helper()
	page, err := j.Messages(t.Context(), q)
	if err != nil {
		t.Fatalf("Messages: %v", err)
	}
	for _, m := range page.Messages {
		all = append(all, fmt.Sprintf("%d:%s", m.Seq, m.GetId()))
	}
	return all, page.More
}

func topicCreation(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	settings := NewTopic("ann", "@x")
	settings.RequestId, settings.RequestHash = "r", []byte("hash")
	id := createTopic(t, j, settings, Message("1", "hello"))
	j = restart(t, j, reopen)
	another := uuid.Must(uuid.NewV7()).String()
	if got, created, err := j.CreateTopic(t.Context(), another, settings, nil, 0); err != nil || created || got != id {
		t.Errorf("repeated: %s, %v, %v", got, created, err)
	}
	if got, created, err := j.CreateTopic(t.Context(), id, settings, nil, 0); err != nil || created || got != id {
		t.Errorf("repeated with its id: %s, %v, %v", got, created, err)
	}
	different := proto.CloneOf(settings)
	different.RequestHash = []byte("another")
	if _, _, err := j.CreateTopic(t.Context(), another, different, nil, 0); !errors.Is(err, journal.ErrRequestReused) {
		t.Errorf("a different request: %v", err)
	}
	bobs := proto.CloneOf(settings)
	bobs.UserSub = "bob"
	if _, created, err := j.CreateTopic(t.Context(), another, bobs, nil, 0); err != nil || !created {
		t.Errorf("another user: %v, %v", created, err)
	}
	got, err := j.Topic(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(settings, got.Topic, protocmp.Transform()); d != "" {
		t.Error(d)
	}
	if out, err := j.Outbox(t.Context(), 0, 9); err != nil || len(out) != 1 || out[0].GetTopicId() != id || out[0].GetSeq() != 1 {
		t.Errorf("outbox: %v, %v", out, err)
	}
}

func unknownTopics(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	for _, id := range []string{"no UUID", uuid.NewString()} {
		_, topic := j.Topic(t.Context(), id)
		_, _, post := j.Post(t.Context(), journal.Post{TopicID: id, Now: start, Facts: []*storagev1.TopicFact{Message("1", "")}})
		_, messages := j.Messages(t.Context(), journal.MessageQuery{TopicID: id, Limit: 1})
		_, message := j.Message(t.Context(), id, "1")
		_, summary := j.Summary(t.Context(), id, "x")
		update := j.UpdateTopic(t.Context(), id, NewTopic("ann"), start, nil)
		del := j.DeleteTopic(t.Context(), id, 1)
		for name, err := range map[string]error{
			"Topic": topic, "Post": post, "Messages": messages, "Message": message, "Summary": summary, "UpdateTopic": update, "DeleteTopic": del,
		} {
			if !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("%s of %q: %v, want ErrNotFound", name, id, err)
			}
		}
	}
	if _, err := j.ListTopics(t.Context(), journal.TopicQuery{User: "ann", From: "elsewhere", Limit: 1}); !errors.Is(err, journal.ErrInvalid) {
		t.Errorf("ListTopics: %v, want ErrInvalid", err)
	}
	id := createTopic(t, j, NewTopic("ann"))
	if _, err := j.Message(t.Context(), id, "1"); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("Message: %v, want ErrNotFound", err)
	}
}

// What answers a message of the outbox is stored once, and the message leaves the outbox with it.
func dispatchedPosts(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	id := createTopic(t, j, NewTopic("ann", "@x"))
	wantPosted(t, j, id, 1, Message("1", ""))
	wantPosted(t, j, id, 2, Message("2", ""))
	out, err := j.Outbox(t.Context(), 0, 9)
	if err != nil || len(out) != 2 {
		t.Fatalf("outbox: %v, %v", out, err)
	}
	p := journal.Post{TopicID: id, Now: start, Facts: []*storagev1.TopicFact{piece("silent")}, Dispatched: out[0].No}
	for _, want := range []uint64{3, 0} {
		if seq, posted, err := j.Post(t.Context(), p); err != nil || seq != want || posted != (want != 0) {
			t.Errorf("Post: seq %d, %v, %v; want seq %d", seq, posted, err, want)
		}
		if left, err := j.Outbox(t.Context(), 0, 9); err != nil || len(left) != 1 || left[0].No != out[1].No {
			t.Errorf("outbox: %v, %v", left, err)
		}
		j = restart(t, j, reopen)
	}
	wantPosted(t, j, id, 4, piece("next"))
}

// A fact that ends tasks is in the outbox with its commit.
func endingsAreDispatched(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	settings := NewTopic("ann", "bob", "@x")
	id := createTopic(t, j, settings, Message("1", "one"))
	if _, _, err := j.Post(t.Context(), journal.Post{TopicID: id, Now: start, Facts: []*storagev1.TopicFact{rolledBack(0)}}); err != nil {
		t.Fatal(err)
	}
	left := proto.CloneOf(settings)
	left.Rev, left.Participants = settings.GetRev()+1, settings.GetParticipants()[:1]
	var facts []*storagev1.TopicFact
	for _, p := range settings.GetParticipants()[1:] {
		facts = append(facts, &storagev1.TopicFact{Kind: &storagev1.TopicFact_ParticipantLeft{ParticipantLeft: &storagev1.ParticipantLeft{Participant: p}}})
	}
	if err := j.UpdateTopic(t.Context(), id, left, start, facts); err != nil {
		t.Fatal(err)
	}
	out, err := j.Outbox(t.Context(), 0, 9)
	var seqs []uint64
	for _, o := range out {
		seqs = append(seqs, o.GetSeq())
	}
	if err != nil || !slices.Equal(seqs, []uint64{1, 2, 4}) { // the message, the rollback and the agent, which left after bob
		t.Errorf("outbox: %v, %v", seqs, err)
	}
}

// A task of a message in the outbox names its agent there.
func dispatchedTasks(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	id := createTopic(t, j, NewTopic("ann", "@x"))
	wantPosted(t, j, id, 1, Message("1", ""))
	wantPosted(t, j, id, 2, Message("2", ""))
	out, err := j.Outbox(t.Context(), 0, 9)
	if err != nil || len(out) != 2 {
		t.Fatalf("outbox: %v, %v", out, err)
	}
	for _, agent := range []string{"x", "y"} {
		n := NewTask("ann")
		n.Head.Chat, n.Outgoing = &storagev1.Chat{TopicId: id, Agent: agent}, out[0].No
		create(t, j, n)
	}
	j = restart(t, j, reopen)
	now, err := j.Outbox(t.Context(), 0, 9)
	out[0].Agents = []string{"x", "y"}
	if d := cmp.Diff(out, now, protocmp.Transform()); d != "" || err != nil {
		t.Errorf("outbox (-want +got): %s, %v", d, err)
	}
	if err := j.Dispatched(t.Context(), []uint64{out[0].No}); err != nil {
		t.Fatal(err)
	}
	n := NewTask("ann")
	n.Outgoing = out[0].No
	create(t, j, n)
	if now, err := j.Outbox(t.Context(), 0, 9); err != nil || len(now) != 1 || now[0].No != out[1].No {
		t.Errorf("outbox: %v, %v", now, err)
	}
}

func invalidPosts(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	id := createTopic(t, j, NewTopic("ann"))
	wantPosted(t, j, id, 1, Message("1", ""))
	for name, facts := range map[string][]*storagev1.TopicFact{
		"a message without an id":    {Message("", "")},
		"an id used twice":           {Message("2", ""), Message("2", "")},
		"a rollback to what follows": {rolledBack(2)},
	} {
		if _, posted, err := j.Post(t.Context(), journal.Post{TopicID: id, Now: start, Facts: facts}); !errors.Is(err, journal.ErrInvalid) || posted {
			t.Errorf("%s: %v, %v, want ErrInvalid", name, posted, err)
		}
	}
	wantPosted(t, j, id, 2, Message("2", ""))
}

// commitPost commits a transition of a task with a post.
func commitPost(t *testing.T, j journal.Journal, n journal.NewTask, p journal.Post) {
	t.Helper()
	c := claimTask(t, j, n.ID)
	defer yield(t, j, c)
	tr := transition(t, j, n, c.Epoch, running, nil, "a step")
	tr.Post = &p
	if err := j.Commit(t.Context(), tr); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func postOfADeletedTopic(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	settings := NewTopic("ann", "@x")
	settings.Archived = true
	id := createTopic(t, j, settings, Message("1", big("m")))
	if swept, err := j.SweepTopics(t.Context(), start.Add(time.Second), 9); err != nil || swept != 1 {
		t.Fatal(swept, err)
	}
	commitPost(t, j, n, journal.Post{TopicID: id, Now: start, Facts: []*storagev1.TopicFact{Message("2", "")}})
	j = restart(t, j, reopen)
	got, err := j.Load(t.Context(), n.ID)
	if err != nil || got.Checkpoint.GetLastSeq() != 2 {
		t.Errorf("the task: %v, %v", got, err)
	}
	if _, err := j.Topic(t.Context(), id); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("the topic: %v", err)
	}
}

// A task whose message has the id of another message posts the rest.
func repeatedMessageOfTask(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	id := createTopic(t, j, NewTopic("ann", "@x"))
	wantPosted(t, j, id, 1, Message("1", "first"))
	commitPost(t, j, n, journal.Post{TopicID: id, Now: start, Facts: []*storagev1.TopicFact{piece("a"), Message("1", "second"), Message("2", big("b"))}})
	if got, _ := messagesOf(t, j, journal.MessageQuery{TopicID: id, OldestFirst: true, Limit: 9}); cmp.Diff([]string{"1:1", "3:2"}, got) != "" {
		t.Errorf("messages: %v", got)
	}
	if m, err := j.Message(t.Context(), id, "1"); err != nil || m.GetText() != "first" {
		t.Errorf("%v, %v", m, err)
	}
	wantPosted(t, j, id, 4, Message("3", ""))
}

// Each of several posts of one message returns the seq of the one that was stored.
func concurrentPosts(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	const posters, each = 8, 25
	id := createTopic(t, j, NewTopic("ann", "@x"))
	seqs := make(chan map[string]uint64, posters)
	for range posters {
		go func() {
			mine := map[string]uint64{}
			for i := range each {
				m := fmt.Sprint("m", i)
				seq, _, err := j.Post(t.Context(), journal.Post{TopicID: id, Now: start, Facts: []*storagev1.TopicFact{Message(m, "")}})
				if err != nil {
					t.Errorf("Post: %v", err)
				}
				mine[m] = seq
			}
			seqs <- mine
		}()
	}
	first := <-seqs
	for range posters - 1 {
		if d := cmp.Diff(first, <-seqs); d != "" {
			t.Errorf("posters got different seqs: %s", d)
		}
	}
	topic, err := j.Topic(t.Context(), id)
	if err != nil || topic.State.GetLastSeq() != each || topic.State.GetMessageCount() != each {
		t.Errorf("%v, %v", topic, err)
	}
	if out, err := j.Outbox(t.Context(), 0, 1000); err != nil || len(out) != each {
		t.Errorf("%d messages in the outbox, %v", len(out), err)
	}
}

func pagesOfMessages(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	id := createTopic(t, j, NewTopic("ann"))
	for i := range 5 {
		wantPosted(t, j, id, uint64(1+2*i), Message(fmt.Sprint(i), strings.Repeat("x", 1000)), piece("c"))
	}
	for _, c := range []struct {
		q    journal.MessageQuery
		want []string
		more bool
	}{
		{journal.MessageQuery{Limit: 2}, []string{"9:4", "7:3"}, true},
		{journal.MessageQuery{Limit: 2, From: 3}, []string{"1:0"}, false},
		{journal.MessageQuery{Limit: 2, From: 1}, nil, false},
		{journal.MessageQuery{Limit: 2, OldestFirst: true}, []string{"1:0", "3:1"}, true},
		{journal.MessageQuery{Limit: 3, OldestFirst: true, From: 4}, []string{"5:2", "7:3", "9:4"}, false},
		{journal.MessageQuery{Limit: 3, OldestFirst: true, From: 9}, nil, false},
		{journal.MessageQuery{Limit: 3, OldestFirst: true, From: 1<<64 - 1}, nil, false},
		{journal.MessageQuery{Limit: 9, MaxBytes: 1500}, []string{"9:4", "7:3"}, true},
		{journal.MessageQuery{Limit: 9, MaxBytes: 1}, []string{"9:4"}, true},
	} {
		c.q.TopicID = id
		got, more := messagesOf(t, j, c.q)
		if d := cmp.Diff(c.want, got); d != "" || more != c.more {
			t.Errorf("%+v: more=%v, %s", c.q, more, d)
		}
	}
}

// topicsOfAModel makes random changes of topics and compares what the journal holds with a model, also after restarts.
func topicsOfAModel(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	seed := rand.Uint64() //nolint:gosec // not a secret
	t.Logf("seed %d", seed)
	m := newTopicModel(t, j, reopen, rand.New(rand.NewPCG(seed, 1))) //nolint:gosec // not a secret
	for range 300 {
		m.step()
	}
	m.check()
}

// windowOfPosts checks that posts count apart from requests, per user, and repeated ones do not, also across a restart.
func windowOfPosts(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	id := createTopic(t, j, NewTopic("ann", "bob"))
	post := func(user, message string, seconds float64, want time.Duration) {
		t.Helper()
		_, posted, err := j.Post(t.Context(), journal.Post{
			TopicID: id, Now: start, Facts: []*storagev1.TopicFact{Message(message, big(message))}, User: user, Admission: requestAt(user, seconds).Admission,
		})
		var l *journal.Limited
		switch {
		case want == 0 && err != nil:
			t.Errorf("%s: %v", message, err)
		case want != 0 && (!errors.As(err, &l) || posted || l.RetryAfter != want):
			t.Errorf("%s: %v, %v; want it to be refused for %s", message, posted, err, want)
		}
	}
	wantAdmission(t, j, requestAt("ann", 0), 0)
	wantAdmission(t, j, requestAt("ann", 0), 0)
	post("ann", "1", 0, 0)
	post("ann", "2", 1, 0)
	post("ann", "2", 2, 0)
	j = restart(t, j, reopen)
	post("ann", "1", 2, 0)
	post("ann", "3", 2, 8*time.Second)
	post("bob", "4", 2, 0)
	post("ann", "3", 10, 0)
	if got, _ := messagesOf(t, j, journal.MessageQuery{TopicID: id, OldestFirst: true, Limit: 9}); !slices.Equal(got, []string{"1:1", "2:2", "3:4", "4:3"}) {
		t.Errorf("messages: %v", got)
	}
}

// bytesOfTopics checks that a user whose topics take too many bytes gets no further one, and that a repeated request is no further one.
func bytesOfTopics(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	settings := NewTopic("ann", "bob")
	settings.RequestId, settings.RequestHash = "r", []byte("h")
	id := createTopic(t, j, settings)
	const limit = 50 << 10
	if err := j.Admit(t.Context(), "ann", journal.Admission{Bytes: limit}); err != nil {
		t.Fatal(err)
	}
	wantPosted(t, j, id, 1, Message("1", big("a")))
	var full *journal.Full
	if err := j.Admit(t.Context(), "ann", journal.Admission{Bytes: limit}); !errors.As(err, &full) {
		t.Errorf("Admit: %v", err)
	}
	if _, created, err := j.CreateTopic(t.Context(), uuid.NewString(), NewTopic("ann"), nil, limit); !errors.As(err, &full) || created {
		t.Errorf("another topic: %v, %v", created, err)
	}
	if got, created, err := j.CreateTopic(t.Context(), uuid.NewString(), settings, nil, limit); err != nil || created || got != id {
		t.Errorf("the same request again: %s, %v, %v", got, created, err)
	}
	if _, created, err := j.CreateTopic(t.Context(), uuid.NewString(), NewTopic("bob"), nil, limit); err != nil || !created {
		t.Errorf("another user: %v, %v", created, err)
	}
}

func interruptions(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	id := createTopic(t, j, NewTopic("ann", "@x", "@y"))
	wantPosted(t, j, id, 1, Message("1", ""))
	interrupt := func(agent string) {
		t.Helper()
		if _, posted, err := j.Post(t.Context(), journal.Post{TopicID: id, Now: start, Interrupts: &storagev1.Interruption{Agent: agent, Reason: "enough"}}); err != nil || !posted {
			t.Errorf("Post: %v, %v", posted, err)
		}
	}
	interrupt("x")
	wantPosted(t, j, id, 2, Message("2", ""))
	interrupt("y")
	interrupt("x")
	wantPosted(t, j, id, 3, Message("3", ""))
	j = restart(t, j, reopen)
	topic, err := j.Topic(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{"x", "y", "z"} {
		for seq := uint64(1); seq <= 3; seq++ {
			if got, want := topic.Interrupted(agent, seq), agent != "z" && seq < 3; got != want {
				t.Errorf("%s at %d: %v", agent, seq, got)
			}
		}
	}
	if topic.State.GetLastSeq() != 3 {
		t.Errorf("state: %v", topic.State)
	}
	out, err := j.Outbox(t.Context(), 0, 9)
	var entries []string
	for _, o := range out {
		entries = append(entries, fmt.Sprint(o.GetSeq(), o.GetInterruption().GetAgent(), o.GetInterruption().GetReason()))
	}
	if want := []string{"1", "1xenough", "2", "2yenough", "2xenough", "3"}; err != nil || !slices.Equal(entries, want) {
		t.Errorf("outbox: %q, %v, want %q", entries, err, want)
	}
}
