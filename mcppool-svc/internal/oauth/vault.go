package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/seal"
)

// Buckets of the store. All values are encrypted.
const (
	bucketTokens  = "logins"        // user, server's origin, issuer → token
	bucketClients = "login_clients" // issuer, redirect address → registration
	bucketIssuers = "login_issuers" // server's origin, client id → binding
)

// Buckets returns the buckets that the store must have.
func Buckets() []string { return []string{bucketTokens, bucketClients, bucketIssuers} }

// recordVersion is the format version of a stored value, and its first byte.
const recordVersion = 1

// maxTokens bounds the stored logins of one user; the oldest is dropped.
const maxTokens = 1000

// ref identifies a token by its user ("" for the pool's own) and its server.
type ref struct{ user, origin string }

// token is a login, as stored. It is replaced, never modified.
type token struct {
	Issuer   string    `json:"issuer"`
	Resource string    `json:"resource"`
	Endpoint string    `json:"token_endpoint"`
	Revoke   string    `json:"revocation_endpoint,omitempty"`
	Client   client    `json:"client"`
	Access   string    `json:"access"`
	Refresh  string    `json:"refresh,omitempty"`
	Wanted   []string  `json:"wanted,omitempty"` // the requested scopes
	Scopes   []string  `json:"scopes,omitempty"` // the granted scopes
	Obtained time.Time `json:"obtained"`
	Expiry   time.Time `json:"expiry,omitzero"`
	// StepUps counts the consecutive logins that were made to get more rights.
	StepUps int `json:"step_ups,omitempty"`
}

// binding is the issuer that a configured client is bound to.
type binding struct {
	Issuer string `json:"issuer"`
}

// vault keeps tokens, registrations and bindings: encrypted in the store, and in plain text in memory.
type vault struct {
	store store.Store
	box   *seal.Box

	// writes is held during a change, including its commit to the store. mu is not held during the commit.
	writes sync.Mutex

	mu      sync.RWMutex
	tokens  map[ref]*token          // guarded by mu
	sealed  map[ref]bool            // guarded by mu; refs that have only tokens that this key cannot decrypt
	clients map[string]registration // guarded by mu; by key
	issuers map[string]binding      // guarded by mu; by key
}

// openVault reads the stored logins. lost is the number of values that this key cannot decrypt.
func openVault(st store.Store, box *seal.Box) (v *vault, lost int, err error) {
	v = &vault{
		store: st, box: box, tokens: make(map[ref]*token), sealed: make(map[ref]bool),
		clients: make(map[string]registration), issuers: make(map[string]binding),
	}
	for _, bucket := range Buckets() {
		err := st.Load(bucket, func(key string, value []byte) error {
			err := v.set(bucket, key, value)
			if errors.Is(err, seal.ErrOtherKey) {
				lost++
				return nil
			}
			return err
		})
		if err != nil {
			return nil, 0, fmt.Errorf("reading the stored logins: %w", err)
		}
	}
	return v, lost, nil
}

// set updates the entry in memory from a stored value; nil deletes the entry. If this key cannot decrypt the value, set deletes the entry, marks
// a ref without another token as sealed, and returns seal.ErrOtherKey. Called with mu held, or before the vault is shared.
func (v *vault) set(bucket, key string, value []byte) error {
	switch bucket {
	case bucketClients:
		return setIn(v, v.clients, bucket, key, value)
	case bucketIssuers:
		return setIn(v, v.issuers, bucket, key, value)
	}
	r := refOf(key)
	if t := v.tokens[r]; t != nil && key == r.key(t.Issuer) {
		delete(v.tokens, r)
	}
	old := v.tokens[r]
	if value == nil {
		if old == nil {
			delete(v.sealed, r)
		}
		return nil
	}
	var t token
	if err := v.unseal(bucket, key, value, &t); err != nil {
		v.sealed[r] = v.sealed[r] || old == nil
		return err
	}
	if old == nil || old.Obtained.Before(t.Obtained) {
		v.tokens[r] = &t
	}
	delete(v.sealed, r)
	return nil
}

func setIn[T any](v *vault, values map[string]T, bucket, key string, value []byte) error {
	delete(values, key)
	if value == nil {
		return nil
	}
	var read T
	err := v.unseal(bucket, key, value, &read)
	if err == nil {
		values[key] = read
	}
	return err
}

// reload updates one entry in memory from the store. Called with mu held.
func (v *vault) reload(bucket, key string) {
	if value, err := v.store.Get(bucket, key); err == nil { // on errors the entry stays as it was
		_ = v.set(bucket, key, value)
	}
}

// commit stores changes, and then reloads their entries, because another replica may have written too. Called with writes held.
func (v *vault) commit(doing string, changes ...store.Change) error {
	if err := v.store.Apply(changes...); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrStorage, doing, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range changes {
		v.reload(c.Bucket, c.Key)
	}
	return nil
}

func (r ref) key(issuer string) string { return r.user + "\x00" + r.origin + "\x00" + issuer }

func refOf(key string) ref {
	user, rest, _ := strings.Cut(key, "\x00")
	origin, _, _ := strings.Cut(rest, "\x00")
	return ref{user, origin}
}

// seal encrypts a value for its place in the store. In another place it cannot be decrypted.
func (v *vault) seal(bucket, key string, value any) store.Change {
	return store.Change{Bucket: bucket, Key: key, Value: v.box.Seal([]byte{recordVersion}, store.Encode(value), bucket+"\x00"+key)}
}

// unseal decrypts a stored value into to. It returns seal.ErrOtherKey if this key cannot decrypt the value.
func (v *vault) unseal(bucket, key string, value []byte, to any) error {
	switch {
	case len(value) > 0 && (value[0] == 0 || value[0] == '{'): // '{' begins unencrypted JSON
		return errors.New("a login has no format version; restore the store from a backup")
	case len(value) > 0 && value[0] > recordVersion:
		return fmt.Errorf("a login was written by a newer version of this program (format %d); use that version", value[0])
	case len(value) == 0:
		return seal.ErrOtherKey
	}
	text, err := v.box.Open(value[1:], bucket+"\x00"+key)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// token returns a login, or nil. sealed reports that a login is stored that this key cannot decrypt.
func (v *vault) token(r ref) (t *token, sealed bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.tokens[r], v.sealed[r]
}

// put stores a login. If old is not nil and no longer the current login, put stores nothing and returns false. If a renewed login cannot be
// stored, put uses it in memory, and returns true and the error.
func (v *vault) put(r ref, t, old *token) (bool, error) {
	v.writes.Lock()
	defer v.writes.Unlock()
	before, _ := v.token(r)
	if old != nil && before != old {
		return false, nil
	}
	var changes []store.Change
	if before != nil && before.Issuer != t.Issuer {
		changes = append(changes, store.Change{Bucket: bucketTokens, Key: r.key(before.Issuer)})
	}
	if spare, found := v.oldest(r); found != nil {
		changes = append(changes, store.Change{Bucket: bucketTokens, Key: spare.key(found.Issuer)})
	}
	err := v.commit("storing a login", append(changes, v.seal(bucketTokens, r.key(t.Issuer), t))...)
	if err != nil && old != nil {
		// Use the renewed login although it is not stored: the old one may no longer be valid.
		v.mu.Lock()
		defer v.mu.Unlock()
		v.tokens[r] = t
		return true, err
	}
	return err == nil, err
}

// dropRefresh removes the refresh token of a login, but only in memory: another replica may have renewed the login.
func (v *vault) dropRefresh(r ref, old *token) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.tokens[r] != old {
		return
	}
	t := *old
	t.Refresh = ""
	v.tokens[r] = &t
}

// oldest returns the user's login that is dropped to store r, or nil if there is room.
func (v *vault) oldest(r ref) (ref, *token) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	mine := make(map[ref]*token)
	for other, t := range v.tokens {
		if other.user == r.user && other != r {
			mine[other] = t
		}
	}
	if len(mine) < maxTokens {
		return ref{}, nil
	}
	which := store.Oldest(mine, func(t *token) time.Time { return t.Obtained })
	return which, mine[which]
}

// remove deletes the logins that match. It returns the deleted logins that this key can decrypt.
func (v *vault) remove(match func(ref) bool) (deleted []*token, err error) {
	v.writes.Lock()
	defer v.writes.Unlock()
	var changes []store.Change
	err = v.store.Load(bucketTokens, func(key string, _ []byte) error {
		r := refOf(key)
		if !match(r) {
			return nil
		}
		if t, _ := v.token(r); t != nil && key == r.key(t.Issuer) {
			deleted = append(deleted, t)
		}
		changes = append(changes, store.Change{Bucket: bucketTokens, Key: key})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: deleting a login: %w", ErrStorage, err)
	}
	if len(changes) == 0 {
		return nil, nil
	}
	return deleted, v.commit("deleting a login", changes...)
}

func (v *vault) registration(key string) (registration, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	r, ok := v.clients[key]
	return r, ok
}

// putRegistration stores a client; if there are too many, the oldest is dropped.
func (v *vault) putRegistration(key string, r registration) error {
	v.writes.Lock()
	defer v.writes.Unlock()
	changes := []store.Change{v.seal(bucketClients, key, r)}
	v.mu.RLock()
	if _, known := v.clients[key]; !known && len(v.clients) >= maxRegistrations {
		spare := store.Oldest(v.clients, func(r registration) time.Time { return r.Time })
		changes = append(changes, store.Change{Bucket: bucketClients, Key: spare})
	}
	v.mu.RUnlock()
	return v.commit("storing a registered client", changes...)
}

// dropRegistration deletes a client. If that fails, the next login finds out again that the client is unknown.
func (v *vault) dropRegistration(key string) {
	v.writes.Lock()
	defer v.writes.Unlock()
	_ = v.commit("deleting a registered client", store.Change{Bucket: bucketClients, Key: key})
}

// boundTo returns the issuer that a configured client is bound to; empty: none yet.
func (v *vault) boundTo(key string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.issuers[key].Issuer
}

// bind binds a configured client to an issuer; an empty issuer removes the binding.
func (v *vault) bind(key, issuer string) error {
	if v.boundTo(key) == issuer {
		return nil
	}
	v.writes.Lock()
	defer v.writes.Unlock()
	change := store.Change{Bucket: bucketIssuers, Key: key}
	if issuer != "" {
		change = v.seal(bucketIssuers, key, binding{issuer})
	}
	return v.commit("storing the authorization server of a client", change)
}
