package agent

import (
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// beginAnswer starts an answer. After a crash in the middle of an answer, the next owner starts another.
func (d *draft) beginAnswer(cutShort string) {
	d.state.Phase = storagev1.Phase_PHASE_ANSWER
	d.state.CutShort = cutShort
	d.openAnswer()
	d.schedule(flow.Answer{CutShort: cutShort})
}

// openAnswer numbers a new answer, to which the following text belongs.
func (d *draft) openAnswer() {
	d.state.AnswerCount++
	d.state.AnswerBytes = 0
}

// text records a piece of the answer.
func (d *draft) text(in flow.Text) {
	d.addFact(&storagev1.Fact{ToolId: flow.Final, StepStatus: stepRunning, Kind: &storagev1.Fact_TextAdd{
		TextAdd: &storagev1.TextAdd{Answer: d.state.GetAnswerCount(), Offset: d.state.GetAnswerBytes(), Text: in.Text},
	}})
	d.state.AnswerBytes += uint64(len(in.Text))
}

func (d *draft) answered(in flow.Answered) {
	d.settleReservation(in.Usage)
	if in.Text != "" {
		d.text(flow.Text{Text: in.Text})
	}
	if in.Err != nil {
		d.failTask(in.Err)
		return
	}
	if in.NotReached {
		d.state.Error = &storagev1.ErrorNote{
			ErrMsg: "the goal was not reached; the answer says what is missing", Reason: commonv1.ErrorReason_ERROR_REASON_GOAL_NOT_REACHED,
		}
		if in.CutShort != "" {
			d.state.Error.ErrMsg += ". " + in.CutShort
		}
		d.endTask(taskFailed, &storagev1.Fact{Kind: &storagev1.Fact_GoalNotReached{
			GoalNotReached: &storagev1.FlowSuccess{FullAnswer: in.FullAnswer, Answer: d.state.GetAnswerCount()},
		}})
		return
	}
	d.endTask(taskSuccess, &storagev1.Fact{Kind: &storagev1.Fact_FlowSuccess{
		FlowSuccess: &storagev1.FlowSuccess{FullAnswer: in.FullAnswer, Answer: d.state.GetAnswerCount()},
	}})
}
