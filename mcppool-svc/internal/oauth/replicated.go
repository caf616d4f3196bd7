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

// LoginChange names a login that another replica changed.
type LoginChange struct{ User, Origin string }

// ApplyRemote applies the changes of other replicas. It returns the logins that appeared or vanished, and those that were replaced while
// this replica needed a new one.
func (l *Logins) ApplyRemote(places []replica.Place) []LoginChange {
	var changed []LoginChange
	for _, p := range places {
		r := refOf(p.Key)
		before, _ := l.vault.token(r)
		l.vault.mu.Lock()
		l.vault.reload(p.Bucket, p.Key)
		l.vault.mu.Unlock()
		if p.Bucket != bucketTokens {
			continue
		}
		current, _ := l.vault.token(r)
		l.mu.Lock()
		_, needed := l.needs[r]
		if current != nil && current != before || current == nil && before != nil {
			delete(l.needs, r)
		}
		l.mu.Unlock()
		if (before == nil) != (current == nil) || needed && current != before {
			changed = append(changed, LoginChange{r.user, r.origin})
		}
	}
	return changed
}

// renewedElsewhere returns the new token if the renewal of old was refused because another replica of the pool has renewed it, else nil.
// Refresh tokens are often valid only once.
func (l *Logins) renewedElsewhere(ctx context.Context, r ref, old *token, err error) *token {
	var d *tokenRefusal
	if l.deps.CatchUp == nil || !errors.As(err, &d) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpWait)
	defer cancel()
	l.deps.CatchUp(ctx)
	current, _ := l.vault.token(r)
	if current == old {
		return nil
	}
	return current
}

// Readable reports whether this program knows the format of a stored value. It needs no key.
func Readable(value []byte) bool { return len(value) > 0 && value[0] == recordVersion }
