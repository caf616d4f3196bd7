package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/page"
	"pawl.dev/services/schema"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/topic"
	"pawl.dev/executor-svc/internal/view"
)

const (
	// pageBytes bounds the messages of a page, unless one message is larger.
	pageBytes = 1 << 20
	// maxExtBytes bounds the JSON of a message's ext, and maxMediaBytes the bytes of its media.
	maxExtBytes   = 64 << 10
	maxMediaBytes = 1 << 20
)

// PostMessage implements TopicService.
func (s *Topics) PostMessage(ctx context.Context, req *conversationv1.PostMessageRequest) (*conversationv1.Message, error) {
	v, err := s.enterToPost(ctx, req.GetTopicId())
	if err != nil {
		return nil, err
	}
	if id := req.GetMessage().GetId(); id != "" {
		switch m, err := s.Journal.Message(ctx, v.topic.ID, id); {
		case err == nil:
			return view.Message(v.topic.ID, m), nil
		case !errors.Is(err, journal.ErrNotFound):
			return nil, apiError(err, nil)
		}
	}
	if err := v.checkOpen(); err != nil {
		return nil, err
	}
	m, err := s.newMessage(ctx, v, req.GetMessage())
	if err != nil {
		return nil, err
	}
	if req.GetAnswer() != nil {
		if err = s.answerWait(ctx, v, m, req.GetAnswer()); err != nil {
			return nil, err
		}
	}
	m.Id = cmp.Or(m.GetId(), uuid.Must(uuid.NewV7()).String())
	p := journal.Post{TopicID: v.topic.ID, Now: time.Now(), Facts: []*storagev1.TopicFact{{Kind: &storagev1.TopicFact_Message{Message: m}}}}
	if req.GetAnswer() == nil { // the number of answers is bounded by that of waits
		if err := s.checkBytes(ctx, v); err != nil {
			return nil, err
		}
		p.User, p.Admission = v.who.Sub, s.postAdmission(v.who.Sub)
	}
	if _, _, err = s.Journal.Post(ctx, p); err != nil {
		return nil, apiError(err, topicNotFound(v.topic.ID))
	}
	posted, err := s.message(ctx, v.topic.ID, m.GetId())
	if err != nil {
		return nil, err
	}
	return view.Message(v.topic.ID, posted), nil
}

// postAdmission bounds the messages and rollbacks that a user posts. Those of the local user of an installation without keys are not limited.
func (s *Topics) postAdmission(user string) journal.Admission {
	if user == identity.LocalSub {
		return journal.Admission{}
	}
	return journal.Admission{Now: time.Now(), Requests: s.Posts, Window: s.Window}
}

// checkBytes refuses what adds to a topic whose creator's tasks and topics take too many bytes.
func (s *Topics) checkBytes(ctx context.Context, v *visit) error {
	err := s.Journal.Admit(ctx, v.topic.GetUserSub(), journal.Admission{Bytes: s.UserBytes})
	if full := (*journal.Full)(nil); errors.As(err, &full) && v.topic.GetUserSub() != v.who.Sub {
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"the tasks and topics of the topic's creator take all bytes that an operator allows per user (--max-user-bytes); the creator can delete tasks that have ended")
	}
	return apiError(err, nil)
}

// message loads a message.
func (s *Topics) message(ctx context.Context, topicID, id string) (*journal.TopicMessage, error) {
	m, err := s.Journal.Message(ctx, topicID, id)
	if err != nil {
		return nil, apiError(err, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MESSAGE_NOT_FOUND,
			"the topic has no message %q; list them with GET /v1/topics/{id}/messages", id))
	}
	return m, nil
}

// newMessage checks a person's message and returns it as it is stored; its id may be empty.
func (s *Topics) newMessage(ctx context.Context, v *visit, in *conversationv1.Message) (*storagev1.TopicMessage, error) {
	m := &storagev1.TopicMessage{
		Id: in.GetId(), Sender: v.me.GetName(), Text: in.GetText(), ReplyTo: in.GetReplyTo(), Mentions: in.GetMentions(),
	}
	if in.GetReplyTo() != "" {
		if _, err := s.message(ctx, v.topic.ID, in.GetReplyTo()); err != nil {
			return nil, err
		}
	}
	for _, name := range in.GetMentions() {
		if !slices.ContainsFunc(v.topic.GetParticipants(), func(p *storagev1.Participant) bool { return strings.EqualFold(p.GetName(), name) }) {
			return nil, invalidField("message.mentions", strconv.Quote(name)+" is no participant", "%s", participantNotFound(name).Error())
		}
	}
	var err error
	if m.Media, err = storedMedia(in.GetMedia()); err != nil {
		return nil, err
	}
	if in.GetExt() == nil {
		return m, nil
	}
	if m.ExtJson, err = schema.ExactObject(in.GetExt(), ""); err != nil {
		return nil, err
	}
	if len(m.GetExtJson()) > maxExtBytes {
		return nil, invalidField("message.ext", "too large", "ext takes %d bytes as JSON, and at most %d are allowed; send large data as media", len(m.GetExtJson()), maxExtBytes)
	}
	if _, err := topic.ParseSettings(m.GetExtJson()); err != nil {
		return nil, invalidField("message.ext", err.Error(), "ext cannot be used: %w", err)
	}
	return m, nil
}

func storedMedia(in []*conversationv1.Media) (out []*storagev1.Media, err error) {
	size := 0
	for _, m := range in {
		if (m.GetUrl() == "") == (len(m.GetData()) == 0) {
			return nil, invalidField("message.media", "needs url or data", "each of the media needs either a url or data")
		}
		if size += len(m.GetData()); size > maxMediaBytes {
			return nil, invalidField("message.media", "too large", "the media of a message take at most %d bytes; send the url of a larger file", maxMediaBytes)
		}
		stored := &storagev1.Media{Type: m.GetType(), MimeType: m.GetMimeType(), Url: m.GetUrl(), Name: m.GetName()}
		if len(m.GetData()) > 0 {
			stored.DataBase64 = base64.StdEncoding.EncodeToString(m.GetData())
		}
		out = append(out, stored)
	}
	return out, nil
}

// answerWait answers the wait of the message to which m replies, and completes m. The same answer may be sent again.
func (s *Topics) answerWait(ctx context.Context, v *visit, m *storagev1.TopicMessage, a *conversationv1.WaitAnswer) error {
	if m.GetReplyTo() == "" {
		return invalidField("message.reply_to", "required with an answer", "an answer needs message.reply_to: the message whose wait it answers")
	}
	question, err := s.message(ctx, v.topic.ID, m.GetReplyTo())
	if err != nil {
		return err
	}
	if question.GetWait() == nil {
		return invalidField("message.reply_to", "asks nothing", "the message %q asks nothing; reply to a message that has a wait", m.GetReplyTo())
	}
	resume := &executorv1.ResumeTaskRequest{Id: question.TaskID, WaitId: question.GetWait().GetId()}
	switch a := a.GetAnswer().(type) {
	case *conversationv1.WaitAnswer_Approve:
		resume.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: a.Approve}
	case *conversationv1.WaitAnswer_Reject:
		resume.Answer = &executorv1.ResumeTaskRequest_Reject{Reject: a.Reject}
	case *conversationv1.WaitAnswer_Params:
		resume.Answer = &executorv1.ResumeTaskRequest_Params{Params: a.Params}
	case *conversationv1.WaitAnswer_Outcome:
		resume.Answer = &executorv1.ResumeTaskRequest_Outcome{Outcome: a.Outcome}
	case *conversationv1.WaitAnswer_Input:
		resume.Answer = &executorv1.ResumeTaskRequest_Input{Input: a.Input}
	}
	c, err := command(resume)
	if err != nil {
		return err
	}
	t, err := s.Journal.Load(ctx, question.TaskID)
	if err != nil {
		return apiError(err, taskNotFound(question.TaskID))
	}
	m.AnsweredWaitId, m.Text = resume.GetWaitId(), cmp.Or(m.GetText(), answerText(question.GetWait(), c))
	m.Id = cmp.Or(m.GetId(), answerID(t.ID, resume.GetWaitId())) // an equal answer is not posted twice
	return s.tasks.answer(ctx, t, c, resume.GetWaitId())
}

// ListMessages implements TopicService.
func (s *Topics) ListMessages(ctx context.Context, req *conversationv1.ListMessagesRequest) (*conversationv1.ListMessagesResponse, error) {
	v, err := s.enter(ctx, req.GetTopicId())
	if err != nil {
		return nil, err
	}
	q := journal.MessageQuery{
		TopicID: v.topic.ID, OldestFirst: req.GetOldestFirst(), RolledBack: req.GetIncludeRolledBack(), Limit: int(cmp.Or(req.GetPageSize(), 50)), MaxBytes: pageBytes,
	}
	scope := "messages/" + q.TopicID + "/" + strconv.FormatBool(q.OldestFirst) + "/" + strconv.FormatBool(q.RolledBack)
	from, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if from != nil {
		if q.From, err = strconv.ParseUint(string(from), 10, 64); err != nil || q.From == 0 {
			return nil, badToken()
		}
	}
	found, err := s.Journal.Messages(ctx, q)
	if err != nil {
		return nil, apiError(err, topicNotFound(v.topic.ID))
	}
	out := &conversationv1.ListMessagesResponse{}
	for i := range found.Messages {
		out.Messages = append(out.Messages, view.Message(v.topic.ID, &found.Messages[i]))
	}
	if found.More {
		out.NextPageToken = page.Encode(scope, strconv.AppendUint(nil, found.Messages[len(found.Messages)-1].Seq, 10))
	}
	return out, nil
}
