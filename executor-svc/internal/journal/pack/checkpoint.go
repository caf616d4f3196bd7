package pack

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// State is what stands before a packed checkpoint, so that it is read without unpacking.
type State struct {
	Rev     uint64
	Status  executorv1.ExecutorStatus
	LastSeq uint64
	// Deadline is when the task becomes due by itself, in nanoseconds since 1970; 0: never.
	Deadline int64
	// Notes says that there are some.
	Notes bool
}

// Fields of a checkpoint by where they go: into the state, or into the notes, which hardly ever change. All others are
// hot. A field keeps its place for ever; that of a new one is hot until it is named here.
const (
	fieldRev, fieldStatus, fieldLastSeq = 1, 2, 13

	fieldName, fieldRisk, fieldCancelReason, fieldError = 4, 5, 12, 18
	fieldCutShort, fieldGrants, fieldUnknownCalls       = 21, 24, 25

	fieldActiveSteps, fieldDescription, fieldInput = 8, 3, 7
)

// Checkpoint is a packed checkpoint. Its buffers are used again by the next Pack.
type Checkpoint struct {
	// Hot begins with the State.
	Hot []byte
	// Notes is empty where there are none.
	Notes    []byte
	Payloads []Payload

	wire, hot, notes []byte
	cuts             []cut
}

// Facts knows what records hold already, so that it is not repeated.
type Facts interface {
	// HasInput says whether the fact of a seq holds exactly this input.
	HasInput(seq uint64, input string) bool
	// Begun returns the seq of the fact that began a step with exactly this description; 0 where none is known.
	Begun(ordinal uint32, description string) uint64
}

// Pack packs c.
func (p *Checkpoint) Pack(c *storagev1.Checkpoint, deadline int64, facts Facts) error {
	var err error
	if p.wire, err = (proto.MarshalOptions{}).MarshalAppend(p.wire[:0], c); err != nil {
		return err
	}
	p.hot, p.notes, p.cuts = p.hot[:0], p.notes[:0], p.cuts[:0]
	step := 0
	for rest := p.wire; len(rest) > 0; {
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return protowire.ParseError(n)
		}
		value := protowire.ConsumeFieldValue(num, typ, rest[n:])
		if value < 0 {
			return protowire.ParseError(value)
		}
		field := rest[:n+value]
		rest = rest[n+value:]
		// A field of another wire type is one that this program does not know.
		switch {
		case typ == protowire.VarintType && (num == fieldRev || num == fieldStatus || num == fieldLastSeq):
		case isNote(num):
			p.notes = append(p.notes, field...)
		default:
			if num == fieldActiveSteps && typ == protowire.BytesType {
				p.cutStep(c.GetActiveSteps()[step], field, facts)
				step++
			}
			p.hot = append(p.hot, field...)
		}
	}
	p.finish(c, deadline)
	return nil
}

func isNote(num protowire.Number) bool {
	switch num {
	case fieldName, fieldRisk, fieldCancelReason, fieldError, fieldCutShort, fieldGrants, fieldUnknownCalls:
		return true
	}
	return false
}

// cutStep cuts description and input out of an active step that goes to the end of the hot part.
func (p *Checkpoint) cutStep(s *storagev1.ActiveStep, field []byte, facts Facts) {
	var begun, input uint64
	if d := s.GetDescription(); len(d) >= shortest {
		begun = facts.Begun(s.GetOrdinal(), d)
	}
	if in := s.GetInputJson(); len(in) >= shortest && s.GetInputSeq() != 0 && facts.HasInput(s.GetInputSeq(), in) {
		input = s.GetInputSeq()
	}
	if begun == 0 && input == 0 {
		return
	}
	_, _, n := protowire.ConsumeTag(field)
	_, size := protowire.ConsumeVarint(field[n:])
	for at := n + size; at < len(field); {
		num, typ, n := protowire.ConsumeTag(field[at:])
		at += n
		at += protowire.ConsumeFieldValue(num, typ, field[at:])
		switch to := len(p.hot) + at; {
		case typ != protowire.BytesType:
		case num == fieldDescription && begun != 0:
			p.cuts = append(p.cuts, cut{from: to - len(s.GetDescription()), to: to, how: cutText, ref: begun})
		case num == fieldInput && input != 0:
			p.cuts = append(p.cuts, cut{from: to - len(s.GetInputJson()), to: to, how: cutText, ref: input})
		}
	}
}

func (p *Checkpoint) finish(c *storagev1.Checkpoint, deadline int64) {
	out := p.Hot[:0]
	for _, n := range []uint64{c.GetRev(), uint64(uint32(c.GetStatus())), c.GetLastSeq(), uint64(deadline), uint64(min(len(p.notes), 1))} {
		out = binary.AppendUvarint(out, n)
	}
	p.Hot, p.Payloads = appendCuts(out, p.hot, checkpoint.cuts(p.hot, p.cuts))
	var more []Payload
	p.Notes, more = Blob(p.Notes[:0], checkpoint, p.notes)
	p.Payloads = append(p.Payloads, more...)
}

// ReadState reads what stands before a packed checkpoint, and returns the rest.
func ReadState(hot []byte) (State, []byte, error) {
	r := reader{b: hot}
	s := State{
		Rev: r.uvarint(), Status: executorv1.ExecutorStatus(int32(r.uvarint())), LastSeq: r.uvarint(), Deadline: int64(r.uvarint()), Notes: r.uvarint() != 0,
	}
	if r.short {
		return State{}, nil, fmt.Errorf("its state is too short: %w", errBlob)
	}
	return s, r.b, nil
}

// UnpackCheckpoint returns what was packed.
func UnpackCheckpoint(hot, notes []byte, src Source) (*storagev1.Checkpoint, error) {
	s, blob, err := ReadState(hot)
	if err != nil {
		return nil, err
	}
	if s.Notes != (len(notes) > 0) {
		return nil, fmt.Errorf("it has notes: %v, but there are %d bytes: %w", s.Notes, len(notes), errBlob)
	}
	c := &storagev1.Checkpoint{}
	for _, part := range [][]byte{blob, notes} {
		msg, err := Unblob(part, src)
		if err != nil {
			return nil, err
		}
		if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(msg, c); err != nil {
			return nil, err
		}
	}
	c.Rev, c.Status, c.LastSeq = s.Rev, s.Status, s.LastSeq
	return c, nil
}
