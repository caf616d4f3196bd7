package topic

import (
	"slices"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Ending selects the tasks that a fact of a topic ends.
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
		for _, p := range agentsOf(t) { // the tasks of other agents ended when these left
			if !slices.Contains(e.Owners, p.GetAddedBy()) {
				e.Owners = append(e.Owners, p.GetAddedBy())
			}
		}
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
