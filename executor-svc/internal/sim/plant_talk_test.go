//go:build !race

package sim

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
)

// forgetfulOutbox removes messages when they are read, not when they are dispatched.
type forgetfulOutbox struct{ journal.Journal }

func (o forgetfulOutbox) Outbox(ctx context.Context, after uint64, limit int) ([]journal.Outgoing, error) {
	out, err := o.Journal.Outbox(ctx, after, limit)
	var numbers []uint64
	for _, e := range out {
		numbers = append(numbers, e.No)
	}
	if err == nil && len(numbers) > 0 {
		err = o.Dispatched(ctx, numbers)
	}
	return out, err
}

// repeatingDispatch forgets which messages have a task.
type repeatingDispatch struct{ journal.Journal }

func (r repeatingDispatch) FindRequest(ctx context.Context, user, requestID string) (*journal.Task, error) {
	t, err := r.Journal.FindRequest(ctx, user, requestID)
	if t != nil && t.Head.GetChat() != nil {
		return nil, journal.ErrNotFound
	}
	return t, err
}

func (r repeatingDispatch) Create(ctx context.Context, n journal.NewTask) (string, bool, error) {
	if n.Head.GetChat() != nil {
		n.Head, n.Outgoing = proto.CloneOf(n.Head), 0
		n.Head.RequestId = ""
	}
	return r.Journal.Create(ctx, n)
}

// reversedOutbox gives the newest message first.
type reversedOutbox struct{ journal.Journal }

func (r reversedOutbox) Outbox(ctx context.Context, after uint64, limit int) ([]journal.Outgoing, error) {
	out, err := r.Journal.Outbox(ctx, after, limit)
	if after == 0 {
		slices.Reverse(out)
	}
	return out, err
}

// dropsArchived removes messages of archived topics when they are read.
type dropsArchived struct{ journal.Journal }

func (d dropsArchived) Outbox(ctx context.Context, after uint64, limit int) (kept []journal.Outgoing, err error) {
	out, err := d.Journal.Outbox(ctx, after, limit)
	for _, o := range out {
		t, topicErr := d.Topic(ctx, o.GetTopicId())
		switch {
		case topicErr != nil:
			return nil, topicErr
		case !t.GetArchived():
			kept = append(kept, o)
		default:
			err = cmp.Or(err, d.Dispatched(ctx, []uint64{o.No}))
		}
	}
	return kept, err
}

// forgetsEndings removes what ends tasks when it is read.
type forgetsEndings struct{ journal.Journal }

func (f forgetsEndings) Outbox(ctx context.Context, after uint64, limit int) (kept []journal.Outgoing, err error) {
	out, err := f.Journal.Outbox(ctx, after, limit)
	for _, o := range out {
		rs, readErr := f.TopicRecords(ctx, o.GetTopicId(), o.GetSeq()-1, 1)
		switch {
		case readErr != nil:
			return nil, readErr
		case o.GetInterruption() == nil && !journal.EndsTasks(rs[0].GetFacts()[o.GetSeq()-rs[0].FirstSeq]):
			kept = append(kept, o)
		default:
			err = cmp.Or(err, f.Dispatched(ctx, []uint64{o.No}))
		}
	}
	return kept, err
}

// repeatingSilence leaves a message in the outbox when it posts that agents are silent.
type repeatingSilence struct{ journal.Journal }

func (r repeatingSilence) Post(ctx context.Context, p journal.Post) (uint64, bool, error) {
	p.Dispatched = 0
	return r.Journal.Post(ctx, p)
}

// postsApart posts after the transition.
type postsApart struct{ journal.Journal }

func (a postsApart) Commit(ctx context.Context, t journal.Transition) error {
	p := t.Post
	t.Post = nil
	err := a.Journal.Commit(ctx, t)
	if err == nil && p != nil {
		_, _, err = a.Post(ctx, *p)
	}
	return err
}

// countsRolledBack forgets what posts of tasks are about.
type countsRolledBack struct{ journal.Journal }

func (c countsRolledBack) Commit(ctx context.Context, t journal.Transition) error {
	if t.Post != nil {
		p := *t.Post
		p.Answers, t.Post = 0, &p
	}
	return c.Journal.Commit(ctx, t)
}
