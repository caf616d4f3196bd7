package toolcall

import (
	"context"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
)

const (
	// connectLimit bounds how many servers of a task are listed at once. Slow servers do not count.
	connectLimit = 8
	// SlowAfter is how long ListAll waits for each of several servers.
	SlowAfter = 5 * time.Second
	// SuspectPatience is how long it waits for a server that did not answer in time the last time.
	SuspectPatience = 200 * time.Millisecond
	// maxSlow bounds how many slow servers are remembered.
	maxSlow = 10_000
	// keptCatalogs bounds the catalogs that are kept for other tasks, in bytes.
	keptCatalogs = 32 << 20
)

// Lister lists the tools of servers, and keeps catalogs of them for all users. It remembers, by user and server, which servers did not list their tools in time, so that a server that hangs delays only one caller.
type Lister struct {
	slow *otter.Cache[string, struct{}]

	catalogs *otter.Cache[string, *Catalog] // by hash
	reads    singleflight.Group             // of catalogs, by hash
}

// NewLister returns a lister.
func NewLister() *Lister {
	return &Lister{
		slow: otter.Must(&otter.Options[string, struct{}]{MaximumSize: maxSlow}),
		catalogs: otter.Must(&otter.Options[string, *Catalog]{
			MaximumWeight: keptCatalogs, Weigher: weigh,
		}),
	}
}

// List holds the tools of one server once Done reports true.
type List struct {
	ID string
	// slow is closed once ListAll no longer waits for this server; done is closed first if the server answers in time.
	slow, done chan struct{}
	Catalog    *Catalog
	PoolID     string
	// LateRelease reports that the server allows a delayed release of the session.
	LateRelease bool
	Err         error
	// CutOff reports that the context ended first, so that nothing is known about the server.
	CutOff bool
}

// Done reports whether the server has answered.
func (l *List) Done() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Load sends the list to load, which fills it.
type Load func(ctx context.Context, l *List) error

// ListAll lists the tools of all servers of a user at once. It waits for slow servers only if no other server has tools; their lists become done later.
func (s *Lister) ListAll(ctx context.Context, user string, ids []string, load Load) []*List {
	lists, slots := make([]*List, 0, len(ids)), make(chan struct{}, connectLimit)
	for _, id := range ids {
		l := &List{ID: id, slow: make(chan struct{}), done: make(chan struct{})}
		lists = append(lists, l)
		if len(ids) == 1 {
			l.load(ctx, load)
			return lists
		}
		go s.listWithSlot(ctx, user, l, load, slots)
	}
	for _, l := range lists {
		<-l.slow
	}
	awaitTools(ctx, lists)
	return lists
}

// listWithSlot lists the tools of one server. It frees the slot once the server has answered or proves to be slow.
func (s *Lister) listWithSlot(ctx context.Context, user string, l *List, load Load, slots chan struct{}) {
	slots <- struct{}{}
	slow := sync.OnceFunc(func() {
		<-slots
		close(l.slow)
	})
	key, began, patience := user+"\x00"+l.ID, time.Now(), SlowAfter
	if _, suspect := s.slow.GetIfPresent(key); suspect {
		patience = SuspectPatience
	}
	timer := time.AfterFunc(patience, func() {
		s.slow.Set(key, struct{}{})
		slow()
	})
	l.load(ctx, load)
	timer.Stop()
	if time.Since(began) < SlowAfter {
		s.slow.Invalidate(key)
	}
	slow()
}

func (l *List) load(ctx context.Context, load Load) {
	l.Err = load(ctx, l)
	l.CutOff = ctx.Err() != nil
	close(l.done)
}

// awaitTools waits until a server has listed tools, or all servers have answered.
func awaitTools(ctx context.Context, lists []*List) {
	for ctx.Err() == nil {
		var open []*List
		for _, l := range lists {
			switch {
			case !l.Done():
				open = append(open, l)
			case l.Err == nil && len(l.Catalog.GetTools()) > 0:
				return
			}
		}
		if len(open) == 0 {
			return
		}
		AwaitAny(ctx, open)
	}
}

// AwaitAny waits until one of the lists is done.
func AwaitAny(ctx context.Context, lists []*List) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, l := range lists {
		go func() {
			select {
			case <-l.done:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	<-ctx.Done()
}
