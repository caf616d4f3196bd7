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

// recheckAfter is how long the file is taken as unchanged when a known key is looked up.
const recheckAfter = time.Second

// KeyFile authenticates by a YAML file of hashed API keys. A changed file is read again; if that fails, the error is logged and
// the previous keys stay in force. A file that does not exist yet holds no keys; Add creates it.
type KeyFile struct {
	path string
	now  func() time.Time

	mu        sync.Mutex
	keys      []Key          // as in the file
	byID      map[string]Key // keys of the file and ephemeral keys
	lastRead  fs.FileInfo    // of the last version that was read, valid or not; nil: there was no file
	checked   time.Time      // when the file was last checked for changes
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
		return key.principal(), nil
	}
	if len(k.List()) == 0 {
		return Principal{}, unauthenticated("there are no API keys here yet; the operator makes them with `pawl keys add`")
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

// refresh reads the file if it changed. If the file is gone or invalid, the previous keys stay in force.
func (k *KeyFile) refresh() {
	info, err := os.Stat(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if k.lastRead != nil {
			slog.Warn("the key file is gone; the previous keys stay in force", "path", k.path)
			k.lastRead = nil
		}
	case err != nil:
		slog.Warn("the key file cannot be read; the previous keys stay in force", "error", err)
	case !sameVersion(k.lastRead, info):
		if err := k.load(); err != nil {
			k.lastRead = info
			slog.Warn("the new version of the key file cannot be used; the previous keys stay in force", "error", err)
		}
	}
}

// sameVersion also compares the files' identity: an atomic replacement may have the same size and modification time.
func sameVersion(a, b fs.FileInfo) bool {
	return a != nil && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}

// load reads the file. The caller holds mu, or k is not shared yet.
func (k *KeyFile) load() error {
	keys, info, err := readKeys(k.path)
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

// Add makes a key and stores it. Only the hash of the token is kept, so the token cannot be shown again.
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
	token, key, err := newKey(sub, roles, "", k.now())
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
	dir := filepath.Dir(k.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the key file: %w", err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return fmt.Errorf("lock the folder of the key file: %w", err)
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
