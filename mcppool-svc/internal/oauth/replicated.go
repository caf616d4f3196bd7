package oauth

import (
	"context"
	"errors"
	"time"

	"pawl.dev/mcppool-svc/internal/replica"
)

// catchUpWait is how long a refused renewal waits for changes from other replicas.
const catchUpWait = 2 * time.Second

// First returns the buckets in which the first of concurrent writes wins: a configured client stays bound to the authorization server that
// accepted it first.
func First() []string { return []string{bucketIssuers} }

// LoginChange is a login that appeared or vanished on another replica.
type LoginChange struct{ User, Origin string }

// ApplyRemote applies the changes of other replicas. It returns the logins that appeared or vanished.
func (l *Logins) ApplyRemote(places []replica.Place) []LoginChange {
	var moved []LoginChange
	for _, p := range places {
		r := refOf(p.Key)
		before, _ := l.vault.token(r)
		l.vault.mu.Lock()
		l.vault.reload(p.Bucket, p.Key)
		l.vault.mu.Unlock()
		if p.Bucket != bucketTokens {
			continue
		}
		now, _ := l.vault.token(r)
		l.mu.Lock()
		_, needed := l.needs[r]
		if now != nil && now != before || now == nil && before != nil {
			delete(l.needs, r)
		}
		l.mu.Unlock()
		if (before == nil) != (now == nil) || needed && now != before {
			moved = append(moved, LoginChange{r.user, r.origin})
		}
	}
	return moved
}

// renewedElsewhere returns the token if another replica of the pool has renewed it meanwhile, else nil. Refresh tokens are often valid only
// once, so the renewal of this replica fails then.
func (l *Logins) renewedElsewhere(ctx context.Context, r ref, old *token, err error) *token {
	var d *denied
	if l.deps.CatchUp == nil || !errors.As(err, &d) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpWait)
	defer cancel()
	l.deps.CatchUp(ctx)
	now, _ := l.vault.token(r)
	if now == old {
		return nil
	}
	return now
}

// Readable reports whether this program knows the format of a stored value. It needs no key.
func Readable(value []byte) bool { return len(value) > 0 && value[0] == recordVersion }
