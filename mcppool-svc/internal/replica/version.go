package replica

import (
	"bytes"
	"cmp"
	"strings"
)

// Version tells the writes of one key apart.
type Version struct {
	// Life counts how often something of this key began to be. What is deleted ends its life, whatever was written meanwhile
	// by a replica that did not know: a deleted server does not come back because it was changed at the same time.
	Life uint64
	// Time is of a hybrid logical clock.
	Time uint64
	// Writer is the replica that wrote it.
	Writer string
}

// Entry is a value as replicas tell it.
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

// rank is what the order of two entries of one key depends on.
type rank struct {
	Version
	dead bool
}

// compare orders the writes of one key; the greatest stays. It is a total order up to the value, which is why it does not matter in
// what order they arrive. Of one life what deletes wins, then the later, or the earlier where the first is to stay.
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

// compareValues is for two writes of the same version, which there are where a data folder was copied.
func compareValues(a, b []byte) int { return bytes.Compare(a, b) }
