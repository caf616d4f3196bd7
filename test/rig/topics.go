package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
)

// Topics has the calls of topics that tests make, over gRPC or REST. Pawl's error responses are returned as *Refused.
type Topics interface {
	CreateTopic(ctx context.Context, req *conversationv1.CreateTopicRequest) (*conversationv1.Topic, error)
	PostMessage(ctx context.Context, req *conversationv1.PostMessageRequest) (*conversationv1.Message, error)
	ListMessages(ctx context.Context, topicID string) (*conversationv1.ListMessagesResponse, error)
	RollbackTopic(ctx context.Context, req *conversationv1.RollbackTopicRequest) (*conversationv1.RollbackTopicResponse, error)
	UpdateTopic(ctx context.Context, t *conversationv1.Topic) (*conversationv1.Topic, error)
	// ArchiveTopic archives a topic, or ends that.
	ArchiveTopic(ctx context.Context, id string, archived bool) (*conversationv1.Topic, error)
	DeleteTopic(ctx context.Context, id, etag string) error
	AddParticipant(ctx context.Context, topicID string, p *conversationv1.Participant) (*conversationv1.Participant, error)
	RemoveParticipant(ctx context.Context, topicID, name string) error
	InterruptAgent(ctx context.Context, topicID, name string) (*conversationv1.InterruptAgentResponse, error)
	// WatchTopic calls each for the events after a seq until it returns false.
	WatchTopic(ctx context.Context, topicID string, after uint64, each func(*conversationv1.TopicEvent) bool) error
}

// GRPCTopics is a client of topics over gRPC.
type GRPCTopics struct {
	topics conversationv1.TopicServiceClient
}

// NewGRPCTopics returns a client over a connection to the executor.
func NewGRPCTopics(conn grpc.ClientConnInterface) GRPCTopics {
	return GRPCTopics{conversationv1.NewTopicServiceClient(conn)}
}

// CreateTopic implements Topics.
func (c GRPCTopics) CreateTopic(ctx context.Context, req *conversationv1.CreateTopicRequest) (*conversationv1.Topic, error) {
	out, err := c.topics.CreateTopic(ctx, req)
	return out, refused(err)
}

// PostMessage implements Topics.
func (c GRPCTopics) PostMessage(ctx context.Context, req *conversationv1.PostMessageRequest) (*conversationv1.Message, error) {
	out, err := c.topics.PostMessage(ctx, req)
	return out, refused(err)
}

// ListMessages implements Topics.
func (c GRPCTopics) ListMessages(ctx context.Context, topicID string) (*conversationv1.ListMessagesResponse, error) {
	out, err := c.topics.ListMessages(ctx, &conversationv1.ListMessagesRequest{TopicId: topicID})
	return out, refused(err)
}

// RollbackTopic implements Topics.
func (c GRPCTopics) RollbackTopic(ctx context.Context, req *conversationv1.RollbackTopicRequest) (*conversationv1.RollbackTopicResponse, error) {
	out, err := c.topics.RollbackTopic(ctx, req)
	return out, refused(err)
}

// UpdateTopic implements Topics.
func (c GRPCTopics) UpdateTopic(ctx context.Context, t *conversationv1.Topic) (*conversationv1.Topic, error) {
	out, err := c.topics.UpdateTopic(ctx, &conversationv1.UpdateTopicRequest{Topic: t})
	return out, refused(err)
}

// ArchiveTopic implements Topics.
func (c GRPCTopics) ArchiveTopic(ctx context.Context, id string, archived bool) (out *conversationv1.Topic, err error) {
	if archived {
		out, err = c.topics.ArchiveTopic(ctx, &conversationv1.ArchiveTopicRequest{Id: id})
	} else {
		mask := &fieldmaskpb.FieldMask{Paths: []string{"archived"}}
		out, err = c.topics.UpdateTopic(ctx, &conversationv1.UpdateTopicRequest{Topic: &conversationv1.Topic{Id: id}, UpdateMask: mask})
	}
	return out, refused(err)
}

// DeleteTopic implements Topics.
func (c GRPCTopics) DeleteTopic(ctx context.Context, id, etag string) error {
	_, err := c.topics.DeleteTopic(ctx, &conversationv1.DeleteTopicRequest{Id: id, Etag: etag})
	return refused(err)
}

// AddParticipant implements Topics.
func (c GRPCTopics) AddParticipant(ctx context.Context, topicID string, p *conversationv1.Participant) (*conversationv1.Participant, error) {
	out, err := c.topics.AddParticipant(ctx, &conversationv1.AddParticipantRequest{TopicId: topicID, Participant: p})
	return out, refused(err)
}

// RemoveParticipant implements Topics.
func (c GRPCTopics) RemoveParticipant(ctx context.Context, topicID, name string) error {
	_, err := c.topics.RemoveParticipant(ctx, &conversationv1.RemoveParticipantRequest{TopicId: topicID, Name: name})
	return refused(err)
}

// InterruptAgent implements Topics.
func (c GRPCTopics) InterruptAgent(ctx context.Context, topicID, name string) (*conversationv1.InterruptAgentResponse, error) {
	out, err := c.topics.InterruptAgent(ctx, &conversationv1.InterruptAgentRequest{TopicId: topicID, Name: name})
	return out, refused(err)
}

// WatchTopic implements Topics.
func (c GRPCTopics) WatchTopic(ctx context.Context, topicID string, after uint64, each func(*conversationv1.TopicEvent) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.topics.WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: topicID, AfterSeq: after})
	for err == nil {
		var e *conversationv1.TopicEvent
		if e, err = stream.Recv(); err == nil && !each(e) {
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return refused(err)
}

// CreateTopic implements Topics.
func (c REST) CreateTopic(ctx context.Context, req *conversationv1.CreateTopicRequest) (*conversationv1.Topic, error) {
	out := &conversationv1.Topic{}
	return out, c.do(ctx, http.MethodPost, "/v1/topics", req, out)
}

// PostMessage implements Topics.
func (c REST) PostMessage(ctx context.Context, req *conversationv1.PostMessageRequest) (*conversationv1.Message, error) {
	out := &conversationv1.Message{}
	body := &conversationv1.PostMessageRequest{Message: req.GetMessage(), Answer: req.GetAnswer()}
	return out, c.do(ctx, http.MethodPost, "/v1/topics/"+req.GetTopicId()+"/messages", body, out)
}

// ListMessages implements Topics.
func (c REST) ListMessages(ctx context.Context, topicID string) (*conversationv1.ListMessagesResponse, error) {
	out := &conversationv1.ListMessagesResponse{}
	return out, c.do(ctx, http.MethodGet, "/v1/topics/"+topicID+"/messages", nil, out)
}

// RollbackTopic implements Topics.
func (c REST) RollbackTopic(ctx context.Context, req *conversationv1.RollbackTopicRequest) (*conversationv1.RollbackTopicResponse, error) {
	out := &conversationv1.RollbackTopicResponse{}
	body := &conversationv1.RollbackTopicRequest{ToMessageId: req.GetToMessageId(), All: req.GetAll()}
	return out, c.do(ctx, http.MethodPost, "/v1/topics/"+req.GetTopicId()+":rollback", body, out)
}

// UpdateTopic implements Topics.
func (c REST) UpdateTopic(ctx context.Context, t *conversationv1.Topic) (*conversationv1.Topic, error) {
	out := &conversationv1.Topic{}
	return out, c.do(ctx, http.MethodPatch, "/v1/topics/"+t.GetId(), &conversationv1.Topic{DisplayName: t.GetDisplayName()}, out)
}

// ArchiveTopic implements Topics.
func (c REST) ArchiveTopic(ctx context.Context, id string, archived bool) (*conversationv1.Topic, error) {
	out := &conversationv1.Topic{}
	if archived {
		return out, c.do(ctx, http.MethodPost, "/v1/topics/"+id+":archive", &conversationv1.ArchiveTopicRequest{}, out)
	}
	return out, c.do(ctx, http.MethodPatch, "/v1/topics/"+id+"?updateMask=archived", &conversationv1.Topic{}, out)
}

// DeleteTopic implements Topics.
func (c REST) DeleteTopic(ctx context.Context, id, etag string) error {
	return c.do(ctx, http.MethodDelete, "/v1/topics/"+id+"?etag="+url.QueryEscape(etag), nil, &conversationv1.DeleteTopicResponse{})
}

// AddParticipant implements Topics.
func (c REST) AddParticipant(ctx context.Context, topicID string, p *conversationv1.Participant) (*conversationv1.Participant, error) {
	out := &conversationv1.Participant{}
	return out, c.do(ctx, http.MethodPost, "/v1/topics/"+topicID+"/participants", p, out)
}

// RemoveParticipant implements Topics.
func (c REST) RemoveParticipant(ctx context.Context, topicID, name string) error {
	return c.do(ctx, http.MethodDelete, "/v1/topics/"+topicID+"/participants/"+name, nil, &conversationv1.RemoveParticipantResponse{})
}

// InterruptAgent implements Topics.
func (c REST) InterruptAgent(ctx context.Context, topicID, name string) (*conversationv1.InterruptAgentResponse, error) {
	out := &conversationv1.InterruptAgentResponse{}
	return out, c.do(ctx, http.MethodPost, "/v1/topics/"+topicID+"/participants/"+name+":interrupt", &conversationv1.InterruptAgentRequest{}, out)
}

// WatchTopic implements Topics, over Server-Sent Events, whose names and ids it checks.
func (c REST) WatchTopic(ctx context.Context, topicID string, after uint64, each func(*conversationv1.TopicEvent) bool) (err error) {
	watched := c.watch(ctx, "/v1/topics/"+topicID+"/events", after, func(e Event) bool {
		event := &conversationv1.TopicEvent{}
		if err = protojson.Unmarshal([]byte(e.Data), event); err != nil {
			return false
		}
		if want := strings.ToLower(strings.TrimPrefix(event.GetType().String(), "TOPIC_EVENT_TYPE_")); e.Name != want || e.ID != fmt.Sprint(event.GetSeq()) {
			err = fmt.Errorf("event %q with id %q: %v", e.Name, e.ID, event)
			return false
		}
		return each(event)
	})
	return cmp.Or(err, watched)
}
