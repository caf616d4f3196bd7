package oauth

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
)

// catchUpWait bounds how long a login that is refused waits for what other replicas know of it.
const catchUpWait = 2 * time.Second

// First returns the buckets in which the first of several replicas wins: a client's secret goes to the authorization server that
// accepted it first.
func First() []string { return []string{bucketIssuers} }

// Moved is a login that came or went on another replica.
type Moved struct{ User, Origin string }

// Applied applies what other replicas wrote. It returns the logins that appeared or vanished.
func (l *Logins) Applied(places []replica.Place) []Moved {
	var moved []Moved
	for _, p := range places {
		if p.Bucket != bucketTokens {
			l.vault.reload(p)
			continue
		}
		r := refOf(p.Key)
		before, _ := l.vault.token(r)
		l.vault.reload(p)
		now, _ := l.vault.token(r)
		l.mu.Lock()
		_, needed := l.needs[r]
		if now != nil && now != before || now == nil && before != nil {
			delete(l.needs, r)
		}
		l.mu.Unlock()
		if (before == nil) != (now == nil) || needed && now != before {
			moved = append(moved, Moved{r.user, r.origin})
		}
	}
	return moved
}

// renewedElsewhere returns the token that another replica of the pool has renewed meanwhile, or nil: refresh tokens are often valid
// once, and the other replica was faster.
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

// reload sets one entry to what is stored.
func (v *vault) reload(p replica.Place) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read(p.Bucket, p.Key)
}

// reloadChanged reads again what another replica wrote instead of these changes. Called with mu held.
func (v *vault) reloadChanged(changes []store.Change) {
	for _, c := range changes {
		if now, err := v.store.Get(c.Bucket, c.Key); err == nil && !bytes.Equal(now, c.Value) {
			v.read(c.Bucket, c.Key)
		}
	}
}

// read sets one entry to what is stored. A value that this key does not open counts as missing. Called with mu held.
func (v *vault) read(bucket, key string) {
	value, err := v.store.Get(bucket, key)
	if err != nil {
		return // it stays as it was
	}
	switch bucket {
	case bucketTokens:
		v.readToken(key, value)
	case bucketClients:
		delete(v.clients, key)
	case bucketIssuers:
		delete(v.issuers, key)
	}
	if value != nil && bucket != bucketTokens {
		_ = v.load(bucket, key, value) // what cannot be opened is not there
	}
}

// readToken is read for a login. Called with mu held.
func (v *vault) readToken(key string, value []byte) {
	r := refOf(key)
	_, rest, _ := strings.Cut(key, "\x00")
	_, issuer, _ := strings.Cut(rest, "\x00")
	if t := v.tokens[r]; t != nil && t.Issuer == issuer {
		delete(v.tokens, r)
	}
	if value == nil {
		if v.tokens[r] == nil {
			delete(v.sealed, r)
		}
		return
	}
	_ = v.load(bucketTokens, key, value) // notes what cannot be opened
}

// Readable reports whether this program knows the format of a stored value, whatever its key.
func Readable(value []byte) bool { return len(value) > 0 && value[0] <= recordVersion }
