package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/topic"
)

// talkBook is what happened in a topic.
type talkBook struct {
	id, name string
	posts    []*postNote
	// moved are the agents that a person has removed or added.
	moved map[string]bool
	// created holds, by agent, the tasks that consider messages, in the order of their creation.
	created map[string][]*taskBook
	// seen are the events that a person saw, and watching is the process that shows them.
	seen     []*conversationv1.TopicEvent
	watching *proc
}

// postNote is a person's message.
type postNote struct {
	id, sender, text string
	ext              map[string]any
	// begun is when it was first sent, and done when that was first acknowledged, by the book's clock; 0: never.
	begun, done int
}

// tick sets a time that is not set yet.
func (b *book) tick(at *int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clock++; *at == 0 {
		*at = b.clock
	}
}

// dispatched writes down a task that considers a message: there is one for each agent and message, and they are created in the order of the messages.
func (b *book) dispatched(t *taskBook) {
	chat := t.head.GetChat()
	i := slices.IndexFunc(b.talks, func(k *talkBook) bool { return k.id == chat.GetTopicId() })
	if i < 0 || len(t.head.GetForks()) > 0 {
		return
	}
	k, agent := b.talks[i], chat.GetAgent()
	if all := k.created[agent]; len(all) > 0 {
		switch last := all[len(all)-1].head.GetChat().GetMessageSeq(); {
		case last == chat.GetMessageSeq():
			b.wrong("%s: message %d of %s is given to %s twice", t.name, last, k.name, agent)
		case last > chat.GetMessageSeq():
			b.wrong("%s: message %d of %s is given to %s after message %d", t.name, chat.GetMessageSeq(), k.name, agent, last)
		}
	}
	k.created[agent] = append(k.created[agent], t)
}

// undispatched reports whether a message waits for agents.
func (w *world) undispatched() bool {
	if len(w.book.talks) == 0 {
		return false
	}
	out, err := w.proc.store.Outbox(context.Background(), 0, 1)
	return err == nil && len(out) > 0
}

// endings checks that no task waits whose message was rolled back, or whose agent was interrupted or removed, whatever became of the request that did so.
func (w *world) endings() {
	for _, k := range w.book.talks {
		t, err := w.proc.store.Topic(context.Background(), k.id)
		if err != nil {
			w.book.fault("%s cannot be read: %v", k.name, err)
			return
		}
		for agent, tasks := range k.created {
			there := slices.ContainsFunc(t.GetParticipants(), func(p *storagev1.Participant) bool { return p.GetName() == agent })
			for _, task := range tasks {
				seq := task.head.GetChat().GetMessageSeq()
				if !task.gone && !state.Ended(task.checkpoint.GetStatus()) && (!there || t.RolledBack(seq) || t.Interrupted(agent, seq)) {
					w.book.fault("%s waits, although %s, which considers message %d of %s, should have stopped", task.name, agent, seq, k.name)
				}
			}
		}
	}
}

// topicAudit compares a topic in the journal with what people and agents did.
type topicAudit struct {
	w *world
	k *talkBook
	t *journal.Topic

	seq      uint64
	messages map[string]*journal.TopicMessage
	inOrder  []*journal.TopicMessage
	replies  map[string]*replyAudit // by the id of the message
	tasks    map[string]*answerAudit
	// silent counts, by message and agent, how often the dispatcher said that an agent is silent.
	silent map[string]int
}

type replyAudit struct {
	text string
	done *storagev1.StreamDone
}

// answerAudit is what a task posted.
type answerAudit struct {
	received, silent, broken, replies, reports int
	waits                                      map[string]int
}

func (w *world) auditTopic(j journal.Journal, k *talkBook) {
	ctx := context.Background()
	a := &topicAudit{w: w, k: k, messages: map[string]*journal.TopicMessage{}, replies: map[string]*replyAudit{}, tasks: map[string]*answerAudit{}, silent: map[string]int{}}
	var err error
	if a.t, err = j.Topic(ctx, k.id); err != nil {
		a.wrong("it cannot be read: %v", err)
		return
	}
	for {
		rs, err := j.TopicRecords(ctx, k.id, a.seq, 1<<20)
		if err != nil {
			a.wrong("its records cannot be read: %v", err)
			return
		}
		if len(rs) == 0 {
			break
		}
		for _, r := range rs {
			if r.FirstSeq != a.seq+1 {
				a.wrong("fact %d follows fact %d", r.FirstSeq, a.seq)
			}
			for _, f := range r.GetFacts() {
				a.seq++
				a.fact(f)
			}
		}
	}
	if out, err := j.Outbox(ctx, 0, 1); err != nil || len(out) > 0 {
		a.wrong("messages are left in the outbox: %v, %v", out, err)
	}
	a.posts()
	for _, m := range a.inOrder {
		a.considered(m)
	}
	for _, task := range w.book.all() {
		if task.head.GetChat().GetTopicId() == k.id && !task.gone {
			a.answer(task)
		}
	}
	for i, e := range k.seen {
		if m := a.messages[e.GetNewMessage().GetId()]; e.GetSeq() != uint64(i+1) || e.GetNewMessage() != nil && (m == nil || m.Seq != e.GetSeq()) {
			a.wrong("event %d was shown as number %d: %v", e.GetSeq(), i+1, e)
			return
		}
	}
	if uint64(len(k.seen)) > a.seq {
		a.wrong("%d events were shown, there are %d", len(k.seen), a.seq)
	}
}

func (a *topicAudit) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, k := range a.w.book.all() {
		text = strings.ReplaceAll(text, k.id, k.name)
	}
	a.w.book.fault("%s: %s", a.k.name, text)
}

func (a *topicAudit) fact(f *storagev1.TopicFact) {
	t := a.tasks[f.GetTaskId()]
	if t == nil {
		t = &answerAudit{waits: map[string]int{}}
		a.tasks[f.GetTaskId()] = t
	}
	switch k := f.GetKind().(type) {
	case *storagev1.TopicFact_Message:
		a.message(t, f, k.Message)
	case *storagev1.TopicFact_AgentReceived:
		t.received++
	case *storagev1.TopicFact_AgentSilent:
		if t.silent++; f.GetTaskId() == "" {
			a.silent[f.GetMessageId()+" "+f.GetAgent()]++
		}
	case *storagev1.TopicFact_StreamChunk:
		r := a.replies[k.StreamChunk.GetReplyId()]
		if r == nil {
			r = &replyAudit{}
			a.replies[k.StreamChunk.GetReplyId()] = r
		}
		if r.done != nil || k.StreamChunk.GetOffset() != uint64(len(r.text)) {
			a.wrong("a piece of %s begins at %d instead of %d; its end: %v", k.StreamChunk.GetReplyId(), k.StreamChunk.GetOffset(), len(r.text), r.done)
		}
		r.text += k.StreamChunk.GetText()
	case *storagev1.TopicFact_StreamDone:
		r := a.replies[k.StreamDone.GetReplyId()]
		if r == nil || r.done != nil || k.StreamDone.GetSize() != uint64(len(r.text)) {
			a.wrong("the end of a reply: %v, after %+v", k.StreamDone, r)
			return
		}
		if r.done = k.StreamDone; k.StreamDone.GetError() != "" {
			t.broken++
		}
	}
}

func (a *topicAudit) message(t *answerAudit, f *storagev1.TopicFact, m *storagev1.TopicMessage) {
	found := &journal.TopicMessage{Seq: a.seq, TaskID: f.GetTaskId(), RolledBack: a.t.RolledBack(a.seq), TopicMessage: m}
	if a.messages[m.GetId()] != nil {
		a.wrong("the message %s is there twice", m.GetId())
	}
	a.messages[m.GetId()] = found
	a.inOrder = append(a.inOrder, found)
	if !m.GetFromAgent() {
		return
	}
	if to := a.messages[f.GetMessageId()]; to == nil || to.RolledBack && !found.RolledBack {
		a.wrong("%s counts, although %s was rolled back", m.GetId(), f.GetMessageId())
	}
	if r := a.replies[m.GetId()]; r != nil && (r.text != m.GetText() || r.done == nil || r.done.GetError() != "") {
		a.wrong("%s is %q, and was shown as %q with %v", m.GetId(), m.GetText(), r.text, r.done)
	}
	switch {
	case m.GetWait() != nil:
		if t.waits[m.GetWait().GetId()]++; t.waits[m.GetWait().GetId()] > 1 {
			a.wrong("%s asks for %s again", m.GetId(), m.GetWait().GetId())
		}
	case strings.Contains(m.GetExtJson(), "mcp_error"):
		t.reports++
	default:
		t.replies++
	}
}

// posts checks the messages of people: each is there once if it was acknowledged, and those that were sent one after the other are in that order.
func (a *topicAudit) posts() {
	known := map[string]bool{}
	for _, n := range a.k.posts {
		known[n.id] = true
		m := a.messages[n.id]
		if n.done != 0 && (m == nil || m.GetText() != n.text) {
			a.wrong("%s was told that %s is posted; it is %v", n.sender, n.id, m)
			continue
		}
		for _, later := range a.k.posts {
			if l := a.messages[later.id]; n.done != 0 && n.done < later.begun && l != nil && l.Seq < m.Seq {
				a.wrong("%s has seq %d, and %s, which was posted before, has %d", later.id, l.Seq, n.id, m.Seq)
			}
		}
	}
	for id, m := range a.messages {
		if !m.GetFromAgent() && m.GetAnsweredWaitId() == "" && !known[id] {
			a.wrong("nobody has posted %s", id)
		}
	}
}

// considered checks that each agent has considered a message once: it has a task, or says why not.
func (a *topicAudit) considered(m *journal.TopicMessage) {
	times := map[string]int{}
	for agent, tasks := range a.k.created {
		for _, t := range tasks {
			if t.head.GetChat().GetMessageSeq() == m.Seq {
				times[agent]++
			}
		}
	}
	for agent := range talkers {
		times[agent] += a.silent[m.GetId()+" "+agent]
		if times[agent] > 1 {
			a.wrong("%s has considered %s %d times", agent, m.GetId(), times[agent])
		}
	}
	for _, c := range topic.Considerers(a.t.ID, a.t.Topic, m) {
		if agent := c.Agent.GetName(); times[agent] == 0 && !a.k.moved[agent] {
			a.wrong("%s has not considered %s", agent, m.GetId())
		}
	}
}

// answer checks what a task posted: that it received the message, and then its reply or why there is none, each once.
func (a *topicAudit) answer(k *taskBook) {
	t := a.tasks[k.id]
	if t == nil {
		t = &answerAudit{}
	}
	started := slices.ContainsFunc(k.facts, func(f *storagev1.Fact) bool { return f.GetFlowStart() != nil })
	success := k.checkpoint.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
	switch {
	case t.received > 1, started && len(k.head.GetForks()) == 0 && t.received == 0:
		a.wrong("%s has received its message %d times", k.name, t.received)
	case !state.Ended(k.checkpoint.GetStatus()):
	case success && t.replies+t.silent != 1:
		a.wrong("%s has succeeded with %d replies, and was silent %d times", k.name, t.replies, t.silent)
	case !success && (t.replies+t.silent > 1 || t.replies+t.silent+t.broken+t.reports == 0):
		a.wrong("%s is %s with %d replies, %d broken ones, %d reports, and was silent %d times", k.name, k.checkpoint.GetStatus(), t.replies, t.broken, t.reports, t.silent)
	}
}
