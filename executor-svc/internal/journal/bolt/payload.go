package bolt

import (
	"bytes"
	"crypto/sha256"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
)

// putPayloads stores payloads that are not stored yet, and the task's references to all of them.
func putPayloads(t *table, id uuid.UUID, all []payload) error {
	for _, p := range all {
		k := payloadKey(p.sum)
		if t.Get(k) == nil {
			if err := t.Put(k, withChecksum(k, append(make([]byte, 0, len(p.data)+checksumSize), p.data...))); err != nil {
				return err
			}
		}
		if err := t.Put(referenceKey(p.sum, id), nil); err != nil {
			return err
		}
		if err := t.Put(taskPayloadKey(id, p.sum), nil); err != nil {
			return err
		}
	}
	return nil
}

// dropPayload removes a task's reference to a payload, and the payload with its last reference.
func dropPayload(t *table, id uuid.UUID, sum hash) {
	t.Delete(referenceKey(sum, id))
	prefix := append([]byte{kindReference}, sum[:]...)
	if c := t.ascend(prefix); !c.next() || !hasPrefix(c.key, prefix) {
		t.Delete(payloadKey(sum))
	}
}

// payload returns the data of a payload.
func (t *table) payload(sum hash) ([]byte, error) {
	k := payloadKey(sum)
	v, err := get(t, k)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return nil, damagedError(name(k), errMissing)
	case sha256.Sum256(v) != sum:
		return nil, damagedError(name(k), "its content does not match its hash")
	}
	return v, nil
}

// readMessage decodes a stored message after checking its checksum, and returns the message's size including its payloads.
func readMessage(t *table, key, stored []byte, into proto.Message) (size int, err error) {
	value, err := verifyChecksum(key, stored)
	if err != nil {
		return 0, err
	}
	size, err = decode(value, into, t.payload)
	if err != nil {
		return 0, damagedError(name(key), err)
	}
	return size, nil
}

func hasPrefix(k, prefix []byte) bool { return bytes.HasPrefix(k, prefix) }
