package pin

import (
	"time"

	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
)

// ApplyRemote applies what other replicas wrote. A server that is said to be gone and is here all the same is noted as there again, so
// that its pins are not dropped because another replica has another configuration.
func (b *Book) ApplyRemote(places []replica.Place, here func(origin string) bool) error {
	changes := make(map[string][]store.Change)
	var back []store.Change
	for _, p := range places {
		if p.Bucket != bucketSeen && p.Bucket != bucketApproved {
			continue
		}
		origin, name := cut(p.Key)
		changes[origin] = append(changes[origin], store.Change{Bucket: p.Bucket, Key: p.Key})
		if name != goneName || !here(origin) {
			continue
		}
		if _, noted, err := b.get(bucketSeen, p.Key); err != nil {
			return err
		} else if noted {
			back = append(back, store.Change{Bucket: bucketSeen, Key: p.Key})
		}
	}
	for origin, c := range changes {
		if err := b.refresh(origin, c); err != nil {
			return err
		}
	}
	if len(back) == 0 {
		return nil
	}
	if err := b.apply(back); err != nil {
		return err
	}
	for _, c := range back {
		origin, _ := cut(c.Key)
		b.setGone(origin, time.Time{})
	}
	return nil
}

// refresh makes what is known of an origin's tools what is stored of them. Answers that were given before count no more.
func (b *Book) refresh(origin string, changes []store.Change) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.servers[origin]
	if old == nil {
		old = &server{}
	}
	read, first := make(map[string]pin, len(changes)), old.first
	for _, c := range changes {
		_, name := cut(c.Key)
		if name == goneName {
			if err := b.readGone(origin, c.Key); err != nil {
				return err
			}
			continue
		}
		p, f, err := b.read(origin, name)
		if err != nil {
			return err
		}
		if read[name] = p; name == firstName {
			first = f
		}
	}
	now := old.with(read, first)
	if len(now.pins) == 0 && now.first == "" && b.gone[origin].IsZero() {
		delete(b.servers, origin)
		return nil
	}
	b.servers[origin] = now
	return nil
}

// readGone reads since when a server is gone. Called with mu held.
func (b *Book) readGone(origin, key string) error {
	r, known, err := b.get(bucketSeen, key)
	switch {
	case err != nil:
		return err
	case known:
		b.gone[origin] = r.Time
	default:
		delete(b.gone, origin)
	}
	return nil
}

// Readable reports whether this program can read a stored value.
func Readable(value []byte) bool {
	_, err := decode(value)
	return err == nil
}
