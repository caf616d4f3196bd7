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

// maxBatch bounds how many changes share one fsync, so that a batch does not grow without bound under load.
const maxBatch = 1024

// operation is a change of the journal, from its submission until it is answered.
type operation struct {
	// run checks the change, then makes it. An error before the first write rejects this change only; a later one fails the batch.
	run func(t *table, o *operation) error
	// owned reports that due.beginWrite returned true for task.
	owned bool
	task  uuid.UUID
	// changes are passed to due once they are durable, used to usage, hooked to webhooks.
	changes   []dueChange
	used      []userBytes
	hooked    []hookChange
	rejection error
	// answer receives the result of the change, or errLead.
	answer chan error
}

// userBytes is by how many bytes a change changes what a user's tasks and topics take.
type userBytes struct {
	user  string
	bytes int64
}

// count adds to the bytes of a user.
func (o *operation) count(user string, bytes int64) { o.used = append(o.used, userBytes{user, bytes}) }

var (
	// errLead tells a waiting goroutine to write the next batch.
	errLead = errors.New("lead the next batch")
	// errPanicked is the answer to changes if the goroutine that leads panics.
	errPanicked = errors.New("a program error stopped the journal in the middle of a change; whether the change is stored is unknown; start pawl again")
)

// committer is a group commit without a timer and without a goroutine of its own. A change that arrives while nothing is written
// is written at once. Otherwise it waits for the next batch, whose changes share one fsync; the goroutine of the batch's first
// change writes it.
type committer struct {
	file  *file
	due   *due
	usage *usage
	hooks *hooks

	// batch and lastSize belong to the goroutine that leads. Answered changes are nil in batch.
	batch    []*operation
	lastSize int

	mu      sync.Mutex // guards the fields below
	waiting []*operation
	leading bool
	// closed is the error for new changes; nil while they are accepted.
	closed error
	// idle is closed when no goroutine leads and new changes are refused.
	idle chan struct{}
}

func newCommitter(f *file, d *due, u *usage, h *hooks) *committer {
	return &committer{file: f, due: d, usage: u, hooks: h, idle: make(chan struct{})}
}

// do makes a change and returns once it is durable or rejected. It takes no context, because its caller has to know whether the
// change is stored.
func (c *committer) do(run func(t *table, o *operation) error) error {
	o := &operation{run: run, answer: make(chan error, 1)}
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
	// The callers that were just answered are about to submit again: yielding lets them share this fsync.
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

// abort answers all changes after a panic in lead, and accepts no further changes.
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

// write makes the first n changes of a batch durable, as many as fit into one record of the log. err is their result.
func (c *committer) write(batch []*operation) (n int, err error) {
	run := func(t *table) error {
		for n < len(batch) && len(t.batch.record) < maxRecord {
			o := batch[n]
			n++
			c.release(o) // if an earlier attempt failed
			o.changes, o.rejection, o.used, o.hooked = o.changes[:0], nil, o.used[:0], o.hooked[:0]
			written := len(t.batch.record)
			if err := o.run(t, o); err != nil {
				if len(t.batch.record) > written {
					return err
				}
				o.changes, o.rejection, o.used, o.hooked = o.changes[:0], err, o.used[:0], o.hooked[:0]
			}
		}
		return nil
	}
	publish := func() {
		for _, o := range batch[:n] {
			for _, change := range o.changes {
				c.due.apply(change)
			}
			for _, u := range o.used {
				c.usage.add(u.user, u.bytes)
			}
			for _, h := range o.hooked {
				c.hooks.apply(h)
			}
		}
	}
	err = c.file.update(run, publish)
	if n == 0 { // update failed before it ran a change
		n = len(batch)
	}
	return n, err
}

// settle answers the changes of a batch. If the batch failed, but not with errFull or errSync, each change is first tried alone, because
// only one of them may have failed.
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
		batch[i] = nil
		o.answer <- answer
	}
}

// release ends the beginWrite of an operation.
func (c *committer) release(o *operation) {
	if o.owned {
		c.due.endWrite(o.task)
		o.owned = false
	}
}

// close refuses new changes and waits for the accepted ones.
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
