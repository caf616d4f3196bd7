package identity

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"pawl.dev/services/privatefile"
)

// KeyFile authenticates by a YAML file of hashed API keys. A changed file is read again; if that fails, the error is logged and
// the previous keys stay in force. A file that does not exist holds no keys, also if it was deleted; Add creates it.
type KeyFile struct {
	now func() time.Time

	mu          sync.Mutex     // guards the following
	watchedFile                // its path never changes
	keys        []Key          // as in the file
	byID        map[string]Key // keys of the file and ephemeral keys
	ephemeral   map[string]Key
	used        map[string]time.Time // when this process last accepted each key
}

// OpenKeyFile reads the file once, so that its errors show at start.
func OpenKeyFile(path string) (*KeyFile, error) {
	k := &KeyFile{watchedFile: watchedFile{path: path, kind: "key"}, now: time.Now, ephemeral: map[string]Key{}, used: map[string]time.Time{}}
	if err := k.load(); err != nil {
		return nil, err
	}
	return k, nil
}

// Authenticate implements Authenticator. The error is the same for an unknown id and a wrong secret, so that it does not help guessing.
func (k *KeyFile) Authenticate(_ context.Context, token string) (Principal, error) {
	if token == "" {
		return Principal{}, unauthenticated("no credential was sent; send `authorization: Bearer pawl_…` with an API key")
	}
	id, secret, ok := splitToken(token)
	if !ok {
		return Principal{}, unauthenticated("the credential is not an API key of this suite (`pawl_…`)")
	}
	if key, ok := k.find(id); ok && key.proves(secret) {
		if now := k.now(); key.Expires.IsZero() || now.Before(key.Expires) {
			k.touch(id, now)
			return key.principal(), nil
		}
		return Principal{}, unauthenticated("the API key %s expired at %s; ask the operator for a new one", id, key.Expires.Format(time.RFC3339))
	}
	if len(k.List()) == 0 {
		return Principal{}, unauthenticated("there are no API keys here at present; the operator makes them with `pawl keys add`, or restores the key file")
	}
	return Principal{}, unauthenticated("the API key is not valid here; it may have been removed. Ask the operator for a new one")
}

// find looks up a key. If a check of the file is due or the id is unknown, it first reads a changed file.
func (k *KeyFile) find(id string) (Key, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known := k.byID[id]
	if now := k.now(); !known || now.Sub(k.checked) >= recheckAfter {
		k.checked = now
		k.refresh()
	}
	key, ok := k.byID[id]
	return key, ok
}

// touch records the use of a key.
func (k *KeyFile) touch(id string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used[id] = now
}

// LastUsed returns when this process last accepted a key; zero if it has not since it started.
func (k *KeyFile) LastUsed(id string) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used[id]
}

// refresh reads the file if it changed. The caller holds mu.
func (k *KeyFile) refresh() {
	k.watchedFile.refresh(k.load, func() { k.keys, k.byID = nil, maps.Clone(k.ephemeral) })
}

// load reads the file. The caller holds mu, or k is not shared yet.
func (k *KeyFile) load() error {
	keys, info, err := k.readKeys()
	if err != nil {
		return err
	}
	k.keys, k.lastRead, k.checked = keys, info, k.now()
	k.byID = maps.Clone(k.ephemeral)
	for _, key := range keys {
		k.byID[key.ID] = key
	}
	return nil
}

// RepeatedError is returned by Add for a request id that a key has already.
type RepeatedError struct{ ID string }

// Error implements error.
func (e *RepeatedError) Error() string {
	return fmt.Sprintf("the same request created the key %s, whose token was returned then; revoke that key if its token is lost, and create another", e.ID)
}

// Add completes a key that has a sub, roles and, optionally, rights, a note, an expiry and a request id, and stores it. Only the hash of the token
// is kept, so the token cannot be shown again.
func (k *KeyFile) Add(wanted Key) (token string, key Key, err error) {
	token, key, err = newKey(wanted, k.now())
	if err != nil {
		return "", Key{}, fmt.Errorf("add a key: %w", err)
	}
	err = k.change(func(keys []Key) ([]Key, error) {
		if i := slices.IndexFunc(keys, func(old Key) bool { return old.Request != "" && old.Request == key.Request }); i >= 0 {
			return nil, &RepeatedError{keys[i].ID}
		}
		return append(keys, key), nil
	})
	if err != nil {
		return "", Key{}, fmt.Errorf("add a key: %w", err)
	}
	return token, key, nil
}

// List returns the keys of the file in its order, without the ephemeral keys. The caller must not change their roles.
func (k *KeyFile) List() []Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refresh()
	return slices.Clone(k.keys)
}

// Remove removes a key. Within a second, processes that use the file refuse new calls with the key; within two seconds, streams that
// began with the key end at their next message.
func (k *KeyFile) Remove(id string) error {
	err := k.change(func(keys []Key) ([]Key, error) {
		i := slices.IndexFunc(keys, func(key Key) bool { return key.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("there is no key with id %q; list the keys to see which there are", id)
		}
		return slices.Delete(keys, i, i+1), nil
	})
	if err != nil {
		return fmt.Errorf("remove a key: %w", err)
	}
	return nil
}

// Ephemeral makes a key that exists only in this process, for services that call each other within it. It panics if the sub or the
// roles are invalid, because they come from the program itself.
func (k *KeyFile) Ephemeral(sub string, roles []Role) (token string) {
	token, key, err := newKey(Key{Sub: sub, Roles: roles}, k.now())
	if err != nil {
		panic("identity: ephemeral key: " + err.Error())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ephemeral[key.ID], k.byID[key.ID] = key, key
	return token
}

// change edits the newest version of the file, so that keys that another process added stay.
func (k *KeyFile) change(edit func([]Key) ([]Key, error)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	unlock, err := privatefile.LockDir(context.Background(), filepath.Dir(k.path)) // a change takes a moment
	if err != nil {
		return fmt.Errorf("the folder of the key file: %w", err)
	}
	defer unlock()
	if err := k.load(); err != nil {
		return err
	}
	keys, err := edit(slices.Clone(k.keys))
	if err != nil {
		return err
	}
	if err := writeKeys(k.path, keys); err != nil {
		return err
	}
	return k.load()
}
