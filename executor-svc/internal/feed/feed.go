// Package feed is what the watchers of tasks and those of topics have in common: one feed for all watchers of a task or topic, its newest records in
// memory, and a budget for the bytes that watchers hold. Watchers pull records, so that a slow one delays no other.
package feed

import (
	"slices"
	"sync"
)

// Feeds holds a feed for each id that is watched. S is what a feed keeps for its watchers.
type Feeds[S any] struct {
	mu    sync.Mutex // guards feeds; held only shortly, because all ids share it
	feeds map[string]*Feed[S]
}

// Feed is a watched task or topic. It exists while it has watchers.
type Feed[S any] struct {
	ID    string
	State S

	mu       sync.Mutex // guards watchers; taken after Feeds.mu, and held only shortly, because commits take it
	watchers []*Watcher[S]
}

// Watcher is one watcher of a feed.
type Watcher[S any] struct {
	Feed *Feed[S]
	// More receives a value when there may be records that the watcher has not seen.
	More chan struct{}
}

// Watch adds a watcher of an id.
func (f *Feeds[S]) Watch(id string) *Watcher[S] {
	f.mu.Lock()
	defer f.mu.Unlock()
	watched := f.feeds[id]
	if watched == nil {
		if f.feeds == nil {
			f.feeds = map[string]*Feed[S]{}
		}
		watched = &Feed[S]{ID: id}
		f.feeds[id] = watched
	}
	w := &Watcher[S]{Feed: watched, More: make(chan struct{}, 1)}
	watched.mu.Lock()
	defer watched.mu.Unlock()
	watched.watchers = append(watched.watchers, w)
	return w
}

// Unwatch removes a watcher.
func (f *Feeds[S]) Unwatch(w *Watcher[S]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Feed.mu.Lock()
	defer w.Feed.mu.Unlock()
	w.Feed.watchers = slices.DeleteFunc(w.Feed.watchers, func(other *Watcher[S]) bool { return other == w })
	if len(w.Feed.watchers) == 0 {
		delete(f.feeds, w.Feed.ID)
	}
}

// Find returns the feed of an id; nil if the id has no watcher.
func (f *Feeds[S]) Find(id string) *Feed[S] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.feeds[id]
}

// Wake tells all watchers that there may be more records.
func (f *Feed[S]) Wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.watchers {
		select {
		case w.More <- struct{}{}:
		default: // the watcher has not read since the last value
		}
	}
}
