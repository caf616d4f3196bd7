package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"

	"pawl.dev/services/audit"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Sender delivers events. Each webhook with pending deliveries has one goroutine, which makes one attempt at a time, so that a receiver that hangs delays no
// other, and one that works gets the events in their order.
type Sender struct {
	Deps
	metrics metrics
	// reading bounds how many goroutines read events from the journal at once.
	reading chan struct{}
	// posting bounds the events that are posted at once, of all users and of each.
	posting *serve.Budget
	// maxPending is the constant, or less in a test.
	maxPending int

	mu sync.Mutex // guards the fields below
	// ctx is Run's. workers has the running goroutines; nil before Run and after it.
	ctx     context.Context
	workers map[journal.WebhookRef]*worker
	wg      sync.WaitGroup // counts them
}

// Deps are what a Sender uses.
type Deps struct {
	Journal   journal.Journal
	Secrets   Secrets
	Receivers *Receivers
	Log       *slog.Logger
	// Audit gets a record of each change of a webhook; may be nil.
	Audit *audit.Log
}

const (
	// maxReading is how many goroutines read events at once.
	maxReading = 2
	// maxPosting is how many posts are in flight, those of all users together. A post counts for the largest event.
	maxPosting = 64
	// maxPending is how many deliveries of a webhook stay pending. The bound is applied each time a tenth as many further ones were stored.
	maxPending = 10_000
	// page is how many deliveries are read at once.
	page = 100
	// retryDelay is the pause before a failed use of the journal is repeated.
	retryDelay = 5 * time.Second
	// outage is how many failures in a row mean that the receiver is down.
	outage = 3
)

// New returns a Sender that does nothing until Run.
func New(d Deps) *Sender {
	return &Sender{
		Deps: d, metrics: newMetrics(otel.Meter("pawl.dev/executor-svc"), d.Log),
		reading: make(chan struct{}, maxReading), posting: serve.NewBudget("webhook", maxPosting*maxData), maxPending: maxPending,
	}
}

// Run delivers events until ctx is done.
func (s *Sender) Run(ctx context.Context) {
	s.mu.Lock()
	s.ctx, s.workers = ctx, map[journal.WebhookRef]*worker{}
	s.mu.Unlock()
	s.Journal.OnDelivery(s.stored)
	for {
		pending, err := s.Journal.PendingWebhooks(ctx)
		for _, ref := range pending {
			s.wake(ref, false)
		}
		if err == nil {
			break
		}
		s.Log.Error("the pending webhook deliveries cannot be read; retrying", "error", err)
		if !sleep(ctx, retryDelay) {
			break
		}
	}
	<-ctx.Done()
	s.mu.Lock()
	s.workers = nil
	s.mu.Unlock()
	s.wg.Wait()
}

// Wake makes the webhook's pending deliveries that are due be attempted now, after a change of the webhook or of a delivery.
func (s *Sender) Wake(ref journal.WebhookRef) { s.wake(ref, true) }

// stored wakes the goroutine of a webhook for which a delivery was stored.
func (s *Sender) stored(ref journal.WebhookRef) {
	if w := s.wake(ref, false); w != nil {
		w.unchecked.Add(1)
	}
}

// wake wakes the goroutine of a webhook, or starts one, and returns its worker; nil if the Sender does not run. It does not block. If urgent is true, the
// goroutine does not pause.
func (s *Sender) wake(ref journal.WebhookRef, urgent bool) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers == nil {
		return nil // Run finds what is pending
	}
	w := s.workers[ref]
	if w == nil {
		w = &worker{sender: s, ref: ref, more: make(chan struct{}, 1), down: true}
		w.unchecked.Store(int64(s.maxPending))
		s.workers[ref] = w
		s.wg.Go(func() { w.run(s.ctx) })
	}
	if urgent {
		w.urgent.Store(true)
	}
	select {
	case w.more <- struct{}{}:
	default:
	}
	return w
}

// worker delivers the events of one webhook.
type worker struct {
	sender *Sender
	ref    journal.WebhookRef
	// more receives a value when there may be deliveries that the worker has not seen. urgent is set if it must not pause.
	more   chan struct{}
	urgent atomic.Bool
	// unchecked counts the deliveries that were stored since the number of pending ones was checked.
	unchecked atomic.Int64
	// failures counts the failed attempts in a row; after the last one, the worker pauses. recovered is when the receiver accepted an event after an outage.
	failures          uint32
	paused, recovered time.Time
	// down is true if no event was the reason of the last failure: what failed then is not to be overtaken. It is true at first, because an outage may have
	// begun before the executor started.
	down bool
}

// run attempts deliveries until none is pending.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		next, idle, err := w.step(ctx)
		switch {
		case idle && w.end():
			return
		case err != nil && ctx.Err() == nil:
			w.sender.Log.Error("a webhook's deliveries cannot be read or stored; retrying", "webhook", w.ref.ID, "error", err)
			next = time.Now().Add(retryDelay)
		}
		if !next.IsZero() {
			w.sleep(ctx, next)
		}
	}
}

// step attempts one delivery if the worker is not paused and one is due. It returns when the next step is to be made, zero for at once, and whether none is
// pending.
func (w *worker) step(ctx context.Context) (next time.Time, idle bool, err error) {
	if w.urgent.Swap(false) {
		w.paused = time.Time{}
	}
	if n := w.unchecked.Load(); n >= int64(w.sender.maxPending/10) {
		if err := w.sender.failOldest(ctx, w.ref); err != nil {
			return next, false, err
		}
		w.unchecked.Add(-n)
	}
	hook, d, next, err := w.pick(ctx)
	switch {
	case err != nil || d == nil:
		return next, err == nil && next.IsZero(), err
	case w.paused.After(time.Now()):
		return w.paused, false, nil
	}
	return time.Time{}, false, w.deliver(ctx, hook, *d)
}

// sleep waits until a time, a wake or the end of ctx.
func (w *worker) sleep(ctx context.Context, until time.Time) {
	wait := time.NewTimer(time.Until(until))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-w.more:
	case <-ctx.Done():
	}
}

// end removes the worker unless it was woken.
func (w *worker) end() bool {
	w.sender.mu.Lock()
	defer w.sender.mu.Unlock()
	select {
	case <-w.more:
		return false
	default:
	}
	delete(w.sender.workers, w.ref)
	return true
}

// pick returns the delivery to attempt next: of those that are due the one that was refused least often, then the oldest, so that an event that the receiver
// never accepts does not hold up others. While the receiver is down, it returns the oldest of all instead, and later the events that failed because of that
// before newer ones, so that the receiver gets them in their order. If none is due, it returns when the next one is; zero if none is pending. The deliveries of a disabled webhook are due when they are to fail.
func (w *worker) pick(ctx context.Context) (hook *storagev1.Webhook, d *journal.Delivery, next time.Time, err error) {
	hook, err = w.sender.Journal.Webhook(ctx, w.ref)
	if err != nil {
		return nil, nil, time.Time{}, ignoreDeleted(err)
	}
	var p picked
	for after := uint64(0); p.due == nil || p.due.GetRefusals() > 0; {
		batch, err := w.sender.Journal.Deliveries(ctx, journal.DeliveryQuery{WebhookID: w.ref.ID, After: after, Limit: page})
		if err != nil {
			return nil, nil, time.Time{}, err
		}
		if len(batch) == 0 {
			break
		}
		after = batch[len(batch)-1].No
		for _, one := range batch {
			p.add(&one, w.dueTime(hook, one))
		}
	}
	d = p.due
	switch {
	case d == nil || hook.GetDisabled():
	case w.down:
		d = p.oldest
	case d.GetRefusals() == 0 && p.overdue != nil && p.overdue.No < d.No:
		d = p.overdue
	}
	return hook, d, p.next, nil
}

// picked holds the deliveries of a webhook that may be attempted next.
type picked struct {
	oldest  *journal.Delivery
	overdue *journal.Delivery // the oldest that was attempted, but not refused
	due     *journal.Delivery // the one that was refused least often of those that are due
	next    time.Time         // when the next of the others is due
}

// add adds the next delivery, which is due at a time.
func (p *picked) add(d *journal.Delivery, at time.Time) {
	p.oldest = cmp.Or(p.oldest, d)
	if d.GetAttempts() > 0 && d.GetRefusals() == 0 {
		p.overdue = cmp.Or(p.overdue, d)
	}
	switch isDue := !at.After(time.Now()); {
	case isDue && (p.due == nil || d.GetRefusals() < p.due.GetRefusals()):
		p.due = d
	case !isDue && (p.next.IsZero() || at.Before(p.next)):
		p.next = at
	}
}

// dueTime returns when a delivery is to be attempted, or to fail if the webhook is disabled. After an outage, all that were attempted during it are due.
func (w *worker) dueTime(hook *storagev1.Webhook, d journal.Delivery) time.Time {
	switch {
	case hook.GetDisabled():
		return time.Unix(0, d.GetStartTime()).Add(giveUpAfter)
	case d.GetAttemptTime() < w.recovered.UnixNano():
		return time.Time{}
	}
	return time.Unix(0, d.GetNextTime())
}

// deliver makes one attempt, or fails a delivery that is too old while the receiver accepts nothing or the webhook is disabled.
func (w *worker) deliver(ctx context.Context, hook *storagev1.Webhook, d journal.Delivery) error {
	if hook.GetDisabled() {
		d.Error = cmp.Or(d.GetError(), "the webhook was disabled for "+giveUpAfter.String())
		return w.sender.fail(ctx, w.ref, d)
	}
	if w.failures > 0 && time.Since(time.Unix(0, d.GetStartTime())) > giveUpAfter {
		d.Error = cmp.Or(d.GetError(), "the receiver accepted nothing for "+giveUpAfter.String())
		return w.sender.fail(ctx, w.ref, d)
	}
	r, err := w.sender.attempt(ctx, w.ref, hook, d)
	if err != nil {
		return err
	}
	switch {
	case r.Problem != "":
		w.down = r.Down
		w.failures++
		w.paused = time.Now().Add(max(backoff(w.failures, firstPause, 2, lastPause), r.RetryAfter))
		return nil
	case w.failures >= outage:
		w.recovered = time.Now()
	}
	w.failures = 0
	return nil
}

// sleep waits, and returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// enter takes a place in a semaphore. The caller returns it by receiving from sem.
func enter(ctx context.Context, sem chan struct{}) error {
	select {
	case sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
