package bolt

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
)

const (
	// largePayload is the size from which a payload is written to the file at once, and not to the log, which would write it twice.
	largePayload = 256 << 10
	// chunkBytes is the size of the parts of a large payload: when bbolt changes an entry, it writes the entries beside it again.
	chunkBytes = 64 << 10
	// pieceBytes of a large payload are written in one transaction, which holds them in memory.
	pieceBytes = 4 << 20
)

// storeLarge writes the large payloads that are not stored yet to the file, before a change that refers to them is made. If that change is never
// made, the next opening removes them.
func (s *Store) storeLarge(all []payload) error {
	for _, p := range all {
		if len(p.data) < largePayload {
			continue
		}
		known := false
		if err := s.file.view(func(t *table) error { known = hasPayload(t, p.sum); return nil }); err != nil {
			return err
		}
		if !known {
			if err := s.file.storePieces(p); err != nil {
				return fmt.Errorf("writing the journal: %w", err)
			}
		}
	}
	return nil
}

// storePieces writes a large payload. A deletion of the same payload that is in the log is applied before all pieces or after all.
func (f *file) storePieces(p payload) (err error) {
	f.applying.Lock()
	defer f.applying.Unlock()
	if err = f.fileBroken; err != nil {
		return err
	}
	for at := 0; err == nil && at < len(p.data); at += pieceBytes {
		err = f.storePiece(p, at)
	}
	f.health.note(err)
	return err
}

// storePiece writes the piece that begins at a position. Called with applying held.
func (f *file) storePiece(p payload, at int) error {
	return f.transact(func(b *counted) error {
		k := largeKey(p.sum)
		if err := b.Put(k, withChecksum(k, numberBytes(uint64(len(p.data))))); err != nil {
			return err
		}
		for end := min(at+pieceBytes, len(p.data)); at < end; at += chunkBytes {
			k := chunkKey(p.sum, uint32(at/chunkBytes))
			chunk := append(make([]byte, 0, chunkBytes+checksumSize), p.data[at:min(at+chunkBytes, end)]...)
			if err := b.Put(k, withChecksum(k, chunk)); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropOrphans removes large payloads that nothing refers to. It is called while there are no changes in the log.
func dropOrphans(b *counted) error {
	t, c := &table{base: b.Bucket}, b.Cursor()
	var keys [][]byte
	for k, _ := c.Seek([]byte{kindLarge}); len(k) == 1+len(hash{}) && k[0] == kindLarge; k, _ = c.Next() {
		if sum := hash(k[1:]); !isReferenced(t, sum) {
			keys = append(keys, keysOfLarge(t, sum)...)
		}
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// putPayloads stores payloads that are not stored yet, and the references of a task or topic to all of them.
func putPayloads(t *table, kind byte, id uuid.UUID, all []payload) error {
	for _, p := range all {
		if !hasPayload(t, p.sum) {
			if err := put(t, payloadKey(p.sum), append(make([]byte, 0, len(p.data)+checksumSize), p.data...)); err != nil {
				return err
			}
		}
		if err := t.Put(referenceKey(p.sum, id), nil); err != nil {
			return err
		}
		if err := t.Put(ownPayloadKey(kind, id, p.sum), nil); err != nil {
			return err
		}
	}
	return nil
}

// hasPayload reports whether a payload is stored completely.
func hasPayload(t *table, sum hash) bool {
	if t.Get(payloadKey(sum)) != nil {
		return true
	}
	size, known, err := readNumber(t, largeKey(sum))
	return known && err == nil && t.Get(chunkKey(sum, uint32((size-1)/chunkBytes))) != nil
}

// dropPayload removes the reference of a task or topic to a payload, and the payload with its last reference.
func dropPayload(t *table, id uuid.UUID, sum hash) {
	t.Delete(referenceKey(sum, id))
	if isReferenced(t, sum) {
		return
	}
	t.Delete(payloadKey(sum))
	for _, k := range keysOfLarge(t, sum) {
		t.Delete(k)
	}
}

func isReferenced(t *table, sum hash) bool {
	prefix := append([]byte{kindReference}, sum[:]...)
	c := t.ascend(prefix)
	return c.next() && hasPrefix(c.key, prefix)
}

// keysOfLarge returns the keys of a large payload, if there is one.
func keysOfLarge(t *table, sum hash) (keys [][]byte) {
	if t.Get(largeKey(sum)) == nil {
		return nil
	}
	keys = append(keys, largeKey(sum))
	prefix := append([]byte{kindChunk}, sum[:]...)
	for c := t.ascend(prefix); c.next() && hasPrefix(c.key, prefix); {
		keys = append(keys, bytes.Clone(c.key))
	}
	return keys
}

// appendPayload appends the data of a payload.
func (t *table) appendPayload(dst []byte, sum hash) ([]byte, error) {
	k, before := payloadKey(sum), len(dst)
	v, err := get(t, k)
	if err != nil {
		return nil, err
	}
	if v != nil {
		dst = append(dst, v...)
	} else {
		size, known, err := readNumber(t, largeKey(sum))
		if err == nil && !known {
			err = damagedError(name(k), errMissing)
		}
		for n := uint32(0); err == nil && uint64(len(dst)-before) < size; n++ {
			k := chunkKey(sum, n)
			if v, err = get(t, k); err == nil && len(v) == 0 {
				err = damagedError(name(k), errMissing)
			}
			dst = append(dst, v...)
		}
		if err != nil {
			return nil, err
		}
	}
	if sha256.Sum256(dst[before:]) != sum {
		return nil, damagedError(name(k), "its content does not match its hash")
	}
	return dst, nil
}

// readMessage decodes a stored message after checking its checksum, and returns the message's size including its payloads.
func readMessage(t *table, key, stored []byte, into proto.Message) (size int, err error) {
	value, err := verifyChecksum(key, stored)
	if err != nil {
		return 0, err
	}
	size, err = decode(value, into, t.appendPayload)
	if err != nil {
		return 0, damagedError(name(key), err)
	}
	return size, nil
}

func hasPrefix(k, prefix []byte) bool { return bytes.HasPrefix(k, prefix) }
