package pin

import (
	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
)

// ApplyRemote applies the changes of other replicas.
func (b *Book) ApplyRemote(places []replica.Place) error {
	changes := make(map[string][]store.Change)
	for _, p := range places {
		if p.Bucket == bucketSeen || p.Bucket == bucketApproved {
			origin, name := splitKey(p.Key)
			if name != "" { // else it is an entry of an earlier version
				changes[origin] = append(changes[origin], store.Change{Bucket: p.Bucket, Key: p.Key})
			}
		}
	}
	for origin, c := range changes {
		if err := b.refresh(origin, c); err != nil {
			return err
		}
	}
	return nil
}

// refresh reads the changed pins of an origin again and drops its cached review.
func (b *Book) refresh(origin string, changes []store.Change) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.servers[origin]
	if old == nil {
		old = &server{}
	}
	read, first := make(map[string]pin, len(changes)), old.first
	for _, c := range changes {
		_, name := splitKey(c.Key)
		p, f, err := b.read(origin, name)
		if err != nil {
			return err
		}
		if read[name] = p; name == firstName {
			first = f
		}
	}
	updated := old.with(read, first)
	if len(updated.pins) == 0 && updated.first == "" {
		delete(b.servers, origin)
		return nil
	}
	b.servers[origin] = updated
	return nil
}

// Readable reports whether this program can read a stored value.
func Readable(value []byte) bool {
	return store.Decode(value, recordVersion, &Record{}) == nil
}
