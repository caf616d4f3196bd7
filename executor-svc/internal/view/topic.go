package view

import (
	"encoding/base64"
	"strconv"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Topic derives the API's topic from a stored one.
func Topic(t *journal.Topic) *conversationv1.Topic {
	out := &conversationv1.Topic{
		Id: t.ID, DisplayName: t.GetDisplayName(), Description: t.GetDescription(), Archived: t.GetArchived(), LastSeq: t.State.GetLastSeq(),
		CreateTime: timestamp(t.GetCreateTime()), ActiveTime: timestamp(t.State.GetActiveTime()), Etag: strconv.FormatUint(t.GetRev(), 10),
	}
	for _, p := range t.GetParticipants() {
		out.Participants = append(out.Participants, Participant(p))
	}
	return out
}

// Participant derives a participant.
func Participant(p *storagev1.Participant) *conversationv1.Participant {
	out := &conversationv1.Participant{
		Name: p.GetName(), Role: p.GetRole(), DisplayName: p.GetDisplayName(), AvatarUrl: p.GetAvatarUrl(), AddedBy: p.GetAddedBy(),
		CreateTime: timestamp(p.GetCreateTime()),
	}
	if p.GetAgentId() != "" {
		out.Who = &conversationv1.Participant_AgentId{AgentId: p.GetAgentId()}
	} else {
		out.Who = &conversationv1.Participant_UserSub{UserSub: p.GetUserSub()}
	}
	return out
}

// Message derives a message.
func Message(topicID string, m *journal.TopicMessage) *conversationv1.Message {
	out := &conversationv1.Message{
		Id: m.GetId(), TopicId: topicID, Seq: m.Seq, Sender: m.GetSender(), FromAgent: m.GetFromAgent(), Text: m.GetText(), Ext: toStruct(m.GetExtJson()),
		ReplyTo: m.GetReplyTo(), Mentions: m.GetMentions(), CreateTime: timestamp(m.Time), TaskId: m.TaskID, RolledBack: m.RolledBack,
		Wait: waitNote(m.GetWait()), AnsweredWaitId: m.GetAnsweredWaitId(),
	}
	for _, media := range m.GetMedia() {
		data, _ := base64.StdEncoding.DecodeString(media.GetDataBase64())
		out.Media = append(out.Media, &conversationv1.Media{Type: media.GetType(), MimeType: media.GetMimeType(), Url: media.GetUrl(), Data: data, Name: media.GetName()})
	}
	return out
}

func waitNote(w *storagev1.WaitNote) *executorv1.Wait {
	if w == nil {
		return nil
	}
	return &executorv1.Wait{
		Id: w.GetId(), Kind: w.GetKind(), StepId: w.GetStepId(), ToolId: w.GetToolId(), Message: w.GetMessage(), Risk: risk(w.GetRisk()),
		InputJson: w.GetInputJson(), Input: toStruct(w.GetInputJson()), ParamsSchemaJson: w.GetParamsSchemaJson(), ParamsSchema: toStruct(w.GetParamsSchemaJson()),
		Hash: w.GetHash(), CreateTime: timestamp(w.GetCreateTime()), Deadline: timestamp(w.GetDeadline()), Url: w.GetUrl(),
	}
}

// TopicEvents derives the events of a record.
func TopicEvents(t *journal.Topic, r journal.TopicRecord) []*conversationv1.TopicEvent {
	events := make([]*conversationv1.TopicEvent, 0, len(r.GetFacts()))
	for i, f := range r.GetFacts() {
		e := &conversationv1.TopicEvent{
			TopicId: t.ID, Seq: r.FirstSeq + uint64(i), CreateTime: timestamp(r.GetTime()), Agent: f.GetAgent(), MessageId: f.GetMessageId(), TaskId: f.GetTaskId(),
		}
		topicPayload(e, t, r, f)
		events = append(events, e)
	}
	return events
}

func topicPayload(e *conversationv1.TopicEvent, t *journal.Topic, r journal.TopicRecord, f *storagev1.TopicFact) {
	switch k := f.GetKind().(type) {
	case *storagev1.TopicFact_Message:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_NEW_MESSAGE
		e.Event = &conversationv1.TopicEvent_NewMessage{NewMessage: Message(t.ID, &journal.TopicMessage{
			Seq: e.GetSeq(), Time: r.GetTime(), TaskID: f.GetTaskId(), RolledBack: t.RolledBack(e.GetSeq()), TopicMessage: k.Message,
		})}
	case *storagev1.TopicFact_RolledBack:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_MESSAGES_ROLLED_BACK
		e.Event = &conversationv1.TopicEvent_MessagesRolledBack{MessagesRolledBack: &conversationv1.MessagesRolledBack{
			ToMessageId: k.RolledBack.GetToMessageId(), ToSeq: k.RolledBack.GetToSeq(), By: k.RolledBack.GetBy(),
		}}
	case *storagev1.TopicFact_TopicUpdated:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_TOPIC_UPDATED
		e.Event = &conversationv1.TopicEvent_TopicUpdated{TopicUpdated: &conversationv1.TopicUpdated{
			DisplayName: k.TopicUpdated.GetDisplayName(), Description: k.TopicUpdated.GetDescription(), Archived: k.TopicUpdated.GetArchived(), By: k.TopicUpdated.GetBy(),
		}}
	case *storagev1.TopicFact_ParticipantUpdated:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_TOPIC_PARTICIPANTS_UPDATED
		e.Event = &conversationv1.TopicEvent_Participant{Participant: Participant(k.ParticipantUpdated)}
	case *storagev1.TopicFact_AgentJoined:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_JOINED
		e.Event = &conversationv1.TopicEvent_Participant{Participant: Participant(k.AgentJoined)}
	case *storagev1.TopicFact_ParticipantLeft:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_PARTICIPANT_LEFT
		e.Event = &conversationv1.TopicEvent_ParticipantLeft{ParticipantLeft: &conversationv1.ParticipantLeft{
			Participant: Participant(k.ParticipantLeft.GetParticipant()), By: k.ParticipantLeft.GetBy(),
		}}
	default:
		agentPayload(e, f)
	}
}

// agentPayload fills an event about an agent's work.
func agentPayload(e *conversationv1.TopicEvent, f *storagev1.TopicFact) {
	switch k := f.GetKind().(type) {
	case *storagev1.TopicFact_AgentReceived:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_RECEIVED
	case *storagev1.TopicFact_AgentDeciding:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_DECIDING
	case *storagev1.TopicFact_AgentDecision:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_DECISION_MADE
		e.Event = &conversationv1.TopicEvent_AgentDecision{AgentDecision: &conversationv1.AgentDecision{
			Kind: k.AgentDecision.GetKind(), Reason: k.AgentDecision.GetReason(), DelegateTo: k.AgentDecision.GetDelegateTo(),
		}}
	case *storagev1.TopicFact_AgentThinking:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_THINKING
	case *storagev1.TopicFact_StreamChunk:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_STREAM_CHUNK
		e.Event = &conversationv1.TopicEvent_StreamChunk{StreamChunk: &conversationv1.StreamChunk{
			ReplyId: k.StreamChunk.GetReplyId(), Offset: k.StreamChunk.GetOffset(), Text: k.StreamChunk.GetText(),
		}}
	case *storagev1.TopicFact_StreamDone:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_STREAM_DONE
		e.Event = &conversationv1.TopicEvent_StreamDone{StreamDone: &conversationv1.StreamDone{
			ReplyId: k.StreamDone.GetReplyId(), Size: k.StreamDone.GetSize(), Error: k.StreamDone.GetError(), Restarts: k.StreamDone.GetRestarts(),
		}}
	case *storagev1.TopicFact_AgentSilent:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_SILENT
		e.Event = &conversationv1.TopicEvent_AgentSilent{AgentSilent: &conversationv1.AgentSilent{Reason: k.AgentSilent}}
	case *storagev1.TopicFact_Process:
		e.Type = conversationv1.TopicEventType_TOPIC_EVENT_TYPE_PROCESS_EVENT
		e.Event = &conversationv1.TopicEvent_ProcessEvent{ProcessEvent: processEvent(e, k.Process)}
	}
}

func processEvent(e *conversationv1.TopicEvent, p *storagev1.ProcessNote) *conversationv1.ProcessEvent {
	return &conversationv1.ProcessEvent{
		Phase: p.GetPhase(), AgentId: p.GetAgentId(), AgentName: p.GetAgentName(), AgentAvatar: p.GetAgentAvatar(), Status: p.GetStatus(), Timestamp: e.GetCreateTime(),
		EventData: &conversationv1.ProcessData{
			TopicId: e.GetTopicId(), MessageId: e.GetMessageId(), CurrentPhase: p.GetPhase(), MsgType: p.GetMsgType(), LlmDecision: p.GetLlmDecision(),
			ProcessSteps: p.GetProcessSteps(), IsComplete: p.GetIsComplete(), Error: p.GetError(),
		},
	}
}
