package bolt

import (
	"sync"

	"go.etcd.io/bbolt"

	"pawl.dev/executor-svc/internal/journal"
)

// batchLimit bounds what one fsync carries, so that one batch does not grow without end under load.
const batchLimit = 1024

// op is one change. apply checks first and writes then: a reject leaves the transaction untouched, an err spoils it.
type op struct {
	apply  func(b *bbolt.Bucket) (reject, err error)
	reject error
	done   chan error
}

// committer shares one fsync between all changes that came while the one before was written: group commit without a
// timer. One goroutine, started by open and ended by close.
type committer struct {
	db   *bbolt.DB
	ops  chan *op
	done chan struct{}

	mu     sync.RWMutex // guards closed against sends on ops
	closed bool
}

func newCommitter(db *bbolt.DB) *committer {
	c := &committer{db: db, ops: make(chan *op, batchLimit), done: make(chan struct{})}
	go c.loop()
	return c
}

// do returns once the change is durable, or refused.
func (c *committer) do(apply func(b *bbolt.Bucket) (reject, err error)) error {
	o := &op{apply: apply, done: make(chan error, 1)}
	c.mu.RLock()
	if c.closed {
		c.mu.RUnlock()
		return journal.ErrClosed
	}
	c.ops <- o
	c.mu.RUnlock()
	// Not interrupted by a context: the caller must learn whether it was stored.
	return <-o.done
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
		batch = append(batch[:0], o)
	more:
		for len(batch) < batchLimit {
			select {
			case next, ok := <-c.ops:
				if !ok {
					break more
				}
				batch = append(batch, next)
			default:
				break more
			}
		}
		c.commit(batch)
	}
}

// commit writes a batch in one transaction. Where that fails, each change is tried alone, so that one that cannot be
// written does not take others with it.
func (c *committer) commit(batch []*op) {
	err := c.update(batch)
	if err == nil || len(batch) == 1 {
		for _, o := range batch {
			o.finish(err)
		}
		return
	}
	for _, o := range batch {
		o.finish(c.update([]*op{o}))
	}
}

func (c *committer) update(batch []*op) error {
	return c.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		for _, o := range batch {
			var err error
			if o.reject, err = o.apply(b); err != nil {
				return err
			}
		}
		return nil
	})
}

func (o *op) finish(err error) {
	if o.reject != nil {
		err = o.reject
	}
	o.done <- err
}
