package topic

import (
	"cmp"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Ending selects the tasks that a fact of a topic or an interruption ends.
type Ending struct {
	// Owners are the users to whom the tasks may belong.
	Owners []string
	Match  func(*storagev1.Chat) bool
	// Reason is why the tasks are cancelled.
	Reason string
}

// EndingOf returns which tasks a fact with this seq ends; see journal.EndsTasks. Tasks of later messages go on.
func EndingOf(t *storagev1.Topic, f *storagev1.TopicFact, seq uint64) (e Ending) {
	if back := f.GetRolledBack(); back != nil {
		e.Owners = journal.AgentOwners(t)
		e.Match = func(c *storagev1.Chat) bool { return c.GetMessageSeq() > back.GetToSeq() && c.GetMessageSeq() < seq }
		e.Reason = "the message was rolled back by " + back.GetBy()
		return e
	}
	p := f.GetParticipantLeft().GetParticipant()
	return Ending{
		Owners: []string{p.GetAddedBy()},
		Match:  func(c *storagev1.Chat) bool { return c.GetAgent() == p.GetName() && c.GetMessageSeq() < seq },
		Reason: "the agent was removed from the topic",
	}
}

// EndingOfInterruption returns which tasks an interruption ends: those of its agent for messages up to its seq, and those by which a process that began with such
// a message goes on.
func EndingOfInterruption(t *storagev1.Topic, i *storagev1.Interruption) (e Ending) {
	for _, p := range agentsOf(t) { // the tasks of an agent that left ended when it left
		if p.GetName() == i.GetAgent() {
			e.Owners = []string{p.GetAddedBy()}
		}
	}
	e.Match = func(c *storagev1.Chat) bool { return c.GetAgent() == i.GetAgent() && began(c) <= i.GetSeq() }
	e.Reason = i.GetReason()
	return e
}

// EndingOfDeletion returns which tasks the deletion of a topic ends. owners are those of its agents.
func EndingOfDeletion(owners []string) Ending {
	return Ending{Owners: owners, Match: func(c *storagev1.Chat) bool { return c != nil }, Reason: "the topic was deleted"}
}

// began returns the seq of the message with which the process of a task began.
func began(c *storagev1.Chat) uint64 { return cmp.Or(c.GetProcessSeq(), c.GetMessageSeq()) }
