package api

import (
	"maps"
	"sync"
	"time"
)

// recent caches answers of other services by key, so that not every task asks for them again.
type recent[V any] struct {
	age   time.Duration
	limit int

	mu      sync.Mutex
	answers map[string]answer[V] // guarded by mu
}

type answer[V any] struct {
	value V
	time  time.Time
}

// get returns an answer that is younger than age.
func (r *recent[V]) get(key string) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.answers[key]
	if !ok || time.Since(a.time) >= r.age {
		return value, false
	}
	return a.value, true
}

// put stores an answer. At the limit it forgets old answers, and all answers if none is old.
func (r *recent[V]) put(key string, value V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) >= r.limit {
		maps.DeleteFunc(r.answers, func(_ string, a answer[V]) bool { return time.Since(a.time) >= r.age })
	}
	if r.answers == nil || len(r.answers) >= r.limit {
		r.answers = make(map[string]answer[V])
	}
	r.answers[key] = answer[V]{value, time.Now()}
}
