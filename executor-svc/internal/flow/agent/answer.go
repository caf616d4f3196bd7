package agent

import (
	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// beginAnswer writes the answer (A22). After a crash in the middle of one, a new one is begun.
func (m *move) beginAnswer(cutShort string) {
	m.s.Phase = storagev1.Phase_PHASE_ANSWER
	m.s.CutShort = cutShort
	m.s.AnswerCount++
	m.s.AnswerBytes = 0
	m.run(flow.Answer{CutShort: cutShort})
}

func (m *move) text(in flow.Text) error {
	m.fact(&storagev1.Fact{ToolId: flow.Final, StepStatus: stepRunning, Kind: &storagev1.Fact_TextAdd{
		TextAdd: &storagev1.TextAdd{Answer: m.s.GetAnswerCount(), Offset: m.s.GetAnswerBytes(), Text: in.Text},
	}})
	m.s.AnswerBytes += uint64(len(in.Text))
	return nil
}

func (m *move) answered(in flow.Answered) error {
	m.settleReserve(in.Usage)
	if in.Text != "" {
		if err := m.text(flow.Text{Text: in.Text}); err != nil {
			return err
		}
	}
	if in.Err != nil {
		return m.fail(in.Err)
	}
	return m.end(success, &storagev1.Fact{Kind: &storagev1.Fact_FlowSuccess{
		FlowSuccess: &storagev1.FlowSuccess{FullAnswer: in.FullAnswer, Answer: m.s.GetAnswerCount()},
	}})
}
