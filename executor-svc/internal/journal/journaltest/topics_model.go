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

// topicModel is what a journal with topics must hold.
type topicModel struct {
	t      *testing.T
	j      journal.Journal
	reopen func() journal.Journal
	random *rand.Rand
	now    time.Time
	task   journal.NewTask
	topics []*modelTopic
	outbox []modelEntry
}

type modelTopic struct {
	id        string
	settings  *storagev1.Topic
	active    time.Time
	facts     []modelFact
	summaries []*storagev1.TopicSummary
}

type modelFact struct {
	*storagev1.TopicFact
	time       time.Time
	rolledBack bool
}

type modelEntry struct {
	topic string
	seq   uint64
	// owners are those of the agents of a topic that was deleted.
	owners []string
}

func newTopicModel(t *testing.T, j journal.Journal, reopen func() journal.Journal, random *rand.Rand) *topicModel {
	m := &topicModel{t: t, j: j, reopen: reopen, random: random, now: start, task: NewTask("ann")}
	create(t, j, m.task)
	m.create()
	return m
}

func (m *topicModel) step() {
	m.t.Helper()
	m.now = m.now.Add(time.Duration(m.random.IntN(2)))
	switch n := m.random.IntN(100); {
	case n < 5:
		m.create()
	case n < 15:
		m.update()
	case n < 60:
		m.post()
	case n < 75:
		m.commit()
	case n < 85:
		m.rollBack()
	case n < 90:
		m.dispatch()
	case n < 91:
		m.sweep()
	case n < 92:
		m.delete()
	case n < 95:
		m.j = restart(m.t, m.j, m.reopen)
	default:
		m.check()
	}
}

func (m *topicModel) pick() *modelTopic { return m.topics[m.random.IntN(len(m.topics))] }

func (m *topicModel) participants() []string {
	all := []string{"ann"}
	for _, p := range []string{"bob", "ann2", "@x", "@y"} {
		if m.random.IntN(2) == 0 {
			all = append(all, p)
		}
	}
	return all
}

func (m *topicModel) create() {
	settings := NewTopic(m.participants()...)
	settings.CreateTime = m.now.UnixNano()
	facts := []*storagev1.TopicFact{piece("created")}
	id := createTopic(m.t, m.j, settings, facts...)
	topic := &modelTopic{id: id, settings: settings, active: m.now}
	m.topics = append(m.topics, topic)
	m.add(topic, facts, 0)
}

// add adds facts to a topic of the model.
func (m *topicModel) add(topic *modelTopic, facts []*storagev1.TopicFact, answers uint64) {
	for _, f := range facts {
		seq := uint64(len(topic.facts) + 1)
		added := modelFact{TopicFact: f, time: m.now}
		if r := f.GetRolledBack(); r != nil {
			for i := r.GetToSeq(); i < seq-1; i++ {
				topic.facts[i].rolledBack = true
			}
		}
		if journal.EndsTasks(f) {
			m.outbox = append(m.outbox, modelEntry{topic: topic.id, seq: seq})
		}
		if f.GetMessage() != nil {
			topic.active = m.now
			added.rolledBack = answers != 0 && topic.facts[answers-1].rolledBack
			if !added.rolledBack && slices.ContainsFunc(topic.settings.GetParticipants(), func(p *storagev1.Participant) bool { return p.GetAgentId() != "" }) {
				m.outbox = append(m.outbox, modelEntry{topic: topic.id, seq: seq})
			}
		}
		topic.facts = append(topic.facts, added)
	}
}

func (m *topicModel) update() {
	topic := m.pick()
	next := NewTopic(m.participants()...)
	next.CreateTime, next.Rev = topic.settings.GetCreateTime(), topic.settings.GetRev()+1
	next.Archived, next.Description = m.random.IntN(3) == 0, m.text()
	var facts []*storagev1.TopicFact
	for range m.random.IntN(3) {
		facts = append(facts, piece("updated"))
	}
	stale := proto.CloneOf(next)
	stale.Rev = uint64(m.random.IntN(2)) * 99
	if err := m.j.UpdateTopic(m.t.Context(), topic.id, stale, m.now, facts); !errors.Is(err, journal.ErrStale) {
		m.t.Fatalf("a stale update: %v", err)
	}
	if err := m.j.UpdateTopic(m.t.Context(), topic.id, next, m.now, facts); err != nil {
		m.t.Fatalf("UpdateTopic: %v", err)
	}
	topic.settings = next
	m.add(topic, facts, 0)
}

func (m *topicModel) text() string {
	if m.random.IntN(100) == 0 {
		return strings.Repeat("L", 1_500_000)
	}
	size := []int{3, 3, 3, 1000, 10_000, 10_000, 10_000, 10_000}[m.random.IntN(8)]
	return strings.Repeat(string(rune('a'+m.random.IntN(3))), size)
}

func (m *topicModel) messageID() string { return fmt.Sprint("m", m.random.IntN(300)) }

// message returns the seq of a message of a topic; 0 if it has none.
func (m *topicModel) message(topic *modelTopic) uint64 {
	var all []uint64
	for i, f := range topic.facts {
		if f.GetMessage() != nil {
			all = append(all, uint64(i+1))
		}
	}
	if len(all) == 0 {
		return 0
	}
	return all[m.random.IntN(len(all))]
}

func (topic *modelTopic) seqOf(messageID string) uint64 {
	return uint64(1 + slices.IndexFunc(topic.facts, func(f modelFact) bool { return f.GetMessage() != nil && f.GetMessage().GetId() == messageID }))
}

func (m *topicModel) post() {
	topic, id := m.pick(), m.messageID()
	facts := []*storagev1.TopicFact{Message(id, m.text())}
	seq, posted, err := m.j.Post(m.t.Context(), journal.Post{TopicID: topic.id, Now: m.now, Facts: facts})
	want, isNew := topic.seqOf(id), false
	if want == 0 {
		want, isNew = uint64(len(topic.facts)+1), true
		m.add(topic, facts, 0)
	}
	if err != nil || posted != isNew || seq != want {
		m.t.Fatalf("Post of %s: seq %d, %v, %v; want %d, %v", id, seq, posted, err, want, isNew)
	}
}

// commit posts from a task.
func (m *topicModel) commit() {
	topic := m.pick()
	p := journal.Post{TopicID: topic.id, Now: m.now, Answers: m.message(topic)}
	var stored []*storagev1.TopicFact
	for i := range m.random.IntN(4) {
		f := piece(m.text())
		if id := m.messageID() + fmt.Sprint("-", i); m.random.IntN(2) == 0 {
			f = Message(id, m.text())
			f.TaskId = m.task.ID
			if topic.seqOf(id) == 0 {
				stored = append(stored, f)
			}
		} else {
			stored = append(stored, f)
		}
		p.Facts = append(p.Facts, f)
	}
	if seq := m.message(topic); seq != 0 && m.random.IntN(2) == 0 {
		p.Summary = &storagev1.TopicSummary{Agent: []string{"x", "y"}[m.random.IntN(2)], Text: m.text(), ToSeq: seq}
		topic.summaries = append(topic.summaries, p.Summary)
	}
	commitPost(m.t, m.j, m.task, p)
	m.add(topic, stored, p.Answers)
}

func (m *topicModel) rollBack() {
	topic := m.pick()
	p := journal.Post{TopicID: topic.id, Now: m.now, Facts: []*storagev1.TopicFact{rolledBack(m.message(topic))}}
	if _, posted, err := m.j.Post(m.t.Context(), p); err != nil || !posted {
		m.t.Fatalf("Post of a rollback: %v, %v", posted, err)
	}
	m.add(topic, p.Facts, 0)
}

func (m *topicModel) dispatch() {
	n := m.random.IntN(5) + 1
	out, err := m.j.Outbox(m.t.Context(), 0, n)
	if err != nil || len(out) != min(n, len(m.outbox)) {
		m.t.Fatalf("Outbox: %d, %v; want %d of %d", len(out), err, n, len(m.outbox))
	}
	var numbers []uint64
	for i, o := range out {
		if e := m.outbox[i]; o.GetTopicId() != e.topic || o.GetSeq() != e.seq || !slices.Equal(o.GetDeletedOwners(), e.owners) || i > 0 && o.No <= out[i-1].No {
			m.t.Fatalf("Outbox: entry %d is %v, want %v", i, o, e)
		}
		if i%2 == 0 {
			numbers = append(numbers, o.No)
		}
	}
	if err := m.j.Dispatched(m.t.Context(), numbers); err != nil {
		m.t.Fatalf("Dispatched: %v", err)
	}
	var left []modelEntry
	for i, e := range m.outbox {
		if i >= len(out) || i%2 != 0 {
			left = append(left, e)
		}
	}
	m.outbox = left
}

func (m *topicModel) sweep() {
	before, limit := m.now.Add(-time.Duration(m.random.IntN(10))), m.random.IntN(3)
	var old []*modelTopic
	for _, topic := range m.topics[1:] { // one stays
		if topic.settings.GetArchived() && topic.active.Before(before) {
			old = append(old, topic)
		}
	}
	if topic := m.topics[0]; topic.settings.GetArchived() && topic.active.Before(before) {
		return
	}
	swept, err := m.j.SweepTopics(m.t.Context(), before, limit)
	if err != nil || swept != min(limit, len(old)) {
		m.t.Fatalf("SweepTopics: %d, %v; want %d of %d", swept, err, limit, len(old))
	}
	m.topics = slices.DeleteFunc(m.topics, func(topic *modelTopic) bool {
		_, err := m.j.Topic(m.t.Context(), topic.id)
		gone := errors.Is(err, journal.ErrNotFound)
		if gone && !slices.Contains(old, topic) {
			m.t.Fatalf("topic %s is gone", topic.id)
		}
		if gone {
			m.deleted(topic)
		}
		return gone
	})
}

// deleted adds the entry of the outbox about a topic that is gone.
func (m *topicModel) deleted(topic *modelTopic) {
	if owners := journal.AgentOwners(topic.settings); len(owners) > 0 {
		m.outbox = append(m.outbox, modelEntry{topic: topic.id, owners: owners})
	}
}

func (m *topicModel) delete() {
	if len(m.topics) < 2 {
		return
	}
	i := m.random.IntN(len(m.topics))
	topic := m.topics[i]
	if err := m.j.DeleteTopic(m.t.Context(), topic.id, topic.settings.GetRev()); err != nil {
		m.t.Fatalf("DeleteTopic: %v", err)
	}
	m.topics = slices.Delete(m.topics, i, i+1)
	m.deleted(topic)
}

// check compares one topic and the lists of all users.
func (m *topicModel) check() {
	m.t.Helper()
	topic := m.pick()
	got, err := m.j.Topic(m.t.Context(), topic.id)
	if err != nil {
		m.t.Fatalf("Topic: %v", err)
	}
	if d := cmp.Diff(topic.settings, got.Topic, protocmp.Transform()); d != "" {
		m.t.Errorf("settings: %s", d)
	}
	if st := got.State; st.GetLastSeq() != uint64(len(topic.facts)) || st.GetActiveTime() != topic.active.UnixNano() {
		m.t.Errorf("state %v, want seq %d and time %d", st, len(topic.facts), topic.active.UnixNano())
	}
	m.checkFacts(topic)
	for _, oldestFirst := range []bool{true, false} {
		for _, all := range []bool{true, false} {
			m.checkMessages(topic, journal.MessageQuery{TopicID: topic.id, OldestFirst: oldestFirst, RolledBack: all, Limit: 1 + m.random.IntN(20)})
		}
	}
	for _, agent := range []string{"x", "y"} {
		m.checkSummary(topic, agent)
	}
	for _, user := range []string{"ann", "bob", "ann2", "@x", "an"} {
		m.checkList(journal.TopicQuery{User: user, Archived: m.random.IntN(2) == 0, AgentID: []string{"", "x"}[m.random.IntN(2)], Limit: 1 + m.random.IntN(5)})
	}
}

func (m *topicModel) checkFacts(topic *modelTopic) {
	after, maxBytes := uint64(m.random.IntN(len(topic.facts)+2)), m.random.IntN(10000)
	for seq := after + 1; ; {
		rs, err := m.j.TopicRecords(m.t.Context(), topic.id, seq-1, maxBytes)
		if err != nil {
			m.t.Fatalf("TopicRecords: %v", err)
		}
		if len(rs) == 0 {
			if want := max(after, uint64(len(topic.facts))); seq-1 != want {
				m.t.Fatalf("the facts end at seq %d, not at %d", seq-1, want)
			}
			return
		}
		for _, r := range rs {
			for i, f := range r.GetFacts() {
				if r.FirstSeq+uint64(i) < seq {
					continue
				}
				want := topic.facts[seq-1]
				if !proto.Equal(want.TopicFact, f) || r.GetTime() != want.time.UnixNano() {
					m.t.Fatalf("the fact %d of topic %s differs", seq, topic.id)
				}
				seq++
			}
		}
	}
}

func (m *topicModel) checkMessages(topic *modelTopic, q journal.MessageQuery) {
	m.t.Helper()
	var got []uint64
	for more := true; more; {
		page, err := m.j.Messages(m.t.Context(), q)
		if err != nil || len(page.Messages) > q.Limit || page.More && len(page.Messages) < q.Limit {
			m.t.Fatalf("Messages: %d of %d, more=%v, %v", len(page.Messages), q.Limit, page.More, err)
		}
		for _, msg := range page.Messages {
			m.checkMessage(topic, msg)
			got = append(got, msg.Seq)
			q.From = msg.Seq
		}
		more = page.More
	}
	if d := cmp.Diff(topic.listed(q), got); d != "" {
		m.t.Fatalf("%+v: %s", q, d)
	}
}

func (m *topicModel) checkMessage(topic *modelTopic, msg journal.TopicMessage) {
	m.t.Helper()
	f := topic.facts[msg.Seq-1]
	if !proto.Equal(f.GetMessage(), msg.TopicMessage) || msg.RolledBack != f.rolledBack || msg.Time != f.time.UnixNano() || msg.TaskID != f.GetTaskId() {
		m.t.Fatalf("message %d of topic %s differs", msg.Seq, topic.id)
	}
	byID, err := m.j.Message(m.t.Context(), topic.id, msg.GetId())
	if err != nil || byID.Seq != msg.Seq || byID.RolledBack != msg.RolledBack {
		m.t.Fatalf("Message %s: %v, %v", msg.GetId(), byID, err)
	}
}

// listed returns the seqs of the messages of a list.
func (topic *modelTopic) listed(q journal.MessageQuery) (all []uint64) {
	for i, f := range topic.facts {
		if f.GetMessage() != nil && (q.RolledBack || !f.rolledBack) {
			all = append(all, uint64(i+1))
		}
	}
	if !q.OldestFirst {
		slices.Reverse(all)
	}
	return all
}

func (m *topicModel) checkSummary(topic *modelTopic, agent string) {
	m.t.Helper()
	var want *storagev1.TopicSummary
	for _, s := range topic.summaries {
		if s.GetAgent() == agent && !topic.facts[s.GetToSeq()-1].rolledBack && s.GetToSeq() >= want.GetToSeq() {
			want = s
		}
	}
	got, err := m.j.Summary(m.t.Context(), topic.id, agent)
	if err != nil || !proto.Equal(want, got) {
		m.t.Fatalf("the summary of %s reaches to %d, %v; want %d", agent, got.GetToSeq(), err, want.GetToSeq())
	}
}

func (m *topicModel) checkList(q journal.TopicQuery) {
	m.t.Helper()
	var found []*modelTopic
	for _, topic := range m.topics {
		has := func(is func(p *storagev1.Participant) bool) bool {
			return slices.ContainsFunc(topic.settings.GetParticipants(), is)
		}
		if has(func(p *storagev1.Participant) bool { return p.GetUserSub() == q.User }) && (q.Archived || !topic.settings.GetArchived()) &&
			(q.AgentID == "" || has(func(p *storagev1.Participant) bool { return p.GetAgentId() == q.AgentID && p.GetAddedBy() == q.User })) {
			found = append(found, topic)
		}
	}
	slices.SortFunc(found, func(a, b *modelTopic) int {
		x, y := uuid.MustParse(a.id), uuid.MustParse(b.id)
		return -(a.active.Compare(b.active)*2 + slices.Compare(x[:], y[:]))
	})
	var want, got []string
	for _, topic := range found {
		want = append(want, topic.id)
	}
	for first := true; first || q.From != ""; first = false {
		page, err := m.j.ListTopics(m.t.Context(), q)
		if err != nil || len(page.Topics) > q.Limit {
			m.t.Fatalf("ListTopics: %d of %d, %v", len(page.Topics), q.Limit, err)
		}
		for _, topic := range page.Topics {
			got = append(got, topic.ID)
		}
		q.From = page.Next
	}
	if d := cmp.Diff(want, got); d != "" {
		m.t.Fatalf("%+v: %s", q, d)
	}
}
