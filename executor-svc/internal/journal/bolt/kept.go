package bolt

import (
	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal/pack"
)

// kept is what the store remembers of an owned task, so that its next transition need not look: what is stored now. Only
// the committer changes it.
type kept struct {
	known bool
	state pack.State
	// notes as they are stored, sealed.
	notes []byte
	// texts that facts hold.
	texts []heldText
}

// remember takes in what a durable transition stored. Its buffers are copied.
func (d *due) remember(w *write) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[w.id]; t != nil && t.epoch == w.epoch {
		t.kept = kept{known: true, state: w.state, notes: append(t.kept.notes[:0], w.notes...), texts: append(t.kept.texts[:0], w.facts.held...)}
	}
}

// forget is for a transition of which it is not known whether it is stored.
func (d *due) forget(id uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		t.kept = kept{}
	}
}

// textAt returns the text that the fact of a seq holds, where that is remembered.
func (d *due) textAt(id uuid.UUID, seq uint64) (text string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		for _, h := range t.kept.texts {
			if h.seq == seq {
				return h.text, true
			}
		}
	}
	return "", false
}

// seqOf returns the seq of a fact that holds a text, where that is remembered, else 0.
func (d *due) seqOf(id uuid.UUID, text string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		for _, h := range t.kept.texts {
			if h.text == text {
				return h.seq
			}
		}
	}
	return 0
}
