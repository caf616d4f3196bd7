package engine

import (
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/view"
)

// roundLimit is how many earlier questions and answers of a conversation a planner reads (A1).
const roundLimit = 3

// rounds loads the newest questions of the conversation that were answered before this task.
func (o *owner) rounds() ([]*plannerv1.Round, error) {
	if o.head.GetConversationId() == "" {
		return nil, nil
	}
	page, err := o.e.deps.Journal.List(o.ctx, journal.Query{
		User: o.head.GetUserSub(), ConversationID: o.head.GetConversationId(), Before: o.id, Limit: roundLimit,
		Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS},
	})
	if err != nil {
		return nil, err
	}
	var rounds []*plannerv1.Round
	for i := len(page.Tasks) - 1; i >= 0; i-- {
		t := page.Tasks[i]
		rs, err := o.e.deps.Journal.Records(o.ctx, t.ID, t.Checkpoint.GetLastSeq()-1, loadBytes)
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, &plannerv1.Round{Question: t.Head.GetGoal(), Answer: view.FullAnswer(rs)})
	}
	return rounds, nil
}
