package api

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/topic"
	"pawl.dev/executor-svc/internal/view"
)

const (
	// maxParticipants bounds the participants of a topic.
	maxParticipants = 100
	// maxName bounds the runes of a participant's name.
	maxName = 64
)

// ListParticipants implements TopicService.
func (s *Topics) ListParticipants(ctx context.Context, req *conversationv1.ListParticipantsRequest) (*conversationv1.ListParticipantsResponse, error) {
	v, err := s.enter(ctx, req.GetTopicId())
	if err != nil {
		return nil, err
	}
	return &conversationv1.ListParticipantsResponse{Participants: view.Topic(v.topic).GetParticipants()}, nil
}

// AddParticipant implements TopicService.
func (s *Topics) AddParticipant(ctx context.Context, req *conversationv1.AddParticipantRequest) (*conversationv1.Participant, error) {
	var added *storagev1.Participant
	_, err := s.change(ctx, req.GetTopicId(), func(v *visit, next *storagev1.Topic) (facts []*storagev1.TopicFact, err error) {
		if err := v.checkOwner(); err != nil {
			return nil, err
		}
		if added, facts, err = s.add(ctx, next, v.who, req.GetParticipant(), time.Now()); err != nil {
			return nil, err
		}
		if len(facts) > 0 {
			err = s.checkBytes(ctx, v)
		}
		return facts, cmp.Or(err, checkHasOwner(next))
	})
	if err != nil {
		return nil, err
	}
	return view.Participant(added), nil
}

// firstParticipants adds the creator of a new topic as its owner, then the participants of the request.
func (s *Topics) firstParticipants(
	ctx context.Context, t *storagev1.Topic, who identity.Principal, others []*conversationv1.Participant, now time.Time,
) (facts []*storagev1.TopicFact, err error) {
	creator := &conversationv1.Participant{}
	others = slices.Clone(others)
	if i := slices.IndexFunc(others, func(p *conversationv1.Participant) bool { return p.GetUserSub() == who.Sub }); i >= 0 {
		creator = proto.CloneOf(others[i])
		others = slices.Delete(others, i, i+1)
	}
	creator.Who, creator.Role = &conversationv1.Participant_UserSub{UserSub: who.Sub}, conversationv1.Role_ROLE_OWNER
	for _, p := range append([]*conversationv1.Participant{creator}, others...) {
		_, added, err := s.add(ctx, t, who, p, now)
		if err != nil {
			return nil, err
		}
		facts = append(facts, added...)
	}
	return facts, nil
}

// add adds a participant to a topic, or changes the one that is the same person or agent. It returns the participant and the facts, which are none if nothing
// changes.
func (s *Topics) add(
	ctx context.Context, t *storagev1.Topic, who identity.Principal, p *conversationv1.Participant, now time.Time,
) (*storagev1.Participant, []*storagev1.TopicFact, error) {
	next := &storagev1.Participant{
		Name: p.GetName(), UserSub: p.GetUserSub(), AgentId: p.GetAgentId(), Role: p.GetRole(), DisplayName: p.GetDisplayName(), AvatarUrl: p.GetAvatarUrl(),
		AddedBy: who.Sub, CreateTime: now.UnixNano(),
	}
	if next.GetAgentId() != "" {
		agent, err := s.tasks.agent(ctx, who.Sub, next.GetAgentId())
		if err != nil {
			return nil, nil, err
		}
		next.Role = conversationv1.Role_ROLE_MEMBER
		if next.GetDisplayName() == "" {
			next.DisplayName = agent.GetDisplayName()
		}
	}
	same := slices.IndexFunc(t.GetParticipants(), func(other *storagev1.Participant) bool {
		return other.GetUserSub() == next.GetUserSub() && other.GetAgentId() == next.GetAgentId() && (next.GetAgentId() == "" || other.GetAddedBy() == who.Sub)
	})
	if same >= 0 {
		return replace(t, same, next)
	}
	if next.GetName() == "" {
		next.Name = defaultName(next.GetUserSub() + next.GetAgentId())
	}
	if next.GetRole() == conversationv1.Role_ROLE_UNSPECIFIED {
		next.Role = conversationv1.Role_ROLE_MEMBER
	}
	if i := slices.IndexFunc(t.GetParticipants(), func(other *storagev1.Participant) bool { return strings.EqualFold(other.GetName(), next.GetName()) }); i >= 0 {
		return nil, nil, errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
			"the topic has a participant %q already; choose another name", t.GetParticipants()[i].GetName())
	}
	if len(t.GetParticipants()) >= maxParticipants {
		return nil, nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"a topic has at most %d participants; remove one first, or create another topic", maxParticipants)
	}
	t.Participants = append(t.Participants, next)
	if next.GetAgentId() != "" {
		return next, []*storagev1.TopicFact{{Agent: next.GetName(), Kind: &storagev1.TopicFact_AgentJoined{AgentJoined: next}}}, nil
	}
	return next, []*storagev1.TopicFact{participantUpdated(next)}, nil
}

// replace changes a participant. Its name stays, because messages refer to it.
func replace(t *storagev1.Topic, i int, next *storagev1.Participant) (*storagev1.Participant, []*storagev1.TopicFact, error) {
	old := t.GetParticipants()[i]
	if next.GetName() != "" && next.GetName() != old.GetName() {
		return nil, nil, errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
			"it participates as %q already, and a name cannot be changed; leave the name out, or remove it first", old.GetName())
	}
	next.Name, next.AddedBy, next.CreateTime = old.GetName(), old.GetAddedBy(), old.GetCreateTime()
	if next.GetRole() == conversationv1.Role_ROLE_UNSPECIFIED {
		next.Role = old.GetRole()
	}
	if proto.Equal(old, next) {
		return old, nil, nil
	}
	t.Participants[i] = next
	return next, []*storagev1.TopicFact{participantUpdated(next)}, nil
}

func participantUpdated(p *storagev1.Participant) *storagev1.TopicFact {
	return &storagev1.TopicFact{Kind: &storagev1.TopicFact_ParticipantUpdated{ParticipantUpdated: p}}
}

// RemoveParticipant implements TopicService.
func (s *Topics) RemoveParticipant(ctx context.Context, req *conversationv1.RemoveParticipantRequest) (*conversationv1.RemoveParticipantResponse, error) {
	var left []*storagev1.TopicFact
	_, err := s.change(ctx, req.GetTopicId(), func(v *visit, next *storagev1.Topic) (facts []*storagev1.TopicFact, err error) {
		p := named(next, req.GetName())
		if p == nil {
			return nil, participantNotFound(req.GetName())
		}
		if p.GetUserSub() != v.who.Sub && (p.GetAgentId() == "" || p.GetAddedBy() != v.who.Sub) {
			if err := v.checkOwner(); err != nil {
				return nil, err
			}
		}
		// An agent acts with the rights of the user who added it, so it leaves with that user.
		leaves := func(other *storagev1.Participant) bool {
			return other == p || p.GetUserSub() != "" && other.GetAgentId() != "" && other.GetAddedBy() == p.GetUserSub()
		}
		for _, other := range next.GetParticipants() {
			if leaves(other) {
				facts = append(facts, &storagev1.TopicFact{Kind: &storagev1.TopicFact_ParticipantLeft{
					ParticipantLeft: &storagev1.ParticipantLeft{Participant: other, By: v.me.GetName()},
				}})
			}
		}
		next.Participants, left = slices.DeleteFunc(next.Participants, leaves), facts
		return facts, checkHasOwner(next)
	})
	if err != nil {
		return nil, err
	}
	for _, f := range left {
		if !journal.EndsTasks(f) {
			continue
		}
		if _, err := s.tasks.CancelChats(ctx, req.GetTopicId(), topic.EndingOf(nil, f, math.MaxUint64)); err != nil {
			return nil, err
		}
	}
	return &conversationv1.RemoveParticipantResponse{}, nil
}

// checkHasOwner refuses a change that leaves a topic without an owner.
func checkHasOwner(t *storagev1.Topic) error {
	if slices.ContainsFunc(t.GetParticipants(), func(p *storagev1.Participant) bool { return p.GetRole() == conversationv1.Role_ROLE_OWNER }) {
		return nil
	}
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_STATE_TRANSITION,
		"the topic would have no owner; make another person the owner first, or archive the topic")
}

// person returns the participant with this user, or nil.
func person(t *storagev1.Topic, user string) *storagev1.Participant {
	return find(t, func(p *storagev1.Participant) bool { return p.GetUserSub() == user && user != "" })
}

// named returns the participant with this name; nil if there is none.
func named(t *storagev1.Topic, name string) *storagev1.Participant {
	return find(t, func(p *storagev1.Participant) bool { return p.GetName() == name })
}

func find(t *storagev1.Topic, is func(*storagev1.Participant) bool) *storagev1.Participant {
	if i := slices.IndexFunc(t.GetParticipants(), is); i >= 0 {
		return t.GetParticipants()[i]
	}
	return nil
}

func participantNotFound(name string) error {
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_PARTICIPANT_NOT_FOUND,
		"the topic has no participant %q; list them with GET /v1/topics/{id}/participants", name)
}

// defaultName makes a participant's name of a user or agent id: characters that a name cannot have become hyphens.
func defaultName(id string) string {
	name := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, id)
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName])
	}
	if name = strings.Trim(name, "._-"); name == "" {
		return "user"
	}
	return name
}
