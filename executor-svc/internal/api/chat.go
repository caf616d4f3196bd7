package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/topic"
)

// chatFlow is the flow of the tasks by which agents answer messages.
const chatFlow = "chat"

var _ topic.Tasks = (*Tasks)(nil)

// openStatuses are the statuses of tasks that have not ended.
var openStatuses = []executorv1.ExecutorStatus{
	executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING, executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING,
}

// CreateChat implements topic.Tasks. The task belongs to the user who added the agent. It does not count as a request of that user: people's posts are bounded
// where they post, and the messages of agents by their number.
func (s *Tasks) CreateChat(ctx context.Context, c topic.Considerer, m *journal.TopicMessage, o journal.Outgoing) (string, error) {
	owner := identity.Principal{Sub: c.Agent.GetAddedBy()}
	req := &executorv1.CreateTaskRequest{
		AgentId: c.Agent.GetAgentId(), ConversationId: c.Chat.GetTopicId(), Goal: m.GetText(),
		RequestId: fmt.Sprintf("topic/%s/%d/%s", c.Chat.GetTopicId(), m.Seq, c.Agent.GetName()),
	}
	switch t, err := s.Journal.FindRequest(ctx, owner.Sub, req.GetRequestId()); {
	case err == nil:
		return t.ID, nil
	case !errors.Is(err, journal.ErrNotFound):
		return "", apiError(err, nil)
	case slices.Contains(o.GetAgents(), c.Agent.GetName()):
		return "", nil
	case c.TooLate != "":
		return "", errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "%s", c.TooLate)
	}
	agent, err := s.agent(ctx, owner.Sub, req.GetAgentId())
	if err != nil {
		return "", err
	}
	settings, _ := topic.ParseSettings(m.GetExtJson()) // as for Considerers
	req.McpIds = settings.Servers
	for _, name := range settings.Models(agent.GetModel()) {
		if _, err := s.check.model(ctx, owner.Sub, name); err == nil {
			req.Model = name
			break
		}
	}
	if _, err := checkFlow(s.Flows, chatFlow); err != nil {
		return "", err
	}
	head := s.head(ctx, owner, req, agent)
	head.Flow, head.Chat = chatFlow, proto.CloneOf(c.Chat)
	head.Turn = "topic/" + c.Chat.GetTopicId() + "/" + c.Agent.GetName()
	head.Chat.Phases = c.Chat.GetPhases() || settings.Phases == nil && agent.GetChatOptions().GetPhases()
	head.Chat.ContextShare = agent.GetChatOptions().GetContextShare()
	if err := s.check.task(ctx, head, req.GetMcpIds()); err != nil {
		return "", err
	}
	if head.RequestHash, err = requestHash(&executorv1.CreateTaskRequest{RequestId: req.GetRequestId()}); err != nil {
		return "", err
	}
	n := s.newTask(head)
	n.Admission.Requests, n.Outgoing = 0, o.No
	id, err := s.Engine.Create(ctx, n)
	if full := (*journal.Full)(nil); errors.As(err, &full) {
		err = errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"the tasks and topics of the agent's owner take all bytes that an operator allows per user (--max-user-bytes); the owner can delete tasks that have ended")
	}
	return id, apiError(err, nil)
}

// CancelChat implements topic.Tasks.
func (s *Tasks) CancelChat(ctx context.Context, id, reason string) error {
	err := s.Engine.Send(ctx, id, &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{Reason: reason}}})
	if errors.Is(err, journal.ErrNotFound) || errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_TASK_ENDED {
		return nil
	}
	return apiError(err, nil)
}

// CancelChats implements topic.Tasks.
func (s *Tasks) CancelChats(ctx context.Context, topicID string, e topic.Ending) ([]string, error) {
	return s.openChats(ctx, topicID, e, func(id string) error { return s.CancelChat(ctx, id, e.Reason) })
}

// openChats calls do for each task of an ending that has not ended, and returns the tasks' ids.
func (s *Tasks) openChats(ctx context.Context, topicID string, e topic.Ending, do func(id string) error) (ids []string, err error) {
	for _, owner := range e.Owners {
		q := journal.Query{User: owner, ConversationID: topicID, Limit: 100, Statuses: openStatuses}
		for more := true; more; {
			page, err := s.Journal.List(ctx, q)
			if err != nil {
				return ids, apiError(err, nil)
			}
			for _, t := range page.Tasks {
				q.Before = t.ID
				if !e.Match(t.Head.GetChat()) {
					continue
				}
				if err := do(t.ID); err != nil {
					return ids, err
				}
				ids = append(ids, t.ID)
			}
			more = page.More
		}
	}
	return ids, nil
}

// answerable loads a task that the caller may resume: one of the caller's own, or one that answers a message of a topic in which the caller may post.
func (s *Tasks) answerable(ctx context.Context, id string) (t *journal.Task, own bool, err error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, false, err
	}
	t, err = s.Journal.Load(ctx, id)
	if err != nil {
		return nil, false, apiError(err, taskNotFound(id))
	}
	if t.Head.GetUserSub() == who.Sub {
		return t, true, nil
	}
	p, err := s.participant(ctx, t.Head.GetChat(), who.Sub)
	if err == nil && !mayPost(p) {
		err = taskNotFound(id)
	}
	return t, false, err
}

// participant returns a user's participant of the topic of a chat; nil if there is none.
func (s *Tasks) participant(ctx context.Context, c *storagev1.Chat, user string) (*storagev1.Participant, error) {
	if c == nil {
		return nil, nil
	}
	t, err := s.Journal.Topic(ctx, c.GetTopicId())
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, apiError(err, nil)
	}
	return person(t.Topic, user), nil
}

// recordAnswer posts to the topic of a task who answered a wait, and how.
func (s *Tasks) recordAnswer(ctx context.Context, t *journal.Task, waitID string, c *storagev1.Command) error {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return err
	}
	p, err := s.participant(ctx, t.Head.GetChat(), who.Sub)
	if err != nil || p == nil {
		return err
	}
	chat := t.Head.GetChat()
	question, err := s.question(ctx, t, waitID)
	if err != nil {
		return err
	}
	_, _, err = s.Journal.Post(ctx, journal.Post{TopicID: chat.GetTopicId(), Now: time.Now(), Facts: []*storagev1.TopicFact{{
		Kind: &storagev1.TopicFact_Message{Message: &storagev1.TopicMessage{
			Id: answerID(t.ID, waitID), Sender: p.GetName(), ReplyTo: question.GetId(), AnsweredWaitId: waitID, Text: answerText(question.GetWait(), c),
		}},
	}}, Answers: chat.GetMessageSeq()})
	if errors.Is(err, journal.ErrNotFound) {
		return nil // the topic was deleted
	}
	return apiError(err, nil)
}

// answerID returns the id of the message that answers a wait, unless its sender chose one.
func answerID(taskID, waitID string) string { return "answer/" + taskID + "/" + waitID }

// question returns the message by which a task asked the question of a wait; nil if the topic has none.
func (s *Tasks) question(ctx context.Context, t *journal.Task, waitID string) (*storagev1.TopicMessage, error) {
	chat := t.Head.GetChat()
	q := journal.MessageQuery{TopicID: chat.GetTopicId(), RolledBack: true, Limit: 100, MaxBytes: pageBytes}
	for {
		page, err := s.Journal.Messages(ctx, q)
		if errors.Is(err, journal.ErrNotFound) {
			return nil, nil // the topic was deleted
		}
		if err != nil {
			return nil, apiError(err, nil)
		}
		for _, m := range page.Messages {
			if q.From = m.Seq; m.TaskID == t.ID && m.GetWait().GetId() == waitID {
				return m.TopicMessage, nil
			}
		}
		if !page.More || q.From <= chat.GetMessageSeq() {
			return nil, nil
		}
	}
}

// maxAnswer bounds the text that describes an answer, in bytes.
const maxAnswer = 1000

// answerText describes the answer to a wait for the topic's participants. w may be nil.
func answerText(w *storagev1.WaitNote, c *storagev1.Command) string {
	var text, detail string
	call := func(input string) string { return w.GetToolId() + " " + input }
	switch k := c.GetKind().(type) {
	case *storagev1.Command_Approve:
		text, detail = "approved", call(cmp.Or(k.Approve.GetInputJson(), w.GetInputJson()))
		if k.Approve.GetGrant() != 0 {
			text = "approved for the rest of the task"
		}
	case *storagev1.Command_Reject:
		text, detail = "rejected", cmp.Or(k.Reject.GetReason(), call(w.GetInputJson()))
	case *storagev1.Command_Params:
		text, detail = "supplied", strings.TrimPrefix(k.Params.GetSupplied().GetContentJson(), "{}")+" "+k.Params.GetSupplied().GetDescription()
	case *storagev1.Command_Outcome:
		switch a := k.Outcome.GetAnswer().(type) {
		case *storagev1.SettleOutcome_Retry:
			text, detail = "to be called again", call(w.GetInputJson())
		case *storagev1.SettleOutcome_OutputJson:
			text, detail = "it was called, with the output", a.OutputJson
		case *storagev1.SettleOutcome_Skip:
			text, detail = "skipped", cmp.Or(a.Skip, call(w.GetInputJson()))
		}
	case *storagev1.Command_Input:
		text, detail = "answered", strings.TrimPrefix(k.Input.GetContentJson(), "{}")
		if a := k.Input.GetAction(); a != executorv1.InputAnswer_ACTION_ACCEPT {
			text = map[executorv1.InputAnswer_Action]string{executorv1.InputAnswer_ACTION_DECLINE: "declined", executorv1.InputAnswer_ACTION_CANCEL: "cancelled"}[a]
		}
	}
	if detail = strings.TrimSpace(detail); detail != "" {
		text += ": " + detail
	}
	if len(text) > maxAnswer {
		text = strings.ToValidUTF8(text[:maxAnswer], "") + "…"
	}
	return text
}
