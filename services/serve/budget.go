package serve

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/semaphore"
)

// Budget bounds the bytes that all users together, and each user, hold at once. All its methods may be called concurrently.
type Budget struct {
	share int64 // of one user
	all   *semaphore.Weighted
	used  atomic.Int64

	mu    sync.Mutex // guards users and their holders
	users map[string]*userBudget
}

// userBudget exists while the user holds or awaits bytes.
type userBudget struct {
	*semaphore.Weighted
	holders int
}

// NewBudget returns a budget of so many bytes, of which one user gets at most half. The metrics pawl.budget.used and pawl.budget.limit show it under its name.
func NewBudget(name string, total int64) *Budget {
	b := &Budget{share: max(total/2, 1), all: semaphore.NewWeighted(total), users: map[string]*userBudget{}}
	observe := func(metricName, what string, value func() int64) {
		_, err := otel.Meter("pawl.dev/services/serve").Int64ObservableGauge(metricName, metric.WithUnit("By"), metric.WithDescription(what),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				o.Observe(value(), metric.WithAttributes(attribute.String("budget", name)))
				return nil
			}))
		if err != nil {
			otel.Handle(err)
		}
	}
	observe("pawl.budget.used", "Bytes that are held now.", b.used.Load)
	observe("pawl.budget.limit", "Bytes that may be held at once.", func() int64 { return total })
	return b
}

// Acquire waits until the user may hold so many bytes more, and returns a function that gives them back. More bytes than the user's share count as the share, so
// that one large message at a time gets through. The error is that of ctx.
func (b *Budget) Acquire(ctx context.Context, user string, bytes int64) (release func(), err error) {
	u := b.enter(user)
	bytes = min(bytes, b.share)
	if err := u.Acquire(ctx, bytes); err != nil {
		b.leave(user, u)
		return nil, err
	}
	if err := b.all.Acquire(ctx, bytes); err != nil {
		u.Release(bytes)
		b.leave(user, u)
		return nil, err
	}
	b.used.Add(bytes)
	return sync.OnceFunc(func() {
		b.used.Add(-bytes)
		b.all.Release(bytes)
		u.Release(bytes)
		b.leave(user, u)
	}), nil
}

func (b *Budget) enter(user string) *userBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.users[user]
	if u == nil {
		u = &userBudget{Weighted: semaphore.NewWeighted(b.share)}
		b.users[user] = u
	}
	u.holders++
	return u
}

func (b *Budget) leave(user string, u *userBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u.holders--; u.holders == 0 {
		delete(b.users, user)
	}
}
