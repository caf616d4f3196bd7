package topic

import (
	"fmt"
	"slices"
	"strings"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	// MaxPassedBy is how many agents may pass a conversation on after a person wrote.
	MaxPassedBy = 5
	// MaxRounds is how many messages an agent's process may post to itself.
	MaxRounds = 10
)

// Considerer is an agent that considers a message.
type Considerer struct {
	Agent *storagev1.Participant
	// Chat describes the task. Chat.Phases is set only if the message says so; otherwise it depends on the agent.
	Chat *storagev1.Chat
	// Refused is why the agent does not consider a message that is meant for it; empty if it does.
	Refused string
	// TooLate is why no task is created although none was created earlier; empty if one is.
	TooLate string
}

// Considerers returns the agents of a topic that consider a message, in the order in which they were added. A person's message is considered by all: those
// that are mentioned respond, and so does the agent of a private topic; the others decide. An agent's message is considered only by the agent to whom it is
// delegated, who decides if it can delegate it further, by the agent itself if it is a step of the agent's own process, or, with auto_trigger, by the agents that it mentions, else by all others.
func Considerers(topicID string, t *storagev1.Topic, m *journal.TopicMessage) []Considerer {
	if m.RolledBack || m.GetWait() != nil || m.GetAnsweredWaitId() != "" {
		return nil
	}
	s, _ := ParseSettings(m.GetExtJson()) // PostMessage refuses what cannot be read; a flow writes only what can
	c := consideration{topicID: topicID, topic: t, message: m, settings: s}
	if m.GetFromAgent() {
		return c.agents()
	}
	mentioned, private := Mentioned(t, m.TopicMessage), isPrivate(t)
	var out []Considerer
	for _, p := range agentsOf(t) {
		chat := c.chat(p, nil)
		chat.Decide = !private && !slices.Contains(mentioned, p.GetName())
		chat.Call = s.Call
		out = append(out, Considerer{Agent: p, Chat: chat})
	}
	return out
}

type consideration struct {
	topicID  string
	topic    *storagev1.Topic
	message  *journal.TopicMessage
	settings Settings
}

// agents returns the agents that consider an agent's message.
func (c consideration) agents() []Considerer {
	m := c.message
	switch {
	case c.settings.MCPError:
		return nil // the task that reports the error also explains it
	case c.settings.Call != nil:
		return c.itself()
	case m.GetDelegateTo() != "":
		return c.others(func(p *storagev1.Participant) bool { return p.GetName() == m.GetDelegateTo() })
	case !c.settings.AutoTrigger:
		return nil
	}
	if mentioned := Mentioned(c.topic, m.TopicMessage); len(mentioned) > 0 {
		return c.others(func(p *storagev1.Participant) bool { return slices.Contains(mentioned, p.GetName()) })
	}
	return c.others(func(p *storagev1.Participant) bool { return !slices.Contains(c.passedBy(), p.GetName()) })
}

// itself returns the sender, whose process continues with its own message.
func (c consideration) itself() []Considerer {
	for _, p := range agentsOf(c.topic) {
		if p.GetName() != c.message.GetSender() {
			continue
		}
		chat := c.chat(p, c.message.GetPassedBy())
		chat.Call, chat.Phases = c.settings.Call, true
		out := Considerer{Agent: p, Chat: chat}
		if chat.GetRounds() > MaxRounds {
			out.Refused = fmt.Sprintf("it has continued by itself %d times, which is the most; a person has to write", MaxRounds)
		}
		return []Considerer{out}
	}
	return nil
}

// others returns the agents that are meant, with a refusal for those to whom the conversation must not pass.
func (c consideration) others(meant func(*storagev1.Participant) bool) (out []Considerer) {
	by := c.passedBy()
	for _, p := range agentsOf(c.topic) {
		if !meant(p) {
			continue
		}
		o := Considerer{Agent: p, Chat: c.chat(p, by)}
		o.Chat.Decide = c.message.GetDelegateTo() != "" && len(o.Chat.GetOtherAgents()) > 0
		switch {
		case slices.Contains(by, p.GetName()):
			o.Refused = fmt.Sprintf("the conversation has passed it already (%s); a person has to write", strings.Join(by, " → "))
		case len(by) > MaxPassedBy:
			o.Refused = fmt.Sprintf("the conversation has passed %d agents since a person wrote, which is the most (%s); a person has to write",
				MaxPassedBy, strings.Join(by[:MaxPassedBy], " → "))
		}
		out = append(out, o)
	}
	return out
}

// passedBy returns the agents that passed the conversation on, with the sender.
func (c consideration) passedBy() []string {
	by := c.message.GetPassedBy()
	if slices.Contains(by, c.message.GetSender()) {
		return by
	}
	return append(slices.Clip(by), c.message.GetSender())
}

func (c consideration) chat(p *storagev1.Participant, passedBy []string) *storagev1.Chat {
	m := c.message
	chat := &storagev1.Chat{
		TopicId: c.topicID, MessageId: m.GetId(), MessageSeq: m.Seq, Agent: p.GetName(), AgentName: p.GetDisplayName(), AgentAvatar: p.GetAvatarUrl(),
		Sender: m.GetSender(), FromAgent: m.GetFromAgent(), PassedBy: passedBy, Rounds: m.GetRounds(), EarlierTasks: m.GetEarlierTasks(), ProcessSeq: m.GetProcessSeq(),
		Phases: c.settings.Phases != nil && *c.settings.Phases,
	}
	for _, other := range agentsOf(c.topic) {
		if name := other.GetName(); name != p.GetName() && len(passedBy) < MaxPassedBy && !slices.Contains(passedBy, name) {
			chat.OtherAgents = append(chat.OtherAgents, other.GetName())
		}
	}
	return chat
}

// agentsOf returns the agents of a topic.
func agentsOf(t *storagev1.Topic) (agents []*storagev1.Participant) {
	for _, p := range t.GetParticipants() {
		if p.GetAgentId() != "" {
			agents = append(agents, p)
		}
	}
	return agents
}

// isPrivate reports whether a topic has one person and one agent.
func isPrivate(t *storagev1.Topic) bool {
	return len(t.GetParticipants()) == 2 && len(agentsOf(t)) == 1
}
