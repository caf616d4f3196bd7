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
	bucketHeld     = "held"     // place → a value that this program cannot read; what it could read before stays where it is
	bucketSelf     = "replica"  // keySelf → self
)

const keySelf = "self"

// Format is that of the file. Files without one, of before, are brought up to it when they are opened.
const Format = 2

// self is what a replica knows of itself.
type self struct {
	Format int    `json:"v"`
	ID     string `json:"id"`
	// Floor is at least the life of each tombstone that was dropped.
	Floor uint64 `json:"floor,omitempty"`
	// Seen is when it was last in step with another replica, to the hour.
	Seen time.Time `json:"seen,omitzero"`
}

// meta is what is stored of a version.
type meta struct {
	Life   uint64 `json:"l"`
	Time   uint64 `json:"t"`
	Writer string `json:"w"`
	Dead   bool   `json:"d,omitempty"`
	// Sum is of the value, so that one which an older program wrote, that knows no versions, is noticed.
	Sum  uint64 `json:"s,omitempty"`
	Held bool   `json:"h,omitempty"` // the value is in bucketHeld

	seq uint64 // when this replica learned it; in memory alone
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

// encode marshals plain data, for which that cannot fail.
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
