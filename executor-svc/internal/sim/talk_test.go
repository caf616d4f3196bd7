package sim

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"

	"pawl.dev/executor-svc/internal/api"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/topic"
	"pawl.dev/executor-svc/internal/webhook"
)

// talkers are the agents of a topic, by name: the ids of ann's agents. One of them was deleted.
var talkers = map[string]string{"one": "free", "two": "careful", "lost": "deleted"}

// openTopics makes the topics.
func (w *world) openTopics(t testing.TB, store *bolt.Store) {
	for i := range w.cfg.topics {
		id := fmt.Sprintf("00000000-0000-7000-8000-%012d", i+1)
		settings := &storagev1.Topic{Rev: 1, CreateTime: time.Now().UnixNano(), UserSub: "ann", Participants: []*storagev1.Participant{
			{Name: "ann", UserSub: "ann", Role: conversationv1.Role_ROLE_OWNER}, {Name: "bob", UserSub: "bob", Role: conversationv1.Role_ROLE_MEMBER},
		}}
		for _, name := range []string{"one", "two", "lost"} {
			settings.Participants = append(settings.Participants, &storagev1.Participant{
				Name: name, AgentId: talkers[name], Role: conversationv1.Role_ROLE_MEMBER, AddedBy: "ann",
			})
		}
		begun := &storagev1.TopicFact{Kind: &storagev1.TopicFact_TopicUpdated{TopicUpdated: &storagev1.TopicUpdated{By: "ann"}}}
		if _, _, err := store.CreateTopic(context.Background(), id, settings, []*storagev1.TopicFact{begun}, 0); err != nil {
			t.Fatal(err)
		}
		w.book.talks = append(w.book.talks, &talkBook{id: id, name: fmt.Sprintf("T%d", i+1), moved: map[string]bool{}, created: map[string][]*taskBook{}})
	}
}

// topicService takes the TopicService out of what is registered.
type topicService struct {
	conversationv1.TopicServiceServer
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *topicService) RegisterService(_ *grpc.ServiceDesc, impl any) {
	if topics, ok := impl.(conversationv1.TopicServiceServer); ok {
		s.TopicServiceServer = topics
	}
}

// dispatch runs the dispatcher and the sender of webhooks until ctx is done.
func (p *proc) dispatch(ctx context.Context, t testing.TB, w *world, j journal.Journal) (wait func()) {
	var dispatching sync.WaitGroup
	if w.cfg.hooks {
		sender := webhook.New(webhook.Deps{Journal: j, Secrets: secrets(t), Receivers: webhook.NewReceivers(nil, receivers{w, p}), Log: w.log})
		dispatching.Go(func() { sender.Run(ctx) })
	}
	if len(w.book.talks) > 0 {
		context.AfterFunc(ctx, p.hub.Stop)
		dispatching.Go(func() { (&topic.Dispatcher{Journal: j, Hub: p.hub, Tasks: p.tasks, Log: w.log}).Run(ctx) })
	}
	return dispatching.Wait
}

// talks lets a person act in a topic.
func (w *world) talks() {
	k := w.book.talks[w.s.rng.IntN(len(w.book.talks))]
	topics, user := w.proc.topics, pick(w.s, "ann", "bob")
	agent := pick(w.s, "one", "two")
	switch n := w.s.rng.IntN(20); {
	case len(k.posts) == 0, n < 11 && len(k.posts) < w.cfg.posts:
		w.posts(k, user)
	case n < 13:
		w.postsTo(k, user, k.posts[w.s.rng.IntN(len(k.posts))])
	case n < 15:
		w.does(user, "interrupts "+agent+" in "+k.name, nil, func(ctx context.Context, _ *api.Tasks) error {
			_, err := topics.InterruptAgent(ctx, &conversationv1.InterruptAgentRequest{TopicId: k.id, Name: agent})
			return err
		})
	case n < 17:
		to := k.posts[w.s.rng.IntN(len(k.posts))].id
		w.does(user, "rolls "+k.name+" back to "+to, nil, func(ctx context.Context, _ *api.Tasks) error {
			_, err := topics.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: k.id, ToMessageId: to})
			return err
		})
	case n < 18:
		w.watchesTopic(k)
	case n == 18:
		archive := w.s.chance(2)
		w.does("ann", fmt.Sprintf("sets %s to archived: %t", k.name, archive), nil, func(ctx context.Context, _ *api.Tasks) error {
			_, err := topics.UpdateTopic(ctx, &conversationv1.UpdateTopicRequest{
				Topic: &conversationv1.Topic{Id: k.id, Archived: archive}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"archived"}},
			})
			return err
		})
	case w.s.chance(2):
		k.moved[agent] = true
		w.does("ann", "removes "+agent+" from "+k.name, nil, func(ctx context.Context, _ *api.Tasks) error {
			_, err := topics.RemoveParticipant(ctx, &conversationv1.RemoveParticipantRequest{TopicId: k.id, Name: agent})
			return err
		})
	default:
		k.moved[agent] = true
		w.does("ann", "adds "+agent+" to "+k.name, nil, func(ctx context.Context, _ *api.Tasks) error {
			_, err := topics.AddParticipant(ctx, &conversationv1.AddParticipantRequest{TopicId: k.id, Participant: &conversationv1.Participant{
				Name: agent, Who: &conversationv1.Participant_AgentId{AgentId: talkers[agent]},
			}})
			return err
		})
	}
}

// posts lets a person post a message.
func (w *world) posts(k *talkBook, user string) {
	id := fmt.Sprintf("m%d", len(k.posts)+1)
	n := &postNote{id: id, sender: user, text: id + pick(w.s, "", "", " @one", " @two", " @lost", " @two, @one"), ext: map[string]any{}}
	if w.s.chance(4) {
		n.ext["use_new_flow"] = true
	}
	k.posts = append(k.posts, n)
	w.postsTo(k, user, n)
}

// postsTo posts a message, perhaps again.
func (w *world) postsTo(k *talkBook, user string, n *postNote) {
	ext, err := structpb.NewStruct(n.ext)
	if err != nil {
		panic(err) // impossible: it holds a boolean
	}
	topics := w.proc.topics
	w.book.tick(&n.begun)
	w.does(user, "posts "+n.text+" in "+k.name, nil, func(ctx context.Context, _ *api.Tasks) error {
		_, err := topics.PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: k.id, Message: &conversationv1.Message{Id: n.id, Text: n.text, Ext: ext}})
		if err == nil {
			w.book.tick(&n.done)
		}
		return err
	})
}

// watchesTopic lets bob watch a topic from the last event that he has seen on.
func (w *world) watchesTopic(k *talkBook) {
	if k.watching == w.proc || !w.s.calm && w.s.chance(2) {
		return
	}
	p := w.proc
	k.watching = p
	w.s.note("bob watches "+k.name, 0)
	after := uint64(len(k.seen))
	w.goes(func() {
		ctx := as(w.ctx, "watcher of "+k.name+" at "+p.name)
		_ = p.hub.Watch(ctx, topic.Watch{TopicID: k.id, UserSub: "bob", After: after}, func(e *conversationv1.TopicEvent) error {
			if k.watching == p && !p.isDead() {
				k.seen = append(k.seen, e)
			}
			return nil
		})
	})
}

func (g *gated) Topic(ctx context.Context, id string) (t *journal.Topic, err error) {
	err = g.read(ctx, "topic", id, func() (err error) { t, err = g.Journal.Topic(ctx, id); return err })
	return t, err
}

func (g *gated) Message(ctx context.Context, id, message string) (m *journal.TopicMessage, err error) {
	err = g.read(ctx, "message "+message, id, func() (err error) { m, err = g.Journal.Message(ctx, id, message); return err })
	return m, err
}

func (g *gated) Messages(ctx context.Context, q journal.MessageQuery) (p journal.MessagePage, err error) {
	err = g.read(ctx, "messages", q.TopicID, func() (err error) { p, err = g.Journal.Messages(ctx, q); return err })
	return p, err
}

func (g *gated) TopicRecords(ctx context.Context, id string, after uint64, maxBytes int) (rs []journal.TopicRecord, err error) {
	err = g.read(ctx, "records", id, func() (err error) { rs, err = g.Journal.TopicRecords(ctx, id, after, maxBytes); return err })
	return rs, err
}

func (g *gated) Outbox(ctx context.Context, after uint64, limit int) (out []journal.Outgoing, err error) {
	err = g.read(ctx, "outbox", "", func() (err error) { out, err = g.Journal.Outbox(ctx, after, limit); return err })
	return out, err
}

func (g *gated) Post(ctx context.Context, p journal.Post) (seq uint64, posted bool, err error) {
	err = g.change(ctx, "post"+topicKinds(p.Facts), p.TopicID, g.w.cfg.writeFails, func() (err error) {
		seq, posted, err = g.Journal.Post(ctx, p)
		return err
	})
	return seq, posted, err
}

func (g *gated) UpdateTopic(ctx context.Context, id string, t *storagev1.Topic, now time.Time, facts []*storagev1.TopicFact) error {
	return g.change(ctx, "update"+topicKinds(facts), id, g.w.cfg.writeFails, func() error { return g.Journal.UpdateTopic(ctx, id, t, now, facts) })
}

func (g *gated) Dispatched(ctx context.Context, numbers []uint64) error {
	return g.change(ctx, fmt.Sprint("dispatched ", numbers), "", g.w.cfg.writeFails, func() error { return g.Journal.Dispatched(ctx, numbers) })
}

// topicKinds names facts of a topic, for the trace.
func topicKinds(facts []*storagev1.TopicFact) (all string) {
	for _, f := range facts {
		all += fmt.Sprintf(" %T", f.GetKind())[len(" *storagev1.TopicFact"):]
		if m := f.GetMessage(); m != nil && f.GetTaskId() == "" {
			all += " " + m.GetId()
		}
	}
	return all
}
