package identity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// recheckAfter is the time after which the file is checked for changes again.
const recheckAfter = time.Second

// KeyFile authenticates by a YAML file of hashed API keys. It follows the file as it changes; a version that cannot be
// read is logged, and the one before it stays in force. A file that does not exist yet holds no keys; Add makes it.
type KeyFile struct {
	path string
	now  func() time.Time

	mu        sync.Mutex
	keys      []Key          // as in the file
	byID      map[string]Key // of the file and the ephemeral ones
	seen      fs.FileInfo    // of the version that was read last, good or bad; nil: there was no file
	checked   time.Time
	ephemeral map[string]Key
}

// OpenKeyFile reads the file once, so that its errors show at start.
func OpenKeyFile(path string) (*KeyFile, error) {
	k := &KeyFile{path: path, now: time.Now, ephemeral: map[string]Key{}}
	if err := k.load(); err != nil {
		return nil, err
	}
	return k, nil
}

// Authenticate implements Authenticator. The error does not show what is wrong with a token, because that would help guessing.
func (k *KeyFile) Authenticate(_ context.Context, token string) (Principal, error) {
	if token == "" {
		return Principal{}, unauthenticated("no credential was sent; send `authorization: Bearer pawl_…` with an API key")
	}
	id, secret, ok := splitToken(token)
	if !ok {
		return Principal{}, unauthenticated("the credential is not an API key of this suite (`pawl_…`)")
	}
	if key, ok := k.find(id); ok && key.proves(secret) {
		return key.principal(), nil
	}
	if len(k.List()) == 0 {
		return Principal{}, unauthenticated("there are no API keys here yet; the operator makes them with `pawl keys add`")
	}
	return Principal{}, unauthenticated("the API key is not valid here; it may have been removed. Ask the operator for a new one")
}

// find looks up a key. It reads the file first if a check is due or the id is unknown.
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

// refresh reads the file if it changed, and keeps the old keys if the new version is invalid.
func (k *KeyFile) refresh() {
	info, err := os.Stat(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if k.seen != nil {
			slog.Warn("the key file is gone; its last keys stay in force", "path", k.path)
			k.seen = nil
		}
	case err != nil:
		slog.Warn("the key file cannot be looked at; its last keys stay in force", "error", err)
	case !sameVersion(k.seen, info):
		if err := k.load(); err != nil {
			k.seen = info
			slog.Warn("the new version of the key file is not used; the keys before it stay in force", "error", err)
		}
	}
}

// sameVersion compares the file itself too: an atomic replacement may have the same size within one tick of the clock.
func sameVersion(a, b fs.FileInfo) bool {
	return a != nil && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}

// load reads the file. The caller holds mu, or k is not shared yet.
func (k *KeyFile) load() error {
	keys, info, err := readKeys(k.path)
	if err != nil {
		return err
	}
	k.keys, k.seen, k.checked = keys, info, k.now()
	k.byID = maps.Clone(k.ephemeral)
	for _, key := range keys {
		k.byID[key.ID] = key
	}
	return nil
}

// Add makes a key and stores it. The token is shown this once: only its hash is kept.
func (k *KeyFile) Add(sub string, roles []Role, note string) (token string, key Key, err error) {
	token, key, err = newKey(sub, roles, note, k.now())
	if err != nil {
		return "", Key{}, fmt.Errorf("add a key: %w", err)
	}
	err = k.change(func(keys []Key) ([]Key, error) { return append(keys, key), nil })
	if err != nil {
		return "", Key{}, fmt.Errorf("add a key: %w", err)
	}
	return token, key, nil
}

// List returns the keys of the file in its order, without the ephemeral ones. Their roles must not be changed.
func (k *KeyFile) List() []Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refresh()
	return slices.Clone(k.keys)
}

// Remove takes a key away. Processes that use the file refuse new calls with it within a second, and end its streams within two.
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

// Ephemeral makes a key that exists in this process alone, for services that call each other inside it. It panics if the sub or the
// roles are invalid, because they are the program's own.
func (k *KeyFile) Ephemeral(sub string, roles []Role) (token string) {
	token, key, err := newKey(sub, roles, "", k.now())
	if err != nil {
		panic("identity: ephemeral key: " + err.Error())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ephemeral[key.ID], k.byID[key.ID] = key, key
	return token
}

// change rewrites the file from its newest version, so that what another process added stays.
func (k *KeyFile) change(edit func([]Key) ([]Key, error)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	dir := filepath.Dir(k.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the key file's folder: %w", err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return fmt.Errorf("lock the key file's folder: %w", err)
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
