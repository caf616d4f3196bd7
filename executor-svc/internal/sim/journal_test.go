package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// errStorage is the error of a disk that fails once.
var errStorage = errors.New("the disk failed")

// gated is the journal of one process: each call waits for the scheduler, may fail, and is written down once it is durable.
// A process can die on both sides of a change: before it is durable, and before its caller knows that it is.
type gated struct {
	journal.Journal
	w *world
	p *proc
}

type actorKey struct{}

// as returns a context that names the person who makes the call.
func as(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

func (g *gated) label(ctx context.Context, what, id string) string {
	actor, ok := ctx.Value(actorKey{}).(string)
	if !ok {
		actor = g.p.name
	}
	if id != "" {
		what += " " + g.w.book.name(id)
	}
	return actor + " " + what
}

// enter waits until the operation may begin. Storage may fail here, without having done anything.
func (g *gated) enter(label string, failOnce uint64) (roll, error) {
	r, err := g.w.s.pass(context.Background(), g.p.dead, label)
	if err != nil {
		return 0, journal.ErrClosed
	}
	if failOnce > 0 && r.oneIn(failOnce, 1) {
		g.w.s.note(label+" fails", r)
		return 0, errStorage
	}
	return r, nil
}

// leave waits until the caller may get the result. A change that is stored may still return an error.
func (g *gated) leave(label string, r roll, failOnce uint64, err error) error {
	if _, dead := g.w.s.pass(context.Background(), g.p.dead, label+" is done"); dead != nil {
		return journal.ErrClosed
	}
	if err == nil && failOnce > 0 && r.oneIn(failOnce, 2) {
		g.w.s.note(label+" is stored, but errs", r)
		return errStorage
	}
	return err
}

func (g *gated) change(ctx context.Context, what, id string, failOnce uint64, do func() error) error {
	label := g.label(ctx, what, id)
	r, err := g.enter(label, failOnce)
	if err != nil {
		return err
	}
	if err := g.leave(label, r, failOnce, do()); err != nil {
		return err
	}
	if _, person := ctx.Value(actorKey{}).(string); person {
		return ctx.Err() // the person has left
	}
	return nil
}

func (g *gated) read(ctx context.Context, what, id string, do func() error) error {
	if _, err := g.enter(g.label(ctx, what, id), g.w.cfg.readFails); err != nil {
		return err
	}
	return do()
}

func (g *gated) Create(ctx context.Context, n journal.NewTask) (id string, created bool, err error) {
	err = g.change(ctx, "create", "", g.w.cfg.writeFails, func() (err error) {
		if id, created, err = g.Journal.Create(ctx, n); err == nil && created {
			g.w.book.created(n)
		}
		return err
	})
	return id, created, err
}

func (g *gated) Commit(ctx context.Context, t journal.Transition) error {
	return g.change(ctx, "commit"+kinds(t.Record), t.TaskID, g.w.cfg.writeFails, func() error {
		g.w.book.commits(g.p, t)
		err := g.Journal.Commit(ctx, t)
		if err == nil {
			g.w.book.committed(t)
		}
		return err
	})
}

// kinds names what a record holds, for the trace.
func kinds(r *storagev1.Record) string {
	var b strings.Builder
	for _, f := range r.GetFacts() {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", f.GetKind()), "*storagev1.Fact_")
		fmt.Fprintf(&b, " %s(%d/%d)", kind, f.GetOrdinal(), f.GetAttempt())
	}
	return b.String()
}

func (g *gated) Send(ctx context.Context, id string, c *storagev1.Command) (no uint64, err error) {
	what := "send " + strings.TrimPrefix(fmt.Sprintf("%T", c.GetKind()), "*storagev1.Command_")
	err = g.change(ctx, what, id, g.w.cfg.writeFails, func() (err error) {
		if no, err = g.Journal.Send(ctx, id, c); err == nil {
			g.w.book.sent(ctx, id, c)
		}
		return err
	})
	return no, err
}

func (g *gated) Claim(ctx context.Context, r journal.ClaimRequest) (c journal.Claims, err error) {
	if _, err = g.enter(g.label(ctx, "claim", ""), g.w.cfg.readFails); err != nil {
		return c, err
	}
	if c, err = g.Journal.Claim(ctx, r); err == nil {
		for _, claim := range c.Claims {
			g.w.s.note(fmt.Sprintf("%s owns %s, slot: %t", g.p.name, g.w.book.name(claim.TaskID), claim.Slot), 0)
		}
		g.w.book.claimed(g.p, c.Claims)
	}
	return c, err
}

// Renew may find that a claim was lost: its owner was stalled for too long, and goes on for a while before it learns that.
func (g *gated) Renew(ctx context.Context, claims []journal.Claim, now time.Time, lease time.Duration) (lost []string, err error) {
	label := g.label(ctx, "renew", "")
	r, err := g.enter(label, g.w.cfg.readFails)
	if err != nil {
		return nil, err
	}
	if lost, err = g.Journal.Renew(ctx, claims, now, lease); err != nil {
		return nil, err
	}
	if len(claims) > 0 && r.oneIn(g.w.cfg.claimsLost, 50) {
		claims = slices.SortedFunc(slices.Values(claims), func(a, b journal.Claim) int { return strings.Compare(a.TaskID, b.TaskID) })
		c := claims[r.draw(uint64(len(claims)), 51)]
		g.w.s.note(g.p.name+" loses its claim of "+g.w.book.name(c.TaskID), r)
		g.w.book.lost(g.p, c.TaskID, c.Epoch)
		if err := g.Journal.Yield(ctx, c.TaskID, c.Epoch); err != nil {
			return nil, err
		}
		lost = append(lost, c.TaskID)
	}
	return lost, g.leave(label, r, 0, nil)
}

func (g *gated) Yield(ctx context.Context, id string, epoch uint64) error {
	if _, err := g.enter(g.label(ctx, "yield", id), 0); err != nil {
		return err
	}
	g.w.book.yielded(id, epoch)
	return g.Journal.Yield(ctx, id, epoch)
}

func (g *gated) Delete(ctx context.Context, id string) error {
	return g.change(ctx, "delete", id, g.w.cfg.writeFails, func() error {
		err := g.Journal.Delete(ctx, id)
		if err == nil {
			g.w.book.deleted(id)
		}
		return err
	})
}

func (g *gated) Inbox(ctx context.Context, id string) (in []journal.Command, err error) {
	err = g.read(ctx, "inbox", id, func() (err error) {
		if in, err = g.Journal.Inbox(ctx, id); err == nil {
			g.w.book.looked(g.p, id, in)
		}
		return err
	})
	return in, err
}

func (g *gated) Load(ctx context.Context, id string) (t *journal.Task, err error) {
	err = g.read(ctx, "load", id, func() (err error) { t, err = g.Journal.Load(ctx, id); return err })
	return t, err
}

func (g *gated) Records(ctx context.Context, id string, after uint64, maxBytes int) (rs []journal.Record, err error) {
	err = g.read(ctx, "records", id, func() (err error) { rs, err = g.Journal.Records(ctx, id, after, maxBytes); return err })
	return rs, err
}

func (g *gated) List(ctx context.Context, q journal.Query) (p journal.Page, err error) {
	err = g.read(ctx, "list", "", func() (err error) { p, err = g.Journal.List(ctx, q); return err })
	return p, err
}

func (g *gated) FindRequest(ctx context.Context, user, requestID string) (t *journal.Task, err error) {
	err = g.read(ctx, "find "+requestID, "", func() (err error) { t, err = g.Journal.FindRequest(ctx, user, requestID); return err })
	return t, err
}

func (g *gated) Admit(ctx context.Context, user string, a journal.Admission) error {
	return g.read(ctx, "admit", "", func() error { return g.Journal.Admit(ctx, user, a) })
}

func (g *gated) Agent(ctx context.Context, user, id string) (a *storagev1.Agent, err error) {
	err = g.read(ctx, "agent", "", func() (err error) { a, err = g.Journal.Agent(ctx, user, id); return err })
	return a, err
}

// Sweep is never used: nothing here is old enough.
func (g *gated) Sweep(context.Context, time.Time, int) (int, error) { return 0, nil }
