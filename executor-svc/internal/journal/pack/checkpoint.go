package pack

import (
	"encoding/binary"
	"fmt"

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

// Checkpoint is a packed checkpoint. Its buffers are used again by the next Pack.
type Checkpoint struct {
	// Hot begins with the State.
	Hot []byte
	// Notes is empty where there are none.
	Notes    []byte
	Payloads []Payload

	hot, notes []byte
	cuts       []cut
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
	if err := p.split(c, facts); err != nil {
		return err
	}
	p.finish(c, deadline)
	return nil
}

func (p *Checkpoint) finish(c *storagev1.Checkpoint, deadline int64) {
	out := p.Hot[:0]
	for _, n := range []uint64{c.GetRev(), uint64(uint32(c.GetStatus())), c.GetLastSeq(), uint64(deadline), uint64(min(len(p.notes), 1))} {
		out = binary.AppendUvarint(out, n)
	}
	p.cuts = checkpoint.cuts(p.hot, p.cuts)
	p.Hot, p.Payloads = appendCuts(out, p.hot, p.cuts)
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
