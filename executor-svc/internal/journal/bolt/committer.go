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

// maxBatch bounds how many changes share one fsync, so that a batch does not grow without end under load.
const maxBatch = 1024

// operation is a change of the journal that waits for its batch.
type operation struct {
	// run makes the change. It checks first and writes then: a rejection leaves the batch untouched, an err spoils it.
	run func(t *table, o *operation) (rejection, err error)
	// owned: due.begin was called for task.
	owned bool
	task  uuid.UUID
	// changes are given to due once they are durable.
	changes   []dueChange
	rejection error
	// answer receives the result of the change, or errLead.
	answer chan error
}

var (
	// errLead tells a waiting goroutine to write the next batch.
	errLead = errors.New("lead the next batch")
	// errPanicked is returned to goroutines whose batch another one wrote that panicked.
	errPanicked = errors.New("a program error stopped the journal in the middle of a change; whether the change is stored is unknown; start pawl again")
)

// committer is a group commit without a timer and without a goroutine of its own: changes share one fsync with all that
// arrived while the batch before was written. A change that arrives while nothing is written is written at once; otherwise
// it waits in the next batch, which the goroutine of its first change writes.
type committer struct {
	file *file
	due  *due
	free sync.Pool

	// batch and lastSize belong to the goroutine that leads. Answered changes are nil in batch.
	batch    []*operation
	lastSize int

	mu      sync.Mutex // guards the fields below
	waiting []*operation
	leading bool
	// closed is the answer to new changes; nil while they are accepted.
	closed error
	// idle is closed when no goroutine leads and new changes are refused.
	idle chan struct{}
}

func newCommitter(f *file, d *due) *committer {
	c := &committer{file: f, due: d, idle: make(chan struct{})}
	c.free.New = func() any { return &operation{answer: make(chan error, 1)} }
	return c
}

// do makes a change and returns once it is durable or refused. It does not end with a context, because its caller has to
// know whether the change is stored.
func (c *committer) do(run func(t *table, o *operation) (rejection, err error)) error {
	o := c.free.Get().(*operation)
	o.run = run
	lead, err := c.join(o)
	if err != nil {
		return err
	}
	if !lead {
		err = <-o.answer
		lead = err == errLead //nolint:errorlint // it is never wrapped
	}
	if lead {
		c.lead()
		err = <-o.answer
	}
	o.run = nil
	c.free.Put(o)
	return err
}

// join adds a change to the next batch, and reports whether the caller must write that batch.
func (c *committer) join(o *operation) (lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return false, c.closed
	}
	c.waiting = append(c.waiting, o)
	lead = !c.leading
	c.leading = true
	return lead, nil
}

// lead writes one batch, and hands the next one to the first goroutine that waits.
func (c *committer) lead() {
	finished := false
	defer func() {
		if !finished {
			c.abort()
		}
	}()
	c.gather()
	// The callers that were just answered are about to come back: yielding to each lets them share this fsync.
	for n := len(c.batch); n < c.lastSize; n = len(c.batch) {
		runtime.Gosched()
		if c.gather(); len(c.batch) == n {
			break
		}
	}
	c.lastSize = len(c.batch)
	for rest := c.batch; len(rest) > 0; {
		n, err := c.write(rest)
		c.settle(rest[:n], err)
		rest = rest[n:]
	}
	c.batch = c.batch[:0]
	finished = true

	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		c.waiting[0].answer <- errLead
		return
	}
	c.leading = false
	if c.closed != nil {
		close(c.idle)
	}
}

// gather moves waiting changes into the batch.
func (c *committer) gather() {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), maxBatch-len(c.batch))
	c.batch = append(c.batch, c.waiting[:n]...)
	c.waiting = slices.Delete(c.waiting, 0, n)
}

// abort answers everyone after a panic in lead and accepts no further change.
func (c *committer) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.leading = errPanicked, false
	for _, o := range append(c.batch, c.waiting...) {
		if o != nil {
			o.answer <- errPanicked
		}
	}
	c.batch, c.waiting = nil, nil
	close(c.idle)
}

// write makes the first changes of a batch durable as one record of the log, and returns how many.
func (c *committer) write(batch []*operation) (n int, err error) {
	run := func(t *table) (changed bool, err error) {
		for n < len(batch) && len(t.batch.record) < maxRecord {
			o := batch[n]
			n++
			c.release(o) // a change that is tried again
			o.changes = o.changes[:0]
			if o.rejection, err = o.run(t, o); err != nil {
				return false, err
			}
			if o.rejection != nil {
				o.changes = o.changes[:0]
			} else {
				changed = true
			}
		}
		return changed, nil
	}
	published := func() {
		for _, o := range batch[:n] {
			for _, change := range o.changes {
				c.due.apply(change)
			}
		}
	}
	err = c.file.update(run, published)
	if n == 0 { // it failed before it ran any
		n = len(batch)
	}
	return n, err
}

// settle answers the changes of a batch. If the batch failed, each change is tried alone, so that one that cannot be written
// does not take others with it.
func (c *committer) settle(batch []*operation, err error) {
	if err != nil && len(batch) > 1 && !errors.Is(err, errFull) && !errors.Is(err, errSync) {
		for i := range batch {
			_, err := c.write(batch[i : i+1])
			c.settle(batch[i:i+1], err)
		}
		return
	}
	for i, o := range batch {
		c.release(o)
		answer := o.rejection
		if err != nil && answer == nil {
			answer = fmt.Errorf("writing the journal: %w", err)
		}
		o.rejection, batch[i] = nil, nil
		o.answer <- answer
	}
}

func (c *committer) release(o *operation) {
	if o.owned {
		c.due.end(o.task)
		o.owned = false
	}
}

// close refuses new changes and waits for those that were accepted.
func (c *committer) close() {
	c.mu.Lock()
	if c.closed == nil {
		c.closed = journal.ErrClosed
		if !c.leading {
			close(c.idle)
		}
	}
	c.mu.Unlock()
	<-c.idle
}

func (c *committer) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed != nil
}
