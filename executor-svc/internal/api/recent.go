package api

import (
	"sync"
	"time"
)

// mostRecentBytes bounds the keys of one recent.
const mostRecentBytes = 4 << 20

// recent remembers for a while what another service answered, so that it need not be asked the same for each task. It forgets the
// oldest answer first. The zero value is empty.
type recent[V any] struct {
	mu    sync.Mutex // guards what follows
	byKey map[string]answer[V]
	order []string // the keys, the oldest first
	bytes int      // of the keys
}

type answer[V any] struct {
	value V
	since time.Time
}

// get returns an answer that is younger than age.
func (r *recent[V]) get(key string, age time.Duration) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.byKey[key]
	if !ok || time.Since(a.since) >= age {
		return value, false
	}
	return a.value, true
}

// put remembers an answer, and forgets those that are older than age or more than limit.
func (r *recent[V]) put(key string, value V, age time.Duration, limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for len(r.order) > 0 && now.Sub(r.byKey[r.order[0]].since) >= age {
		r.forgetOldest()
	}
	if _, there := r.byKey[key]; there || len(key) > mostRecentBytes {
		return // one of others who asked at the same time; it is as good
	}
	for len(r.order) >= limit || r.bytes+len(key) > mostRecentBytes {
		r.forgetOldest()
	}
	if r.byKey == nil {
		r.byKey = make(map[string]answer[V])
	}
	r.byKey[key] = answer[V]{value, now}
	r.order, r.bytes = append(r.order, key), r.bytes+len(key)
}

func (r *recent[V]) forgetOldest() {
	key := r.order[0]
	r.order[0] = "" // the slice's memory outlives the entry
	r.order, r.bytes = r.order[1:], r.bytes-len(key)
	delete(r.byKey, key)
}
