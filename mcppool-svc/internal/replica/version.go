package replica

import (
	"bytes"
	"cmp"
	"strings"
)

// Version identifies a write of a key.
type Version struct {
	// Life counts how often an entry with this key was created. A deletion ends a life, and a concurrent write of the same life does not
	// bring it back: a deleted server does not return because it was changed at the same time.
	Life uint64
	// Time is the value of a hybrid logical clock.
	Time uint64
	// Writer is the replica that wrote it.
	Writer string
}

// Entry is a value as replicas exchange it.
type Entry struct {
	Bucket, Key string
	Value       []byte // nil if it is deleted
	Dead        bool
	Version
}

func (e *Entry) place() string { return place(e.Bucket, e.Key) }

func place(bucket, key string) string { return bucket + "\x00" + key }

func split(place string) (bucket, key string) {
	bucket, key, _ = strings.Cut(place, "\x00")
	return bucket, key
}

// rank holds the fields that decide the order of two entries of one key.
type rank struct {
	Version
	dead bool
}

// compare orders the writes of one key; the greatest wins. The order is total, including the value, so the order of arrival does not
// matter. Within one life a deletion wins, then the later write, or the earlier one in buckets where the first write wins.
func (a rank) compare(b rank, first bool) int {
	later := cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Writer, b.Writer))
	switch {
	case a.Life != b.Life:
		return cmp.Compare(a.Life, b.Life)
	case a.dead != b.dead && a.dead:
		return 1
	case a.dead != b.dead:
		return -1
	case first && !a.dead:
		return -later
	default:
		return later
	}
}

// compareValues orders two writes of the same version, which exist if a data folder was copied.
func compareValues(a, b []byte) int { return bytes.Compare(a, b) }
