package replica

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// Buckets of the underlying store, beside those of the values.
const (
	bucketVersions = "versions" // place → meta
	BucketHeld     = "held"     // place → a value that this program cannot read; what it could read before stays where it is
	bucketSelf     = "replica"  // keySelf → self
)

const keySelf = "self"

// Format is the file's format. Older files without one are upgraded when they are opened.
const Format = 2

// self is the stored identity of a replica.
type self struct {
	Format int    `json:"v"`
	ID     string `json:"id"`
	// Floor is at least the life of each tombstone that was dropped.
	Floor uint64 `json:"floor,omitempty"`
	// Seen is when it was last in step with another replica, to the hour.
	Seen time.Time `json:"seen,omitzero"`
}

// meta is the stored form of a version.
type meta struct {
	Life   uint64 `json:"l"`
	Time   uint64 `json:"t"`
	Writer string `json:"w"`
	Dead   bool   `json:"d,omitempty"`
	// Sum is the value's checksum. It shows a write of an older program that does not know versions.
	Sum  uint64 `json:"s,omitempty"`
	Held bool   `json:"h,omitempty"` // the value is in BucketHeld

	seq uint64 // position in the feed; in memory only
}

func (m *meta) rank() rank {
	return rank{Version{Life: m.Life, Time: m.Time, Writer: m.Writer}, m.Dead}
}

func metaOf(e *Entry, held bool) *meta {
	return &meta{Life: e.Life, Time: e.Time, Writer: e.Writer, Dead: e.Dead, Sum: sumOf(e.Value), Held: held}
}

func sumOf(value []byte) uint64 {
	if value == nil {
		return 0
	}
	sum := sha256.Sum256(value)
	return binary.BigEndian.Uint64(sum[:])
}

// encode marshals plain data, which cannot fail.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func decodeSelf(raw []byte) (s self, err error) {
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("reading the format of the store: %w", err)
	}
	if s.Format < 1 || s.Format > Format {
		return s, fmt.Errorf("the store was written by a newer version of this program (format %d); use that one", s.Format)
	}
	return s, nil
}
