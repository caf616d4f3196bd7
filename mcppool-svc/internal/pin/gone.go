package pin

import (
	"time"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/store"
)

// KeepGone is how long the pins of a missing server are kept: a server that is taken out of a file and put back, or mistyped once,
// must not be trusted as if it were new.
const KeepGone = 30 * 24 * time.Hour

// goneName is under which name it is noted since when a server is gone; no tool has it.
const goneName = ""

// Tidy looks which servers there are, and drops what is kept of those that have been gone for KeepGone. Others are noted as gone
// from now on, or as back. Deleting a server drops its pins at once: see Forget.
func (b *Book) Tidy(there []*registry.Server) error {
	present := make(map[string]bool, len(there))
	for _, s := range there {
		present[s.Origin()] = true
	}
	b.writes.Lock()
	now := b.now().UTC()
	var changes []store.Change
	var dropped []string
	for origin, since := range b.origins() {
		switch {
		case present[origin] && !since.IsZero():
			changes = append(changes, store.Change{Bucket: bucketSeen, Key: origin + "\x00" + goneName})
			b.setGone(origin, time.Time{})
		case present[origin]:
		case since.IsZero():
			changes = append(changes, goneChange(origin, now))
			b.setGone(origin, now)
		case now.Sub(since) >= KeepGone:
			dropped = append(dropped, origin)
		}
	}
	err := b.apply(changes)
	b.writes.Unlock()
	for _, origin := range dropped {
		if err == nil {
			err = b.Forget(origin)
		}
	}
	return err
}

// origins are those of which something is kept, and since when they are gone.
func (b *Book) origins() map[string]time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make(map[string]time.Time, len(b.servers))
	for origin := range b.servers {
		all[origin] = b.gone[origin]
	}
	return all
}

func (b *Book) setGone(origin string, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since.IsZero() {
		delete(b.gone, origin)
		return
	}
	b.gone[origin] = since
}

func goneChange(origin string, since time.Time) store.Change {
	return encode(bucketSeen, origin, goneName, Record{Version: recordVersion, Time: since})
}
