package agent

import (
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// beginAnswer starts an answer (A22). After a crash in the middle of one, another is started.
func (m *move) beginAnswer(cutShort string) {
	m.s.Phase = storagev1.Phase_PHASE_ANSWER
	m.s.CutShort = cutShort
	m.openAnswer()
	m.schedule(flow.Answer{CutShort: cutShort})
}

// openAnswer makes the text that follows a new answer.
func (m *move) openAnswer() {
	m.s.AnswerCount++
	m.s.AnswerBytes = 0
}

func (m *move) text(in flow.Text) {
	m.fact(&storagev1.Fact{ToolId: flow.Final, StepStatus: stepRunning, Kind: &storagev1.Fact_TextAdd{
		TextAdd: &storagev1.TextAdd{Answer: m.s.GetAnswerCount(), Offset: m.s.GetAnswerBytes(), Text: in.Text},
	}})
	m.s.AnswerBytes += uint64(len(in.Text))
}

func (m *move) answered(in flow.Answered) {
	m.settleReserve(in.Usage)
	if in.Text != "" {
		m.text(flow.Text{Text: in.Text})
	}
	if in.Err != nil {
		m.fail(in.Err)
		return
	}
	if in.NotReached {
		m.s.Error = &storagev1.ErrorNote{ErrMsg: flow.GoalNotReached, Reason: commonv1.ErrorReason_ERROR_REASON_GOAL_NOT_REACHED}
		m.end(taskFailed, &storagev1.Fact{Kind: &storagev1.Fact_GoalNotReached{
			GoalNotReached: &storagev1.FlowSuccess{FullAnswer: in.FullAnswer, Answer: m.s.GetAnswerCount()},
		}})
		return
	}
	m.end(taskSuccess, &storagev1.Fact{Kind: &storagev1.Fact_FlowSuccess{
		FlowSuccess: &storagev1.FlowSuccess{FullAnswer: in.FullAnswer, Answer: m.s.GetAnswerCount()},
	}})
}
