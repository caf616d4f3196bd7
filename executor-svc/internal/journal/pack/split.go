package pack

import (
	"google.golang.org/protobuf/encoding/protowire"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// split writes the fields of a checkpoint to where they go. Those of the state are in that; name, risk, grants, unknown calls
// and reasons are notes, which hardly ever change; all others are hot. A field keeps its place for ever.
func (p *Checkpoint) split(c *storagev1.Checkpoint, facts Facts) error {
	hot, notes := wire{b: p.hot[:0]}, wire{b: p.notes[:0]}
	p.cuts = p.cuts[:0]
	p.writeHot(&hot, c, facts)
	writeNotes(&notes, c)
	p.hot, p.notes = hot.b, notes.b
	if hot.err != nil {
		return hot.err
	}
	if notes.err != nil {
		return notes.err
	}
	return p.splitUnknown(c.ProtoReflect().GetUnknown())
}

func (p *Checkpoint) writeHot(w *wire, c *storagev1.Checkpoint, facts Facts) {
	w.number(3, uint64(c.GetPhase()))
	w.number(6, uint64(c.GetStepCount()))
	w.number(7, uint64(c.GetErrorCount()))
	for _, s := range c.GetActiveSteps() {
		p.writeStep(w, s, facts)
	}
	messages(w, 9, c.GetWaits())
	w.number(10, uint64(c.GetWaitCount()))
	w.flag(11, c.GetCancelRequested())
	w.number(14, c.GetFlowStartSeq())
	w.number(15, uint64(c.GetUpdateTime()))
	w.number(16, uint64(c.GetEndTime()))
	w.usage(17, c.GetUsage())
	w.number(19, uint64(c.GetAnswerCount()))
	w.number(20, c.GetAnswerBytes())
	w.flag(22, c.GetPauseRequested())
	w.number(23, uint64(c.GetPausedPhase()))
	w.number(26, uint64(c.GetReservedModelCalls()))
	w.number(27, uint64(c.GetTakeups()))
	w.number(28, uint64(c.GetRunTime()))
	w.number(29, uint64(c.GetRunSince()))
}

func writeNotes(w *wire, c *storagev1.Checkpoint) {
	w.text(4, c.GetName())
	w.risk(5, c.GetRisk())
	w.text(12, c.GetCancelReason())
	w.errorNote(18, c.GetError())
	w.text(21, c.GetCutShort())
	messages(w, 24, c.GetGrants())
	for _, b := range c.GetUnknownCalls() {
		w.b = protowire.AppendBytes(protowire.AppendTag(w.b, 25, protowire.BytesType), b)
	}
}

// writeStep cuts description and input out of an active step where a fact holds them.
func (p *Checkpoint) writeStep(w *wire, s *storagev1.ActiveStep, facts Facts) {
	at, first := w.begin(8), len(p.cuts)
	w.number(1, uint64(s.GetOrdinal()))
	w.text(2, s.GetToolId())
	w.text(3, s.GetDescription())
	if d := s.GetDescription(); len(d) >= shortest {
		p.cutText(len(w.b), len(d), facts.Begun(s.GetOrdinal(), d))
	}
	w.number(4, uint64(s.GetStatus()))
	w.number(5, uint64(s.GetOutcome()))
	w.number(6, uint64(s.GetAttempt()))
	w.text(7, s.GetInputJson())
	if in := s.GetInputJson(); len(in) >= shortest && s.GetInputSeq() != 0 && facts.HasInput(s.GetInputSeq(), in) {
		p.cutText(len(w.b), len(in), s.GetInputSeq())
	}
	w.number(8, uint64(s.GetEffect()))
	w.flag(9, s.GetIdempotent())
	w.number(10, uint64(s.GetRiskFloor()))
	w.text(11, s.GetDefinitionHash())
	w.risk(12, s.GetRisk())
	w.errorNote(13, s.GetError())
	if s.GetSupplied() != nil {
		w.message(15, s.GetSupplied())
	}
	w.text(16, s.GetSubtaskId())
	w.bytes(17, s.GetApprovedHash())
	w.number(18, s.GetInputSeq())
	w.number(19, s.GetConfigRevision())
	w.text(20, s.GetPoolId())
	w.number(21, uint64(s.GetLeg()))
	w.text(22, s.GetMcpTaskId())
	w.text(23, s.GetRequestState())
	messages(w, 24, s.GetAnswers())
	w.flag(25, s.GetAnswersSent())
	messages(w, 26, s.GetAccepted())
	w.number(27, uint64(s.GetPlannedRisk()))
	w.flag(28, s.GetRepeated())
	w.rest(s)
	moved := w.end(at)
	for i := range p.cuts[first:] {
		p.cuts[first+i].from += moved
		p.cuts[first+i].to += moved
	}
}

// cutText cuts out a text that ends there, where a fact holds it.
func (p *Checkpoint) cutText(to, size int, seq uint64) {
	if seq != 0 {
		p.cuts = append(p.cuts, cut{from: to - size, to: to, how: cutText, ref: seq})
	}
}

// splitUnknown puts the fields that this program does not know where they would be if it did. One of a known number has
// another wire type.
func (p *Checkpoint) splitUnknown(rest []byte) error {
	for len(rest) > 0 {
		num, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if isNote(num) {
			p.notes = append(p.notes, rest[:n]...)
		} else {
			p.hot = append(p.hot, rest[:n]...)
		}
		rest = rest[n:]
	}
	return nil
}

func isNote(num protowire.Number) bool {
	switch num {
	case 4, 5, 12, 18, 21, 24, 25:
		return true
	}
	return false
}
