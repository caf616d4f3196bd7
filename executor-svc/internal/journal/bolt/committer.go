package bolt

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
)

// batchLimit bounds what one fsync carries, so that one batch does not grow without end under load.
const batchLimit = 1024

// op is one change. apply checks first and writes then: a reject leaves the transaction untouched, an err spoils it.
type op struct {
	apply func(b *table, o *op) (reject, err error)
	// owned says that due.begin was called for this task.
	owned bool
	task  uuid.UUID
	// stores is what due remembers once it is durable; nil where it is not about an owned task.
	stores *write
	// changes are what due is told once they are durable.
	changes []change
	reject  error
	done    chan error
}

func (o *op) reset() { o.changes, o.reject, o.owned, o.stores = o.changes[:0], nil, false, nil }

// committer shares one fsync between all changes that came while the one before was written: group commit without a
// timer. One goroutine, started by open and ended by close.
type committer struct {
	file *file
	due  *due
	ops  chan *op
	done chan struct{}
	free sync.Pool
	// late holds the changes of a transaction of which it is not known whether it is durable.
	late []change

	mu     sync.RWMutex // guards closed against sends on ops
	closed bool
}

func newCommitter(f *file, d *due) *committer {
	c := &committer{file: f, due: d, ops: make(chan *op, batchLimit), done: make(chan struct{})}
	f.settled = c.applyLate
	c.free.New = func() any { return &op{done: make(chan error, 1)} }
	go c.loop()
	return c
}

// do returns once the change is durable, or refused.
func (c *committer) do(apply func(b *table, o *op) (reject, err error)) error {
	o := c.free.Get().(*op)
	o.reset()
	o.apply = apply
	c.mu.RLock()
	if c.closed {
		c.mu.RUnlock()
		return journal.ErrClosed
	}
	c.ops <- o
	c.mu.RUnlock()
	// Not interrupted by a context: the caller must learn whether it was stored.
	err := <-o.done
	o.apply, o.stores = nil, nil
	c.free.Put(o)
	return err
}

func (c *committer) close() {
	c.mu.Lock()
	already := c.closed
	c.closed = true
	c.mu.Unlock()
	if !already {
		close(c.ops)
	}
	<-c.done
}

func (c *committer) loop() {
	defer close(c.done)
	batch := make([]*op, 0, batchLimit)
	for o := range c.ops {
		before := len(batch)
		batch = c.gather(append(batch[:0], o))
		// Those who were just answered are about to come again: one turn for each that can run lets them share this fsync
		// instead of waiting for it.
		for len(batch) < before {
			n := len(batch)
			runtime.Gosched()
			if batch = c.gather(batch); len(batch) == n {
				break
			}
		}
		c.commit(batch)
	}
}

// gather adds what is there already.
func (c *committer) gather(batch []*op) []*op {
	for len(batch) < batchLimit {
		select {
		case next, ok := <-c.ops:
			if !ok {
				return batch
			}
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// commit writes a batch as one record of the log, or as several where it is large. Where that fails, each change is tried
// alone, so that one that cannot be written does not take others with it.
func (c *committer) commit(batch []*op) {
	for len(batch) > 0 {
		n, err := c.update(batch)
		c.answer(batch[:n], err)
		batch = batch[n:]
	}
}

func (c *committer) answer(batch []*op, err error) {
	switch {
	case errors.Is(err, errUnsure):
		for _, o := range batch {
			c.late = append(c.late, o.changes...)
			if o.owned {
				c.due.forget(o.task)
			}
		}
	case err != nil && len(batch) > 1 && !errors.Is(err, errFull):
		for i := range batch {
			one := batch[i : i+1]
			_, err := c.update(one)
			c.answer(one, err)
		}
		return
	}
	c.finish(batch, err)
}

func (c *committer) applyLate() {
	for _, change := range c.late {
		c.due.apply(change)
	}
	c.late = nil
}

// update makes the first changes of a batch durable, and says how many.
func (c *committer) update(batch []*op) (n int, err error) {
	err = c.file.update(
		func(b *table) (changed bool, err error) {
			for n < len(batch) && b.batch.size() < mostAtOnce {
				o := batch[n]
				n++
				c.release(o)
				o.reset()
				if o.reject, err = o.apply(b, o); err != nil {
					return false, err
				}
				if o.reject != nil {
					o.changes = o.changes[:0]
				} else {
					changed = true
				}
			}
			return changed, nil
		},
		func() {
			for _, o := range batch[:n] {
				for _, change := range o.changes {
					c.due.apply(change)
				}
				if o.stores != nil && o.reject == nil {
					c.due.remember(o.stores)
				}
			}
		},
	)
	if n == 0 { // it failed before it looked at any
		n = len(batch)
	}
	return n, err
}

func (c *committer) release(o *op) {
	if o.owned {
		c.due.end(o.task)
		o.owned = false
	}
}

func (c *committer) finish(batch []*op, err error) {
	for _, o := range batch {
		c.release(o)
		if err != nil && (o.reject == nil || errors.Is(err, errUnsure)) {
			o.done <- fmt.Errorf("writing the journal: %w", err)
		} else {
			o.done <- o.reject
		}
	}
}

func (c *committer) isClosed() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.closed
}
