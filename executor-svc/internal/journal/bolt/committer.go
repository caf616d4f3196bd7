package bolt

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
)

// batchLimit bounds what one fsync carries, so that one batch does not grow without end under load.
const batchLimit = 1024

// applier makes a change. It checks first and writes then: a reject leaves the transaction untouched, an err spoils it.
type applier interface {
	apply(b *table, o *op) (reject, err error)
}

type applyFunc func(b *table, o *op) (reject, err error)

func (f applyFunc) apply(b *table, o *op) (reject, err error) { return f(b, o) }

// op is one change on its way.
type op struct {
	applier
	// owned says that due.begin was called for this task.
	owned bool
	task  uuid.UUID
	// stores is what due remembers once it is durable; nil where it is not about an owned task.
	stores *write
	// changes are what due is told once they are durable.
	changes []change
	reject  error
	// woken gets what became of the change, or errLead.
	woken chan error
}

// errLead wakes who is to write the next batch.
var errLead = errors.New("it writes the next batch")

// errStopped answers those who waited for one who was torn out of the middle of a batch.
var errStopped = errors.New("a program error stopped the journal in the middle of a change, of which it is not known whether it is stored; start pawl again")

func (o *op) reset() { o.changes, o.reject, o.owned, o.stores = o.changes[:0], nil, false, nil }

// committer shares one fsync between all changes that came while the one before was written: group commit without a
// timer, and without a goroutine of its own. Who comes while nobody writes does so at once; those who come meanwhile are
// the next batch, which the first of them writes. Each writes one batch, the one that its own change is in.
type committer struct {
	file *file
	due  *due
	free sync.Pool

	// What follows belongs to who writes. Whose change was answered is not in batch any more.
	batch []*op
	// before is how many changes the batch before had.
	before int
	// late holds the changes of a transaction of which it is not known whether it is durable.
	late []change

	mu      sync.Mutex // guards what follows
	waiting []*op
	writing bool
	// refuses is what new changes are answered; nil while they are taken.
	refuses error
	// quiet is closed once nobody writes and changes are refused.
	quiet chan struct{}
}

func newCommitter(f *file, d *due) *committer {
	c := &committer{file: f, due: d, quiet: make(chan struct{})}
	f.settled = c.applyLate
	c.free.New = func() any { return &op{woken: make(chan error, 1)} }
	return c
}

// do and submit return once the change is durable, or refused.
func (c *committer) do(apply applyFunc) error { return c.submit(apply) }

func (c *committer) submit(a applier) error {
	o := c.free.Get().(*op)
	o.reset()
	o.applier = a
	lead, err := c.join(o)
	if err != nil {
		return err
	}
	if !lead {
		// Not interrupted by a context: the caller must learn whether it was stored.
		err = <-o.woken
		lead = err == errLead //nolint:errorlint // it is never wrapped
	}
	if lead {
		c.lead()
		err = <-o.woken
	}
	o.applier, o.stores = nil, nil
	c.free.Put(o)
	return err
}

// join adds a change to the next batch, and says whether the caller is to write it.
func (c *committer) join(o *op) (lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuses != nil {
		return false, c.refuses
	}
	c.waiting = append(c.waiting, o)
	lead = !c.writing
	c.writing = true
	return lead, nil
}

// lead writes one batch, and passes the next one on.
func (c *committer) lead() {
	done := false
	defer func() {
		if !done {
			c.stop()
		}
	}()
	c.gather()
	// Those who were just answered are about to come again: one turn for each that can run lets them share this fsync
	// instead of waiting for it.
	for n := len(c.batch); n < c.before; n = len(c.batch) {
		runtime.Gosched()
		if c.gather(); len(c.batch) == n {
			break
		}
	}
	c.before = len(c.batch)
	c.commit(c.batch)
	c.batch = c.batch[:0]
	c.pass()
	done = true
}

// gather adds what is there already.
func (c *committer) gather() {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), batchLimit-len(c.batch))
	c.batch = append(c.batch, c.waiting[:n]...)
	c.waiting = slices.Delete(c.waiting, 0, n)
}

// pass lets the first of those who wait write the next batch.
func (c *committer) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		c.waiting[0].woken <- errLead
		return
	}
	c.writing = false
	if c.refuses != nil {
		close(c.quiet)
	}
}

// stop answers all who wait and takes no further change: nobody waits for ever for one who cannot go on.
func (c *committer) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses, c.writing = errStopped, false
	for _, o := range append(c.batch, c.waiting...) {
		if o != nil {
			o.woken <- errStopped
		}
	}
	c.batch, c.waiting = nil, nil
	close(c.quiet)
}

// close refuses new changes, and waits for those that were taken.
func (c *committer) close() {
	c.mu.Lock()
	if c.refuses == nil {
		c.refuses = journal.ErrClosed
		if !c.writing {
			close(c.quiet)
		}
	}
	c.mu.Unlock()
	<-c.quiet
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
	for i, o := range batch {
		c.release(o)
		answer := o.reject
		if err != nil && (o.reject == nil || errors.Is(err, errUnsure)) {
			answer = fmt.Errorf("writing the journal: %w", err)
		}
		batch[i] = nil
		o.woken <- answer
	}
}

func (c *committer) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuses != nil
}
