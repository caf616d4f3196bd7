package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Change is one write; a nil value deletes.
type Change struct {
	Bucket, Key string
	Value       []byte
}

// Store keeps values. Callers must not change a value after they have passed or received it. A Store is safe for concurrent use.
type Store interface {
	// Load visits the keys and values of a bucket in any order. visit must not call the store, nor keep value after it returns.
	Load(bucket string, visit func(key string, value []byte) error) error
	// Get returns a value, or nil if there is none.
	Get(bucket, key string) ([]byte, error)
	// Apply makes all changes or none.
	Apply(changes ...Change) error
	// Close may be called more than once.
	Close() error
}

// Open opens the store in a folder, which it creates if needed. If dir is empty, the store is in memory and is lost with the process. buckets
// are all that will be used.
func Open(dir string, buckets ...string) (Store, error) {
	if dir == "" {
		return &memory{values: make(map[string]map[string][]byte)}, nil
	}
	return openFile(dir, buckets)
}

// memory is a Store without a file.
type memory struct {
	mu     sync.RWMutex
	values map[string]map[string][]byte // guarded by mu; by bucket and key
}

// Load implements Store.
func (m *memory) Load(bucket string, visit func(key string, value []byte) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for key, value := range m.values[bucket] {
		if err := visit(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Get implements Store.
func (m *memory) Get(bucket, key string) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.values[bucket][key], nil
}

// Apply implements Store.
func (m *memory) Apply(changes ...Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		if c.Value == nil {
			delete(m.values[c.Bucket], c.Key)
			continue
		}
		if m.values[c.Bucket] == nil {
			m.values[c.Bucket] = make(map[string][]byte)
		}
		m.values[c.Bucket][c.Key] = c.Value
	}
	return nil
}

// Close implements Store.
func (*memory) Close() error { return nil }

// Oldest returns the key of the value with the earliest time. values must not be empty.
func Oldest[K comparable, V any](values map[K]V, at func(V) time.Time) K {
	return slices.MinFunc(slices.Collect(maps.Keys(values)), func(a, b K) int { return at(values[a]).Compare(at(values[b])) })
}

// Encode marshals a value to store. It cannot fail, because stored values are plain data.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Decode unmarshals a stored value that has its format version under "v", if that is at most version.
func Decode(raw []byte, version int, to any) error {
	var head struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	switch {
	case head.Version < 1:
		return errors.New("it has no format version; restore the store from a backup")
	case head.Version > version:
		return fmt.Errorf("it was written by a newer version of this program (format %d); use that version", head.Version)
	}
	return json.Unmarshal(raw, to)
}

// FileName is the store's file in the data folder.
const FileName = "mcppool.db"

// lockWait is how long Open waits for another process to release the file.
const lockWait = time.Second

// file is a Store in one bbolt file.
type file struct{ db *bolt.DB }

func openFile(dir string, buckets []string) (opened *file, err error) {
	defer recoverPage(&err)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	path := filepath.Join(dir, FileName)
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%s is in use by another process; stop that process, or choose another data folder", path)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil, fmt.Errorf("opening %s: %w; the folder must be writable", path, err)
	case err != nil:
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing %s: %w", path, err), db.Close())
	}
	return &file{db: db}, nil
}

// Load implements Store.
func (s *file) Load(bucket string, visit func(key string, value []byte) error) (err error) {
	defer recoverPage(&err)
	return s.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(bucket)).ForEach(func(k, v []byte) error { return visit(string(k), v) })
	})
}

// Get implements Store.
func (s *file) Get(bucket, key string) (value []byte, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		value = bytes.Clone(tx.Bucket([]byte(bucket)).Get([]byte(key)))
		return nil
	})
	return value, err
}

// Apply implements Store.
func (s *file) Apply(changes ...Change) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		for _, c := range changes {
			b := tx.Bucket([]byte(c.Bucket))
			var err error
			if c.Value == nil {
				err = b.Delete([]byte(c.Key))
			} else {
				err = b.Put([]byte(c.Key), c.Value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Compact rewrites the file without what deleted and overwritten values left in it. Call it while no other goroutine uses the store.
func (s *file) Compact() error {
	path := s.db.Path()
	err := s.rewrite(path + ".new")
	if err = errors.Join(err, s.db.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		s.db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait})
	}
	if err != nil {
		return fmt.Errorf("compacting %s: %w", path, err)
	}
	return nil
}

// rewrite copies the content to a new file.
func (s *file) rewrite(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	to, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(bolt.Compact(to, s.db, 1<<20), to.Close())
}

// Close implements Store.
func (s *file) Close() error { return s.db.Close() }

// errPage means that bbolt panicked because it could not read a page.
var errPage = errors.New("a page cannot be read")

// Explain adds path and advice to an error of opening or reading the store in a folder, if the error says that the file is damaged.
func Explain(dir string, err error) error {
	if err == nil || dir == "" || !isDamage(err) {
		return err
	}
	return fmt.Errorf("%s is damaged: %w; restore it from a backup, or move it away and start again: you then have to register MCP servers, "+
		"approve tools and log in again", filepath.Join(dir, FileName), err)
}

func isDamage(err error) bool {
	for _, target := range []error{errPage, io.ErrUnexpectedEOF, bolterrors.ErrInvalid, bolterrors.ErrChecksum, bolterrors.ErrVersionMismatch} {
		if errors.Is(err, target) {
			return true
		}
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var date *time.ParseError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.As(err, &date)
}

// recoverPage turns a panic of bbolt into an error.
func recoverPage(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", errPage, p)
	}
}
