package api

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/page"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/topic"
	"pawl.dev/executor-svc/internal/view"
)

// Topics implements TopicService.
type Topics struct {
	conversationv1.UnsafeTopicServiceServer
	Deps
	tasks *Tasks
}

var _ conversationv1.TopicServiceServer = (*Topics)(nil)

// visit is a request of a participant.
type visit struct {
	who   identity.Principal
	topic *journal.Topic
	me    *storagev1.Participant
}

// enter loads a topic in which the caller participates. For all others, it does not exist.
func (s *Topics) enter(ctx context.Context, id string) (*visit, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	if uuid.Validate(id) != nil {
		return nil, topicNotFound(id)
	}
	t, err := s.Journal.Topic(ctx, id)
	if err != nil {
		return nil, apiError(err, topicNotFound(id))
	}
	me := person(t.Topic, who.Sub)
	if me == nil {
		return nil, topicNotFound(id)
	}
	return &visit{who: who, topic: t, me: me}, nil
}

// enterToPost is enter for participants who may post.
func (s *Topics) enterToPost(ctx context.Context, id string) (*visit, error) {
	v, err := s.enter(ctx, id)
	if err == nil && !mayPost(v.me) {
		err = errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, "you may only read this topic; ask one of its owners to make you a member")
	}
	return v, err
}

func mayPost(p *storagev1.Participant) bool {
	return p.GetRole() == conversationv1.Role_ROLE_OWNER || p.GetRole() == conversationv1.Role_ROLE_MEMBER
}

func (v *visit) checkOwner() error {
	if v.me.GetRole() == conversationv1.Role_ROLE_OWNER {
		return nil
	}
	return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, "only owners of the topic may do that; ask one of them")
}

// checkEtag refuses an etag that is not the topic's. An empty etag matches every topic.
func (v *visit) checkEtag(etag string) error {
	if etag != "" && etag != view.Topic(v.topic).GetEtag() {
		return apiError(journal.ErrStale, nil)
	}
	return nil
}

func (v *visit) checkOpen() error {
	if v.topic.GetArchived() {
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOPIC_ARCHIVED,
			"the topic is archived; an owner can end that by an update with archived: false")
	}
	return nil
}

func topicNotFound(id string) error {
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOPIC_NOT_FOUND,
		"there is no topic %s in which you participate; list yours with `pawl topics` or GET /v1/topics", id)
}

// CreateTopic implements TopicService.
func (s *Topics) CreateTopic(ctx context.Context, req *conversationv1.CreateTopicRequest) (*conversationv1.Topic, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	hash, err := requestHash(req)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t := &storagev1.Topic{
		DisplayName: req.GetTopic().GetDisplayName(), Description: req.GetTopic().GetDescription(), Archived: req.GetTopic().GetArchived(),
		Rev: 1, CreateTime: now.UnixNano(), UserSub: who.Sub, RequestId: req.GetRequestId(), RequestHash: hash,
	}
	ps, err := s.firstParticipants(ctx, t, who, req.GetParticipants(), now)
	if err != nil {
		return nil, err
	}
	facts := append([]*storagev1.TopicFact{settingsChanged(t, t.GetParticipants()[0])}, ps...)
	id, _, err := s.Journal.CreateTopic(ctx, uuid.Must(uuid.NewV7()).String(), t, facts, s.UserBytes)
	if err != nil {
		return nil, apiError(err, nil)
	}
	return s.GetTopic(ctx, &conversationv1.GetTopicRequest{Id: id})
}

// GetTopic implements TopicService.
func (s *Topics) GetTopic(ctx context.Context, req *conversationv1.GetTopicRequest) (*conversationv1.Topic, error) {
	v, err := s.enter(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return view.Topic(v.topic), nil
}

// ListTopics implements TopicService.
func (s *Topics) ListTopics(ctx context.Context, req *conversationv1.ListTopicsRequest) (*conversationv1.ListTopicsResponse, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	q := journal.TopicQuery{User: who.Sub, Archived: req.GetIncludeArchived(), AgentID: req.GetAgentId(), Limit: int(cmp.Or(req.GetPageSize(), 50))}
	scope := "topics/" + who.Sub + "/" + q.AgentID + "/" + strconv.FormatBool(q.Archived)
	from, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	q.From = string(from)
	found, err := s.Journal.ListTopics(ctx, q)
	if errors.Is(err, journal.ErrInvalid) {
		return nil, badToken()
	}
	if err != nil {
		return nil, apiError(err, nil)
	}
	out := &conversationv1.ListTopicsResponse{}
	for _, t := range found.Topics {
		out.Topics = append(out.Topics, view.Topic(t))
	}
	if found.Next != "" {
		out.NextPageToken = page.Encode(scope, []byte(found.Next))
	}
	return out, nil
}

// UpdateTopic implements TopicService.
func (s *Topics) UpdateTopic(ctx context.Context, req *conversationv1.UpdateTopicRequest) (*conversationv1.Topic, error) {
	fields := req.GetUpdateMask().GetPaths()
	for _, f := range fields {
		if topicFields := (&conversationv1.Topic{}).ProtoReflect().Descriptor().Fields(); f != "*" && topicFields.ByTextName(f) == nil {
			return nil, invalidField("update_mask", strconv.Quote(f)+" is not a field of a topic",
				"update_mask names %q, which is not a field of a topic; name display_name, description or archived", f)
		}
	}
	in := req.GetTopic()
	return s.change(ctx, in.GetId(), func(v *visit, next *storagev1.Topic) ([]*storagev1.TopicFact, error) {
		if err := v.checkOwner(); err != nil {
			return nil, err
		}
		if err := v.checkEtag(in.GetEtag()); err != nil {
			return nil, err
		}
		setFields(next, in, fields)
		if proto.Equal(next, v.topic.Topic) {
			return nil, nil
		}
		if !next.GetArchived() || v.topic.GetArchived() { // to archive a topic is possible also if it takes too many bytes
			if err := s.checkBytes(ctx, v); err != nil {
				return nil, err
			}
		}
		return []*storagev1.TopicFact{settingsChanged(next, v.me)}, nil
	})
}

// setFields sets the fields of a topic's settings that a mask names; without a mask, those that are set.
func setFields(t *storagev1.Topic, in *conversationv1.Topic, mask []string) {
	names := func(field string, set bool) bool {
		return slices.Contains(mask, field) || slices.Contains(mask, "*") || len(mask) == 0 && set
	}
	if names("display_name", in.GetDisplayName() != "") {
		t.DisplayName = in.GetDisplayName()
	}
	if names("description", in.GetDescription() != "") {
		t.Description = in.GetDescription()
	}
	if names("archived", in.GetArchived()) {
		t.Archived = in.GetArchived()
	}
}

// ArchiveTopic implements TopicService.
func (s *Topics) ArchiveTopic(ctx context.Context, req *conversationv1.ArchiveTopicRequest) (*conversationv1.Topic, error) {
	return s.UpdateTopic(ctx, &conversationv1.UpdateTopicRequest{Topic: &conversationv1.Topic{Id: req.GetId(), Archived: true}})
}

// DeleteTopic implements TopicService.
func (s *Topics) DeleteTopic(ctx context.Context, req *conversationv1.DeleteTopicRequest) (*conversationv1.DeleteTopicResponse, error) {
	for {
		v, err := s.enter(ctx, req.GetId())
		if err == nil {
			err = cmp.Or(v.checkOwner(), v.checkEtag(req.GetEtag()))
		}
		if err != nil {
			return nil, err
		}
		err = s.Journal.DeleteTopic(ctx, v.topic.ID, v.topic.GetRev())
		if errors.Is(err, journal.ErrStale) {
			continue // the caller may no longer be an owner
		}
		if err == nil {
			_, err = s.tasks.CancelChats(ctx, v.topic.ID, topic.EndingOfDeletion(journal.AgentOwners(v.topic.Topic)))
		}
		return &conversationv1.DeleteTopicResponse{}, apiError(err, topicNotFound(req.GetId()))
	}
}

func settingsChanged(t *storagev1.Topic, by *storagev1.Participant) *storagev1.TopicFact {
	return &storagev1.TopicFact{Kind: &storagev1.TopicFact_TopicUpdated{TopicUpdated: &storagev1.TopicUpdated{
		DisplayName: t.GetDisplayName(), Description: t.GetDescription(), Archived: t.GetArchived(), By: by.GetName(),
	}}}
}

// change applies an edit to a copy of a topic's settings, and stores the copy with the facts about the change. Without facts it stores nothing. If another
// change came first, it applies the edit again.
func (s *Topics) change(ctx context.Context, id string, edit func(v *visit, next *storagev1.Topic) ([]*storagev1.TopicFact, error)) (*conversationv1.Topic, error) {
	for {
		v, err := s.enter(ctx, id)
		if err != nil {
			return nil, err
		}
		next := proto.CloneOf(v.topic.Topic)
		facts, err := edit(v, next)
		if err != nil {
			return nil, err
		}
		if len(facts) == 0 {
			return view.Topic(v.topic), nil
		}
		next.Rev++
		err = s.Journal.UpdateTopic(ctx, id, next, time.Now(), facts)
		if errors.Is(err, journal.ErrStale) {
			continue
		}
		if err != nil {
			return nil, apiError(err, topicNotFound(id))
		}
		t, err := s.Journal.Topic(ctx, id)
		if err != nil {
			return nil, apiError(err, topicNotFound(id))
		}
		return view.Topic(t), nil
	}
}

// WatchTopic implements TopicService.
func (s *Topics) WatchTopic(req *conversationv1.WatchTopicRequest, stream grpc.ServerStreamingServer[conversationv1.TopicEvent]) error {
	ctx := stream.Context()
	v, err := s.enter(ctx, req.GetTopicId())
	if err != nil {
		return err
	}
	if last := v.topic.State.GetLastSeq(); req.GetAfterSeq() > last {
		return invalidField("after_seq", "beyond the newest event",
			"after_seq is %d, but the topic's newest event is %d; watch from a seq that you received", req.GetAfterSeq(), last)
	}
	inproc.Share(ctx) // events are never changed, so all watchers can receive the same messages
	watch := topic.Watch{TopicID: v.topic.ID, UserSub: v.who.Sub, After: req.GetAfterSeq(), NoFollow: req.GetNoFollow()}
	return apiError(s.Hub.Watch(ctx, watch, stream.Send), topicNotFound(req.GetTopicId()))
}

// InterruptAgent implements TopicService.
func (s *Topics) InterruptAgent(ctx context.Context, req *conversationv1.InterruptAgentRequest) (*conversationv1.InterruptAgentResponse, error) {
	v, err := s.enterToPost(ctx, req.GetTopicId())
	if err != nil {
		return nil, err
	}
	agent := named(v.topic.Topic, req.GetName())
	switch {
	case agent == nil:
		return nil, participantNotFound(req.GetName())
	case agent.GetAgentId() == "":
		return nil, invalidField("name", "not an agent", "%q is a person; name one of the topic's agents", req.GetName())
	}
	reason := "interrupted by " + v.me.GetName()
	if req.GetReason() != "" {
		reason += ": " + req.GetReason()
	}
	i := &storagev1.Interruption{Agent: agent.GetName(), Reason: reason}
	_, ids, err := s.end(ctx, v.topic.ID, journal.Post{Interrupts: i}, func(seq uint64) topic.Ending {
		i.Seq = seq - 1
		return topic.EndingOfInterruption(v.topic.Topic, i)
	})
	return &conversationv1.InterruptAgentResponse{TaskIds: ids}, err
}

// end makes a post that ends tasks, ends them, and returns the seq of the post and the tasks' ids. ending returns the ending of a post with a seq.
func (s *Topics) end(ctx context.Context, topicID string, p journal.Post, ending func(seq uint64) topic.Ending) (seq uint64, ids []string, err error) {
	// The dispatcher may cancel tasks before this request does.
	if ids, err = s.tasks.openChats(ctx, topicID, ending(math.MaxUint64), func(string) error { return nil }); err != nil {
		return 0, nil, err
	}
	p.TopicID, p.Now = topicID, time.Now()
	if seq, _, err = s.Journal.Post(ctx, p); err != nil {
		return 0, nil, apiError(err, topicNotFound(topicID))
	}
	ended, err := s.tasks.CancelChats(ctx, topicID, ending(seq))
	ids = append(ids, ended...)
	slices.Sort(ids)
	return seq, slices.Compact(ids), err
}

// RollbackTopic implements TopicService.
func (s *Topics) RollbackTopic(ctx context.Context, req *conversationv1.RollbackTopicRequest) (*conversationv1.RollbackTopicResponse, error) {
	v, err := s.enterToPost(ctx, req.GetTopicId())
	if err == nil {
		err = v.checkOpen()
	}
	if err != nil {
		return nil, err
	}
	if (req.GetToMessageId() == "") != req.GetAll() {
		return nil, invalidField("to_message_id", "either it or all", "name the newest message that still counts as to_message_id, or set all to roll back every message")
	}
	back := &storagev1.RolledBack{ToMessageId: req.GetToMessageId(), By: v.me.GetName()}
	if req.GetToMessageId() != "" {
		m, err := s.message(ctx, v.topic.ID, req.GetToMessageId())
		if err != nil {
			return nil, err
		}
		if m.RolledBack {
			return nil, invalidField("to_message_id", "was rolled back", "the message %q was rolled back itself; name an earlier one that still counts", req.GetToMessageId())
		}
		back.ToSeq = m.Seq
	}
	fact := &storagev1.TopicFact{Kind: &storagev1.TopicFact_RolledBack{RolledBack: back}}
	p := journal.Post{Facts: []*storagev1.TopicFact{fact}, User: v.who.Sub, Admission: s.postAdmission(v.who.Sub)}
	seq, ids, err := s.end(ctx, v.topic.ID, p, func(seq uint64) topic.Ending { return topic.EndingOf(v.topic.Topic, fact, seq) })
	if err != nil {
		return nil, err
	}
	n, err := s.countMessages(ctx, v.topic, back.GetToSeq(), seq)
	return &conversationv1.RollbackTopicResponse{CancelledTaskIds: ids, MessageCount: n}, err
}

// countMessages returns how many messages there are between two seqs that had not been rolled back before.
func (s *Topics) countMessages(ctx context.Context, before *journal.Topic, from, to uint64) (n uint32, err error) {
	q := journal.MessageQuery{TopicID: before.ID, From: from, OldestFirst: true, RolledBack: true, Limit: 1000, MaxBytes: pageBytes}
	for {
		found, err := s.Journal.Messages(ctx, q)
		if err != nil {
			return 0, apiError(err, topicNotFound(before.ID))
		}
		for _, m := range found.Messages {
			if q.From = m.Seq; m.Seq < to && !before.RolledBack(m.Seq) {
				n++
			}
		}
		if !found.More || q.From >= to {
			return n, nil
		}
	}
}
