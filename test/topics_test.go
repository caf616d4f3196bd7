package test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/rig"
)

// TestConversations holds a conversation with an agent in every kind of installation, over both protocols.
func TestConversations(t *testing.T) {
	for name, start := range map[string]func(testing.TB, rig.Options) *rig.Target{
		"in-process":     rig.InProcess,
		"pawl-up":        func(t testing.TB, o rig.Options) *rig.Target { return rig.Binary(t, binaries, o) },
		"four-processes": func(t testing.TB, o rig.Options) *rig.Target { return rig.FourProcesses(t, binaries, o) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := start(t, rig.Options{Workspace: workspace(t)})
			agents := rig.NewGRPC(target.Executor)
			for protocol, client := range map[string]rig.Topics{"grpc": rig.NewGRPCTopics(target.Executor), "rest": rig.REST{Base: target.HTTP}} {
				t.Run(protocol, func(t *testing.T) { converse(t, agents, client, "helper-"+protocol) })
			}
		})
	}
}

// converse shows B1, B10, B18 and B19: the reply is streamed to a client that reconnects after each event, a message counts once, and a rollback marks.
func converse(t *testing.T, agents rig.Client, client rig.Topics, agent string) {
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	_, err := agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: agent, Agent: &executorv1.Agent{
		Confirm: executorv1.Confirm_CONFIRM_BY_RISK, McpIds: []string{"workspace"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	topic, err := client.CreateTopic(ctx, &conversationv1.CreateTopicRequest{
		Participants: []*conversationv1.Participant{{Who: &conversationv1.Participant_AgentId{AgentId: agent}}}, RequestId: agent,
	})
	if err != nil {
		t.Fatal(err)
	}
	post := func() *conversationv1.Message {
		m, err := client.PostMessage(ctx, &conversationv1.PostMessageRequest{
			TopicId: topic.GetId(), Message: &conversationv1.Message{Id: "first", Text: "List the files in docs"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := post()
	if again := post(); again.GetSeq() != m.GetSeq() {
		t.Errorf("the second post has seq %d, the first %d", again.GetSeq(), m.GetSeq())
	}
	var reply *conversationv1.Message
	var types []string
	streamed, after := "", m.GetSeq()
	for reply == nil {
		err := client.WatchTopic(ctx, topic.GetId(), after, func(e *conversationv1.TopicEvent) bool {
			if e.GetSeq() != after+1 {
				t.Fatalf("event %d follows event %d", e.GetSeq(), after)
			}
			after = e.GetSeq()
			types = append(types, strings.TrimPrefix(e.GetType().String(), "TOPIC_EVENT_TYPE_"))
			streamed += e.GetStreamChunk().GetText()
			if reply = e.GetNewMessage(); e.GetAgentSilent() != nil {
				t.Fatalf("the agent is silent: %s", e.GetAgentSilent().GetReason())
			}
			return false // reconnect
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"AGENT_RECEIVED", "AGENT_THINKING", "AGENT_STREAM_CHUNK", "AGENT_STREAM_DONE", "NEW_MESSAGE"}
	if d := cmp.Diff(want, slices.Compact(types)); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if reply.GetText() != streamed || !strings.Contains(streamed, "history.md") || reply.GetReplyTo() != "first" || reply.GetSender() != agent {
		t.Errorf("reply: %v; streamed: %q", reply, streamed)
	}
	out, err := client.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: topic.GetId(), ToMessageId: "first"})
	if err != nil || out.GetMessageCount() != 1 {
		t.Errorf("rollback: %v, %v", out, err)
	}
	list, err := client.ListMessages(ctx, topic.GetId())
	if err != nil || len(list.GetMessages()) != 1 || list.GetMessages()[0].GetId() != "first" {
		t.Errorf("messages: %v, %v", list, err)
	}
	var refused *rig.Refused
	_, err = client.ListMessages(ctx, "00000000-0000-7000-8000-000000000000")
	if !errors.As(err, &refused) || refused.Reason != "TOPIC_NOT_FOUND" {
		t.Errorf("a topic that does not exist: %v", err)
	}
}
