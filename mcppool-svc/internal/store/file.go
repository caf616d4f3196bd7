package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// FileName is the store's file in the data folder.
const FileName = "mcppool.db"

// lockWait is how long another process may still hold the file, as a predecessor that is just stopping does.
const lockWait = time.Second

// file keeps everything in one bbolt file.
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
		return nil, fmt.Errorf("%s is in use by another process; stop that one, or choose another data folder", path)
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

// Close implements Store.
func (s *file) Close() error { return s.db.Close() }

// errPage is a panic of bbolt about a page that it cannot read.
var errPage = errors.New("a page cannot be read")

// Explain adds path and advice to an error of opening or reading the store in a folder, if the error says that the file is damaged.
func Explain(dir string, err error) error {
	if err == nil || dir == "" || !isDamage(err) {
		return err
	}
	return fmt.Errorf("%s is damaged: %w; restore it from a backup, or move it away and start again: registered MCP servers, approved tools and "+
		"logins are then to be made again", filepath.Join(dir, FileName), err)
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
