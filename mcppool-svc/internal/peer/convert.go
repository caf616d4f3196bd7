package peer

import (
	"errors"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/replica"
)

// Bounds of one message; further entries follow in the next.
const (
	maxBatchBytes   = 1 << 20
	maxBatchEntries = 1000
	// maxPushed is the largest value that is pushed; larger ones are pulled in larger messages.
	maxPushed = 3 << 20
)

func toMessage(entries []replica.Entry) *mcppoolv1.PeerEntries {
	m := &mcppoolv1.PeerEntries{}
	for _, e := range entries {
		m.Entries = append(m.Entries, &mcppoolv1.PeerEntry{
			Bucket: e.Bucket, Key: []byte(e.Key), Value: e.Value, Deleted: e.Dead, Life: e.Life, Time: e.Time, Writer: e.Writer,
		})
	}
	return m
}

// fromMessage converts an entry and checks it, because the interceptors cannot check sealed ones.
func fromMessage(m *mcppoolv1.PeerEntries) ([]replica.Entry, error) {
	if len(m.GetEntries()) > maxBatchEntries {
		return nil, errors.New("a batch has too many entries")
	}
	entries := make([]replica.Entry, 0, len(m.GetEntries()))
	for _, e := range m.GetEntries() {
		if e.GetLife() == 0 || e.GetBucket() == "" || len(e.GetKey()) > 16<<10 || len(e.GetWriter()) > 64 {
			return nil, errors.New("a batch has an entry that cannot be")
		}
		out := replica.Entry{
			Bucket: e.GetBucket(), Key: string(e.GetKey()), Dead: e.GetDeleted(),
			Version: replica.Version{Life: e.GetLife(), Time: e.GetTime(), Writer: e.GetWriter()},
		}
		if !out.Dead {
			out.Value = append([]byte{}, e.GetValue()...) // never nil
		}
		entries = append(entries, out)
	}
	return entries, nil
}

// batches divides entries into messages.
func batches(entries []replica.Entry) (all [][]replica.Entry) {
	var now []replica.Entry
	size := 0
	for _, e := range entries {
		n := len(e.Key) + len(e.Value)
		if n > maxPushed {
			continue
		}
		if len(now) > 0 && (size+n > maxBatchBytes || len(now) == maxBatchEntries) {
			all, now, size = append(all, now), nil, 0
		}
		now, size = append(now, e), size+n
	}
	if len(now) > 0 {
		all = append(all, now)
	}
	return all
}
