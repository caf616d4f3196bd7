package bolt

import (
	"bytes"
	"crypto/sha256"
	"errors"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal/pack"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// putPayloads stores large strings once, and that a task refers to them.
func putPayloads(b *table, id uuid.UUID, all []sealedPayload) error {
	for _, p := range all {
		if k := payloadKey(p.sum); b.Get(k) == nil {
			if err := b.Put(k, p.value); err != nil {
				return err
			}
		}
		if err := b.Put(referenceKey(p.sum, id), nil); err != nil {
			return err
		}
		if err := b.Put(taskPayloadKey(id, p.sum), nil); err != nil {
			return err
		}
	}
	return nil
}

// dropPayload takes back a task's reference, and the payload where it was the last one.
func dropPayload(b *table, id uuid.UUID, sum pack.Sum) error {
	if err := b.Delete(referenceKey(sum, id)); err != nil {
		return err
	}
	prefix := append([]byte{kindReference}, sum[:]...)
	if k, _ := b.Cursor().Seek(prefix); hasPrefix(k, prefix) {
		return nil
	}
	return b.Delete(payloadKey(sum))
}

// errNested: following such a reference could go round for ever.
var errNested = errors.New("it refers to an input elsewhere")

// source gives back what was cut out of a task's messages.
type source struct {
	b  *table
	id uuid.UUID
	// nested: this is for a message that others take inputs from; it takes none itself.
	nested bool
	// record is the one that was read last, whose first seq is first.
	record *storagev1.Record
	first  uint64
}

// Payload implements pack.Source.
func (s *source) Payload(sum pack.Sum) ([]byte, error) {
	k := payloadKey(sum)
	v, err := get(s.b, k)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return nil, damaged(name(k), errMissing)
	case sha256.Sum256(v) != sum:
		return nil, damaged(name(k), "its content is another one")
	}
	return v, nil
}

// Text implements pack.Source.
func (s *source) Text(seq uint64) (string, error) {
	if s.nested {
		return "", errNested
	}
	if s.record == nil || seq < s.first || seq-s.first >= uint64(len(s.record.GetFacts())) {
		if err := s.load(seq); err != nil {
			return "", err
		}
	}
	return textOf(s.record.GetFacts()[seq-s.first]), nil
}

// load reads the record that holds a seq.
func (s *source) load(seq uint64) error {
	missing := damaged(name(numberedKey(s.id, partRecord, seq)), errMissing)
	prefix := taskKey(s.id, partRecord)
	k, sealed := seekRecord(s.b.taskCursor(s.id), prefix, seq-1)
	if seq == 0 || !hasPrefix(k, prefix) || len(k) != len(prefix)+8 || numberOf(k) > seq {
		return missing
	}
	r := &storagev1.Record{}
	if err := unpack(s.b, s.id, k, sealed, r); err != nil {
		return err
	}
	if seq-numberOf(k) >= uint64(len(r.GetFacts())) {
		return missing
	}
	s.record, s.first = r, numberOf(k)
	return nil
}

// unpack reads a sealed and packed message.
func unpack(b *table, id uuid.UUID, key, sealed []byte, into proto.Message) error {
	blob, err := unseal(key, sealed)
	if err != nil {
		return err
	}
	msg, err := pack.Unblob(blob, &source{b: b, id: id, nested: true})
	if err != nil {
		return damaged(name(key), err)
	}
	if err := proto.Unmarshal(msg, into); err != nil {
		return damaged(name(key), err)
	}
	return nil
}

func hasPrefix(k, prefix []byte) bool { return k != nil && bytes.HasPrefix(k, prefix) }
