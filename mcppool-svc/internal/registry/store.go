package registry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// fileName is the registry's file in the data folder.
const fileName = "mcppool.db"

// lockWait is how long another process may still hold the file, as a predecessor that is just stopping does.
const lockWait = time.Second

// Buckets of the file.
const (
	bucketServers     = "servers"     // server key → record
	bucketActivations = "activations" // user, server key → activation
	bucketRequests    = "requests"    // user, request id → request
)

// change is one write; a nil value deletes.
type change struct {
	bucket, key string
	value       []byte
}

// store keeps what must outlive the process. Its changes are one commit.
type store interface {
	load(visit func(bucket, key string, value []byte) error) error
	apply(changes ...change) error
	close() error
}

// memory forgets everything.
type memory struct{}

func (memory) load(func(bucket, key string, value []byte) error) error { return nil }
func (memory) apply(...change) error                                   { return nil }
func (memory) close() error                                            { return nil }

// boltStore keeps everything in one bbolt file.
type boltStore struct{ db *bolt.DB }

func openBolt(dir string) (*boltStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	path := filepath.Join(dir, fileName)
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%s is in use by another process; stop that one, or choose another data folder", path)
	case err != nil:
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range []string{bucketServers, bucketActivations, bucketRequests} {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing %s: %w", path, err), db.Close())
	}
	return &boltStore{db: db}, nil
}

func (s *boltStore) load(visit func(bucket, key string, value []byte) error) error {
	return s.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error { return visit(string(name), string(k), v) })
		})
	})
}

func (s *boltStore) apply(changes ...change) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		for _, c := range changes {
			b := tx.Bucket([]byte(c.bucket))
			var err error
			if c.value == nil {
				err = b.Delete([]byte(c.key))
			} else {
				err = b.Put([]byte(c.key), c.value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *boltStore) close() error { return s.db.Close() }
