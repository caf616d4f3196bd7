package bolt

import (
	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// heldText is the input or the description of a step, which a stored fact holds.
type heldText struct {
	seq  uint64
	text string
}

// facts knows which texts of a checkpoint are in records: in those that are written with it, and, where the task is
// stored, in those before it.
type facts struct {
	s       *Store
	id      uuid.UUID
	records []journal.Record
	stored  bool
	// held collects what was found, for the next transition.
	held []heldText
}

// clear lets go of what was looked at; the buffers are used again.
func (f *facts) clear() {
	clear(f.records)
	clear(f.held)
	f.records, f.held = f.records[:0], f.held[:0]
}

// HasInput implements pack.Facts.
func (f *facts) HasInput(seq uint64, input string) bool {
	for _, r := range f.records {
		if seq >= r.FirstSeq && seq-r.FirstSeq < uint64(len(r.GetFacts())) {
			return f.keep(seq, input, textOf(r.GetFacts()[seq-r.FirstSeq]) == input)
		}
	}
	if !f.stored {
		return false
	}
	if known, ok := f.s.due.textAt(f.id, seq); ok {
		return f.keep(seq, input, known == input)
	}
	// The first transition since the task was claimed.
	stored := ""
	err := f.s.file.glance(func(b *table) (err error) {
		stored, err = (&source{b: b, id: f.id}).Text(seq)
		return err
	})
	return f.keep(seq, input, err == nil && stored == input)
}

// Begun implements pack.Facts.
func (f *facts) Begun(ordinal uint32, description string) uint64 {
	for _, r := range f.records {
		for i, fact := range r.GetFacts() {
			if init, ok := fact.GetKind().(*storagev1.Fact_StepInit); ok && fact.GetOrdinal() == ordinal && init.StepInit == description {
				seq := r.FirstSeq + uint64(i)
				f.keep(seq, description, true)
				return seq
			}
		}
	}
	if !f.stored {
		return 0
	}
	seq := f.s.due.seqOf(f.id, description)
	f.keep(seq, description, seq != 0)
	return seq
}

func (f *facts) keep(seq uint64, text string, found bool) bool {
	if found {
		f.held = append(f.held, heldText{seq, text})
	}
	return found
}

// textOf returns the input or the description that a fact holds; empty where it holds none.
func textOf(f *storagev1.Fact) string {
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_StepInput:
		return k.StepInput
	case *storagev1.Fact_StepWaitingForStart:
		return k.StepWaitingForStart.GetInputJson()
	case *storagev1.Fact_StepInit:
		return k.StepInit
	}
	return ""
}
