package sealed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/seal"
)

// sealedStore is a Store that encrypts the values of some buckets.
type sealedStore struct {
	store.Store
	box     *seal.Box
	buckets []string
}

// sealedValue is the stored form. Programs that do not know it read a format version that is too new for them.
type sealedValue struct {
	Version int    `json:"v"`
	Sealed  []byte `json:"sealed"`
}

// sealedPrefix begins each sealedValue.
var sealedPrefix = []byte(`{"v":2,"sealed":`)

// Store returns a Store that encrypts the values of buckets in inner. It encrypts those that an earlier version of this program stored in plain
// text, and those that are encrypted with another key of the box than the first.
func Store(inner store.Store, box *seal.Box, buckets ...string) (store.Store, error) {
	s := &sealedStore{Store: inner, box: box, buckets: buckets}
	current := &sealedStore{box: box.First(), buckets: buckets}
	var outdated []store.Change
	for _, bucket := range buckets {
		err := inner.Load(bucket, func(key string, value []byte) error {
			text, err := s.open(bucket, key, value)
			if err != nil {
				return err
			}
			if _, err := current.open(bucket, key, value); err != nil || !bytes.HasPrefix(value, sealedPrefix) && json.Valid(value) {
				outdated = append(outdated, store.Change{Bucket: bucket, Key: key, Value: bytes.Clone(text)})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(outdated) == 0 {
		return s, nil
	}
	if err := s.Apply(outdated...); err != nil {
		return nil, fmt.Errorf("encrypting the registered MCP servers: %w", err)
	}
	if file, ok := inner.(interface{ Compact() error }); ok {
		return s, file.Compact()
	}
	return s, nil
}

// Load implements store.Store.
func (s *sealedStore) Load(bucket string, visit func(key string, value []byte) error) error {
	return s.Store.Load(bucket, func(key string, value []byte) error {
		text, err := s.open(bucket, key, value)
		if err != nil {
			return err
		}
		return visit(key, text)
	})
}

// Get implements store.Store.
func (s *sealedStore) Get(bucket, key string) ([]byte, error) {
	value, err := s.Store.Get(bucket, key)
	if err != nil {
		return nil, err
	}
	return s.open(bucket, key, value)
}

// Apply implements store.Store.
func (s *sealedStore) Apply(changes ...store.Change) error {
	changes = slices.Clone(changes)
	for i, c := range changes {
		if c.Value != nil && slices.Contains(s.buckets, c.Bucket) {
			changes[i].Value = store.Encode(sealedValue{2, s.box.Seal(nil, c.Value, c.Bucket+"\x00"+c.Key)})
		}
	}
	return s.Store.Apply(changes...)
}

// open returns the plain text of a value.
func (s *sealedStore) open(bucket, key string, value []byte) ([]byte, error) {
	if !bytes.HasPrefix(value, sealedPrefix) || !slices.Contains(s.buckets, bucket) {
		return value, nil
	}
	var v sealedValue
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, fmt.Errorf("entry %q of %s: %w", key, bucket, err)
	}
	text, err := s.box.Open(v.Sealed, bucket+"\x00"+key)
	if err != nil {
		return nil, fmt.Errorf("entry %q of %s cannot be read: %w; restore the key (--token-key, or %s in the data folder); without it, "+
			"move %s away and register the MCP servers again", key, bucket, err, KeyFile, store.FileName)
	}
	return text, nil
}
