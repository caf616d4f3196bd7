package bolt

import (
	"errors"
	"fmt"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/pack"
)

// damaged says that what is stored cannot be read.
func damaged(what string, why any) error {
	return fmt.Errorf("%s: %w (%v); stop pawl, look at it with pawl store check, and restore the file from a backup", what, journal.ErrDamaged, why)
}

// missing says that something is not there without which the rest makes no sense.
var errMissing = errors.New("it is missing")

// intact passes on what a read said, or what it ran into: a damaged page makes bbolt panic, and one beyond the end of the
// file faults.
func intact(what string, read func() error) (err error) {
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case *unopened:
			err = fault.err
		default:
			err = damaged(what, fault)
		}
	}()
	return read()
}

// get returns a value whose checksum fits; nil where there is none.
func get(b *table, key []byte) ([]byte, error) {
	sealed := b.Get(key)
	if sealed == nil {
		return nil, nil
	}
	return unseal(key, sealed)
}

func unseal(key, sealed []byte) ([]byte, error) {
	v, err := pack.Unseal(key, sealed)
	if err != nil {
		return nil, damaged(name(key), err)
	}
	return v, nil
}

// put stores a value with its checksum, where it differs from what is stored.
func put(b *table, key, value []byte) error {
	return putSealed(b, key, pack.Seal(key, value))
}

// putSealed spares the write where nothing changed.
func putSealed(b *table, key, sealed []byte) error {
	if old := b.Get(key); old != nil && string(old) == string(sealed) {
		return nil
	}
	return b.Put(key, sealed)
}

// name says what a key stands for.
func name(key []byte) string {
	if len(key) > idSize+1 && key[0] == kindTask {
		part := map[byte]string{
			partHead: "head", partCheckpoint: "checkpoint", partRecord: "record", partCommand: "command",
			partNotes: "notes", partPayload: "reference to a payload",
		}[key[idSize+1]]
		n := ""
		if len(key) == idSize+2+8 {
			n = fmt.Sprintf(" %d", numberOf(key))
		}
		return fmt.Sprintf("%s%s of task %s", part, n, taskOf(key))
	}
	if len(key) == 0 {
		return "entry without a key"
	}
	kind := map[byte]string{
		kindMeta: "metadata", kindDue: "index of due tasks", kindDeadline: "index of deadlines", kindEnded: "index of ended tasks",
		kindUser: "index of users", kindConversation: "index of conversations", kindRequest: "index of requests",
		kindWindow: "request window", kindPayload: "payload", kindReference: "reference to a payload", kindAgent: "agent",
	}[key[0]]
	if kind == "" {
		kind = "unknown entry"
	}
	return fmt.Sprintf("%s %x", kind, key[1:])
}
