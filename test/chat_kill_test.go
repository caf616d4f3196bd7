package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/identity"

	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
)

// TestChatKilled has two people and three agents talk in a topic, with interrupts, delegation, two agents that delegate to each other, and a rollback in the middle
// of a reply, while the executor, the pool and the planner are killed: each message is there once, each agent has answered it once, and no seq is missing (B1, B2, B10, B19).
func TestChatKilled(t *testing.T) {
	each, kills := 50, 5 // messages of each person
	if os.Getenv(soakVariable) == "1" {
		each, kills = 100, 50
	}
	script, err := modeltest.Load(filepath.Join("testdata", "chats", "team.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	model, config := models(t, script, "")
	path, key := keys(t)
	ann, bob := key("ann", identity.RoleUser), key("bob", identity.RoleUser)
	target := rig.FourProcesses(t, binaries, rig.Options{
		Models: config, Workspace: workspace(t), Keys: path, Key: ann, ServiceKey: key("executor", identity.RoleService),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := newTeam(ctx, t, target, map[string]string{"ann": ann, "bob": bob})
	var all sync.WaitGroup
	all.Go(func() { c.watch(ctx) })
	var people sync.WaitGroup
	for n, name := range []string{"ann", "bob"} {
		people.Go(func() { c.talk(ctx, name, each, rand.New(rand.NewPCG(killSeed, uint64(n)))) })
	}
	victims := []string{"executor-svc", "mcppool-svc", "planner-svc"}
	random := rand.New(rand.NewPCG(killSeed, 100))
	for i := range kills {
		c.await(ctx, func() bool { return len(c.posted) >= 2*each*(i+1)/(kills+1) })
		at := c.count() + random.IntN(12)
		c.await(ctx, func() bool { return len(c.events) >= at || c.settledSince(0) })
		if ctx.Err() != nil {
			break
		}
		target.Restart(t, victims[i%len(victims)])
	}
	people.Wait()
	c.await(ctx, func() bool { return c.settledSince(0) })
	c.ended(ctx)
	cancel()
	all.Wait()
	c.check()
	rejected(t, model)
	t.Logf("%d events of %d messages, %d of which were rolled back; %d delegations; %d interrupted; %d reports of failed servers; %d kills",
		len(c.events), len(c.messages), len(c.rolledBack), c.delegations(), c.interrupted(), len(c.reports), kills)
	if len(c.rolledBack) == 0 || c.delegations() == 0 || c.interrupted() == 0 {
		t.Error("the conversation shows too little")
	}
}

// team is a topic with two people and three agents.
type team struct {
	t      *testing.T
	topics map[string]conversationv1.TopicServiceClient // by person
	tasks  executorv1.ExecutorServiceClient             // as ann, the owner of the agents
	id     string

	mu      sync.Mutex // guards the fields below
	changed chan struct{}
	events  []*conversationv1.TopicEvent
	posted  []string // ids of people's messages that are acknowledged
	// messages are all messages by id, and outcomes the final events by "MESSAGE AGENT"; reports counts the reports of failed servers.
	messages map[string]*conversationv1.Message
	outcomes map[string][]*conversationv1.TopicEvent
	reports  map[string]int
	streams  map[string]string
	// rolledBack holds the ids of messages that were rolled back.
	rolledBack map[string]bool
}

var teamAgents = []string{"alice", "bert", "carol"}

func newTeam(ctx context.Context, t *testing.T, target *rig.Target, keys map[string]string) *team {
	t.Helper()
	c := &team{
		t: t, topics: map[string]conversationv1.TopicServiceClient{}, tasks: executorv1.NewExecutorServiceClient(target.Executor), changed: make(chan struct{}),
		messages: map[string]*conversationv1.Message{}, outcomes: map[string][]*conversationv1.TopicEvent{}, reports: map[string]int{}, streams: map[string]string{},
		rolledBack: map[string]bool{},
	}
	for name, key := range keys {
		c.topics[name] = conversationv1.NewTopicServiceClient(rig.Dial(t, target.Executor.Target(), key))
	}
	req := &conversationv1.CreateTopicRequest{Participants: []*conversationv1.Participant{{Who: &conversationv1.Participant_UserSub{UserSub: "bob"}}}}
	for _, name := range teamAgents {
		agent := &executorv1.Agent{Confirm: executorv1.Confirm_CONFIRM_BY_RISK, Model: "gpt", McpIds: []string{"workspace"}}
		if _, err := executorv1.NewAgentServiceClient(target.Executor).CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: name, Agent: agent}); err != nil {
			t.Fatal(err)
		}
		req.Participants = append(req.Participants, &conversationv1.Participant{Who: &conversationv1.Participant_AgentId{AgentId: name}})
	}
	topic, err := c.topics["ann"].CreateTopic(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	c.id = topic.GetId()
	return c
}

// again repeats a request until no process is down.
func (c *team) again(ctx context.Context, do func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		if code := status.Code(err); code != codes.Unavailable && code != codes.Canceled && code != codes.DeadlineExceeded {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// update changes the fields below mu, and wakes await.
func (c *team) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until done returns true, which is called with mu held.
func (c *team) await(ctx context.Context, done func() bool) {
	for {
		c.mu.Lock()
		ok, changed := done(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (c *team) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.events)
}

// settledSince reports whether all agents are done with the posted messages after the first n, and with what they delegated.
func (c *team) settledSince(n int) bool {
	for _, id := range c.posted[max(0, n):] {
		if c.messages[id] == nil {
			return false
		}
		for _, agent := range teamAgents {
			if !c.rolledBack[id] && len(c.outcomes[id+" "+agent]) == 0 && c.reports[id+" "+agent] == 0 {
				return false
			}
		}
	}
	return true
}

// words are what people write; mentions decide who answers.
var words = []string{"note", "note", "@bert ask", "ask", "count", "loop", "@carol read", "what", "@carol long"}

// talk lets a person post messages, at most 3 at a time, and sometimes post one again or interrupt an agent. bob rolls back a long reply while it is written.
func (c *team) talk(ctx context.Context, name string, n int, random *rand.Rand) {
	for i := range n {
		word := words[random.IntN(len(words))]
		if name == "bob" && i == n/2 {
			word = "@carol long"
		}
		id := fmt.Sprintf("%s-%d", name, i+1)
		m := &conversationv1.Message{Id: id, Text: word + " " + id}
		for range 1 + random.IntN(5)/4 {
			err := c.again(ctx, func() error {
				_, err := c.topics[name].PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: c.id, Message: m})
				return err
			})
			if err != nil {
				c.t.Errorf("%s posts: %v", name, err)
				return
			}
		}
		c.update(func() { c.posted = append(c.posted, id) })
		if random.IntN(10) == 0 {
			agent := teamAgents[random.IntN(len(teamAgents))]
			err := c.again(ctx, func() error {
				_, err := c.topics[name].InterruptAgent(ctx, &conversationv1.InterruptAgentRequest{TopicId: c.id, Name: agent})
				return err
			})
			if err != nil {
				c.t.Errorf("%s interrupts %s: %v", name, agent, err)
			}
		}
		if name == "bob" && i == n/2 {
			c.rollBack(ctx, id)
		}
		c.await(ctx, func() bool { return c.settledSince(len(c.posted)-3) || c.settledSince(0) })
	}
}

// rollBack rolls the topic back to the message before a long reply, of which a piece was shown.
func (c *team) rollBack(ctx context.Context, id string) {
	to := ""
	c.await(ctx, func() bool {
		for _, e := range c.events {
			if m := e.GetNewMessage(); m != nil && m.GetId() != id && c.messages[id] != nil && e.GetSeq() < c.messages[id].GetSeq() && !c.rolledBack[m.GetId()] {
				to = m.GetId()
			}
			if e.GetMessageId() == id && (e.GetStreamChunk() != nil || e.GetAgentSilent() != nil && e.GetAgent() == "carol") {
				return true
			}
		}
		return false
	})
	err := c.again(ctx, func() error {
		_, err := c.topics["bob"].RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: c.id, ToMessageId: to, All: to == ""})
		return err
	})
	if err != nil {
		c.t.Errorf("bob rolls back to %q: %v", to, err)
	}
}

// watch follows the topic over all restarts.
func (c *team) watch(ctx context.Context) {
	for ctx.Err() == nil {
		after := uint64(c.count())
		_ = c.again(ctx, func() error {
			stream, err := c.topics["bob"].WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: c.id, AfterSeq: after})
			for err == nil {
				var e *conversationv1.TopicEvent
				if e, err = stream.Recv(); err == nil {
					if after++; e.GetSeq() != after {
						c.t.Errorf("event %d is shown as number %d", e.GetSeq(), after)
					}
					c.update(func() { c.event(e) })
				}
			}
			return err
		})
	}
}

// event takes in an event. mu is held.
func (c *team) event(e *conversationv1.TopicEvent) {
	c.events = append(c.events, e)
	about := e.GetMessageId() + " " + e.GetAgent()
	switch {
	case e.GetNewMessage() != nil:
		m := e.GetNewMessage()
		if c.messages[m.GetId()] != nil {
			c.t.Errorf("the message %s is there twice", m.GetId())
		}
		c.messages[m.GetId()] = m
		if m.GetRolledBack() {
			c.rolledBack[m.GetId()] = true
		}
		switch {
		case !m.GetFromAgent():
		case m.GetExt().GetFields()["mcp_error"] != nil:
			c.reports[about]++
		default:
			c.outcomes[about] = append(c.outcomes[about], e)
			if text, streamed := c.streams[m.GetId()]; streamed && text != m.GetText() {
				c.t.Errorf("%s is %q, and was shown as %q", m.GetId(), m.GetText(), text)
			}
		}
	case e.GetMessagesRolledBack() != nil:
		for id, m := range c.messages {
			if m.GetSeq() > e.GetMessagesRolledBack().GetToSeq() {
				c.rolledBack[id] = true
			}
		}
	case e.GetStreamChunk() != nil:
		k := e.GetStreamChunk()
		if text := c.streams[k.GetReplyId()]; uint64(len(text)) != k.GetOffset() {
			c.t.Errorf("a piece of %s begins at %d instead of %d", k.GetReplyId(), k.GetOffset(), len(text))
		}
		c.streams[k.GetReplyId()] += k.GetText()
	case e.GetAgentSilent() != nil, e.GetStreamDone().GetError() != "" && !strings.Contains(e.GetStreamDone().GetError(), "begins again"):
		c.outcomes[about] = append(c.outcomes[about], e)
	}
}

// ended waits until no task of the topic is left.
func (c *team) ended(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		open := 0
		err := c.again(ctx, func() error {
			list, err := c.tasks.ListTasks(ctx, &executorv1.ListTasksRequest{ConversationId: c.id, PageSize: 100, Statuses: []executorv1.ExecutorStatus{
				executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING, executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING,
			}})
			open = len(list.GetTasks())
			return err
		})
		if err == nil && open == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Errorf("%d tasks do not end: %v; unanswered: %v", open, err, c.unanswered())
			return
		}
	}
}

// unanswered returns the messages that an agent has not settled.
func (c *team) unanswered() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.posted {
		for _, agent := range teamAgents {
			if about := id + " " + agent; !c.rolledBack[id] && len(c.outcomes[about]) == 0 && c.reports[about] == 0 {
				all = append(all, about)
			}
		}
	}
	return all
}

// delegations counts the messages that one agent wrote for another.
func (c *team) delegations() (n int) {
	for _, m := range c.messages {
		if m.GetFromAgent() && strings.HasPrefix(m.GetText(), "@") {
			n++
		}
	}
	return n
}

// interrupted counts the answers that a person interrupted, also by a rollback.
func (c *team) interrupted() (n int) {
	for _, all := range c.outcomes {
		for _, e := range all {
			if strings.HasPrefix(e.GetAgentSilent().GetReason()+e.GetStreamDone().GetError(), "interrupted") {
				n++
			}
		}
	}
	return n
}

// check reads the topic once more, and checks what there is.
func (c *team) check() {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	stream, err := c.topics["ann"].WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: c.id, NoFollow: true})
	n := 0
	for ; err == nil; n++ {
		var e *conversationv1.TopicEvent
		if e, err = stream.Recv(); err != nil {
			break
		}
		if len(c.events) == n {
			c.event(e) // it came after the watch
		}
		if seen := c.events[n]; e.GetNewMessage() == nil && !proto.Equal(seen, e) {
			c.t.Errorf("event %d was shown as %v and is %v", n+1, seen, e)
		}
	}
	if !errors.Is(err, io.EOF) || n != len(c.events) {
		c.t.Errorf("%d of %d events can be read: %v", n, len(c.events), err)
	}
	if left := c.unanswered(); len(left) > 0 {
		c.t.Errorf("nobody has answered %v", left)
	}
	last := map[string]uint64{}
	for _, id := range c.posted {
		m := c.messages[id]
		if m == nil || m.GetSeq() <= last[m.GetSender()] {
			c.t.Errorf("%s is %v, after seq %d", id, m, last[m.GetSender()])
			continue
		}
		last[m.GetSender()] = m.GetSeq()
	}
	people := 0
	for _, m := range c.messages {
		if !m.GetFromAgent() {
			people++
		}
		if to := m.GetReplyTo(); to != "" && c.rolledBack[to] && !c.rolledBack[m.GetId()] {
			c.t.Errorf("%s counts, although %s was rolled back", m.GetId(), to)
		}
	}
	if people != len(c.posted) {
		c.t.Errorf("there are %d messages of people, %d were posted", people, len(c.posted))
	}
	for about, all := range c.outcomes {
		if len(all) > 1 {
			c.t.Errorf("%s was answered %d times: %v", about, len(all), all)
		}
	}
	for id, m := range c.messages {
		if m.GetFromAgent() && strings.HasPrefix(m.GetText(), "@") {
			to := strings.TrimPrefix(strings.Fields(m.GetText())[0], "@")
			if len(c.outcomes[id+" "+to]) != 1 && !c.rolledBack[id] {
				c.t.Errorf("%s was delegated to %s, which answered it %d times", m.GetText(), to, len(c.outcomes[id+" "+to]))
			}
		}
	}
}
