package serve

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// Budget bounds the bytes that all users together, and each user, hold at once. All its methods may be called concurrently.
type Budget struct {
	total int64
	share int64 // of one user
	all   *semaphore.Weighted
	used  atomic.Int64

	mu    sync.Mutex // guards users and their holders
	users map[string]*userBudget
}

// userBudget exists while the user holds or awaits bytes.
type userBudget struct {
	*semaphore.Weighted
	share   int64
	holders int
}

// NewBudget returns a budget of so many bytes, of which one user gets at most half. The metrics pawl.budget.used and pawl.budget.limit show it under its name.
func NewBudget(name string, total int64) *Budget {
	b := &Budget{total: total, share: max(total/2, 1), all: semaphore.NewWeighted(total), users: map[string]*userBudget{}}
	attr := attribute.String("budget", name)
	observe("pawl.budget.used", "By", "Bytes that are held now.", b.used.Load, attr)
	observe("pawl.budget.limit", "By", "Bytes that may be held at once.", func() int64 { return total }, attr)
	return b
}

// Acquire waits until the user may hold so many bytes more. More bytes than the user's share count as the share, so that one large message at a
// time gets through. The empty user stands for services, whose share is the whole budget. The error is that of ctx.
func (b *Budget) Acquire(ctx context.Context, user string, bytes int64) (*Holding, error) {
	return b.acquire(user, bytes, func(s *semaphore.Weighted, n int64) error { return s.Acquire(ctx, n) })
}

// errNoRoom is the error of acquire if it would have to wait.
var errNoRoom = errors.New("the budget has no room now")

// TryAcquire is Acquire, but returns nil instead of waiting.
func (b *Budget) TryAcquire(user string, bytes int64) *Holding {
	held, _ := b.acquire(user, bytes, func(s *semaphore.Weighted, n int64) error {
		if !s.TryAcquire(n) {
			return errNoRoom
		}
		return nil
	})
	return held
}

func (b *Budget) acquire(user string, bytes int64, take func(*semaphore.Weighted, int64) error) (*Holding, error) {
	u := b.enter(user)
	bytes = min(bytes, u.share)
	if err := take(u.Weighted, bytes); err != nil {
		b.leave(user, u)
		return nil, err
	}
	if err := take(b.all, bytes); err != nil {
		u.Release(bytes)
		b.leave(user, u)
		return nil, err
	}
	b.used.Add(bytes)
	return &Holding{budget: b, user: user, of: u, bytes: bytes}, nil
}

// Reserve is Acquire for a request: it waits only for a moment, and its error tells the caller to come back. b may be nil, and then bounds nothing.
func (b *Budget) Reserve(ctx context.Context, user string, bytes int64) (*Holding, error) {
	if b == nil {
		return nil, nil //nolint:nilnil // a nil Holding holds nothing
	}
	waiting, cancel := context.WithTimeout(ctx, reserveWait)
	defer cancel()
	if b.isCrowded(user) {
		cancel()
	}
	held, err := b.Acquire(waiting, user, bytes)
	if err != nil {
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED,
			"requests in progress hold all the memory that you may use for them; wait until some have ended, send less at once, or close streams; "+
				"an operator can raise the bound with --request-bytes").WithRetryAfter(retryAfter)
	}
	return held, nil
}

// isCrowded reports whether the user has as many calls as could be worked on at once: while calls wait, they hold what has arrived of their requests.
func (b *Budget) isCrowded(user string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.users[user]
	return u != nil && int64(u.holders) >= u.share/callBytes
}

const (
	// reserveWait is how long a request waits for memory. Each new gRPC call of a user counts for the largest request until its own has arrived, so if the
	// processor is busy, even small calls wait for each other for a while.
	reserveWait = 3 * time.Second
	// retryAfter is when a refused client is told to come back.
	retryAfter = time.Second
)

// Holding is a part of a budget that is held. Its methods must not be called concurrently. A nil Holding holds nothing.
type Holding struct {
	budget *Budget
	user   string
	of     *userBudget
	bytes  int64
}

// Shrink gives all but so many bytes back.
func (h *Holding) Shrink(to int64) {
	if h == nil || h.bytes <= to {
		return
	}
	h.budget.used.Add(to - h.bytes)
	h.budget.all.Release(h.bytes - to)
	h.of.Release(h.bytes - to)
	if h.bytes = to; to == 0 {
		h.budget.leave(h.user, h.of)
	}
}

// Release gives all bytes back. Further calls do nothing.
func (h *Holding) Release() { h.Shrink(0) }

func (b *Budget) enter(user string) *userBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.users[user]
	if u == nil {
		share := b.share
		if user == "" {
			share = b.total
		}
		u = &userBudget{Weighted: semaphore.NewWeighted(share), share: share}
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

const (
	// callBytes and streamBytes are what a call and an open stream count for, besides a large request. They bound the calls of a user, too.
	callBytes   = 16 << 10
	streamBytes = 64 << 10
	// smallBytes is the size of requests that count for no more than their call.
	smallBytes = 64 << 10
)

// CallBytes returns what a call counts for when its request, of so many bytes, is received.
func CallBytes(streams bool, request int64) int64 {
	fixed := int64(callBytes)
	if streams {
		fixed = streamBytes
	}
	if request <= smallBytes {
		return fixed
	}
	return fixed + request
}

// budgetUser returns the user whose budget a caller uses; "" for services.
func budgetUser(p identity.Principal) string {
	if p.OnBehalf || p.Has(identity.RoleService) {
		return ""
	}
	return p.Sub
}
