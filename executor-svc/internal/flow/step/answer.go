package step

import (
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Started records the tools, and the task's name and risk.
func (l Lane) Started(tools *storagev1.ToolsLoaded, name string, risk *storagev1.RiskNote) {
	l.SetStatus(taskRunning)
	l.AddFact(&storagev1.Fact{Kind: &storagev1.Fact_ToolsLoaded{ToolsLoaded: tools}})
	l.Named(name, risk)
}

// Named records the task's name and risk, with which the task starts to run.
func (l Lane) Named(name string, risk *storagev1.RiskNote) {
	l.SetStatus(taskRunning)
	l.Checkpoint.Name, l.Checkpoint.Risk = name, risk
	l.Checkpoint.FlowStartSeq = l.Checkpoint.GetLastSeq() + uint64(len(l.facts)) + 1
	l.AddFact(&storagev1.Fact{Kind: &storagev1.Fact_FlowStart{FlowStart: &storagev1.FlowStart{Name: name, Risk: risk}}})
}

// BeginAnswer lets the planner write the answer. After a crash in the middle of an answer, the next owner starts another.
func (l Lane) BeginAnswer(cutShort string) {
	l.Changed()
	l.Checkpoint.CutShort = cutShort
	l.OpenAnswer()
	l.Ask(storagev1.Phase_PHASE_ANSWER, flow.Answer{CutShort: cutShort})
}

// OpenAnswer numbers a new answer, to which the following text belongs.
func (l Lane) OpenAnswer() {
	l.Checkpoint.AnswerCount++
	l.Checkpoint.AnswerBytes = 0
}

// AddText records a piece of the answer.
func (l Lane) AddText(text string) {
	l.AddFact(&storagev1.Fact{ToolId: flow.Final, StepStatus: stepRunning, Kind: &storagev1.Fact_TextAdd{
		TextAdd: &storagev1.TextAdd{Answer: l.Checkpoint.GetAnswerCount(), Offset: l.Checkpoint.GetAnswerBytes(), Text: text},
	}})
	l.Checkpoint.AnswerBytes += uint64(len(text))
}

// Answered records the rest of the answer and ends the task.
func (l Lane) Answered(in flow.Answered) {
	if in.Text != "" {
		l.AddText(in.Text)
	}
	end := &storagev1.FlowSuccess{FullAnswer: in.FullAnswer, Answer: l.Checkpoint.GetAnswerCount()}
	switch {
	case in.Err != nil:
		l.FailTask(in.Err)
	case in.NotReached:
		e := &storagev1.ErrorNote{
			ErrMsg: "the goal was not reached; the answer says what is missing", Reason: commonv1.ErrorReason_ERROR_REASON_GOAL_NOT_REACHED,
		}
		if in.CutShort != "" {
			e.ErrMsg += ". " + in.CutShort
		}
		l.end(taskFailed, e, &storagev1.Fact{Kind: &storagev1.Fact_GoalNotReached{GoalNotReached: end}})
	default:
		l.end(taskSuccess, nil, &storagev1.Fact{Kind: &storagev1.Fact_FlowSuccess{FlowSuccess: end}})
	}
}
