package peer

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/services/seal"
)

// errSealed means that a batch was not encrypted with this replica's key.
var errSealed = errors.New("it is not sealed with the key of this replica (--token-key)")

// sealer encrypts batches under a key that all replicas share. The zero value does not encrypt.
type sealer struct {
	box   *seal.Box // nil: nothing is encrypted
	check string    // names the key
}

// newSealer derives a sealer from a key; the zero sealer without one.
func newSealer(key []byte) (*sealer, error) {
	if len(key) == 0 {
		return &sealer{}, nil
	}
	derived, err := hkdf.Key(sha256.New, key, nil, "pawl mcp pool replicas: batches", 32)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of the replicas: %w", err)
	}
	check, err := hkdf.Key(sha256.New, key, nil, "pawl mcp pool replicas: name of the key", 9)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of the replicas: %w", err)
	}
	box, err := seal.NewBox(derived)
	return &sealer{box: box, check: base64.RawURLEncoding.EncodeToString(check)}, err
}

// batch encrypts entries to send.
func (s *sealer) batch(from string, entries *mcppoolv1.PeerEntries) (*mcppoolv1.PeerBatch, error) {
	if s.box == nil {
		return &mcppoolv1.PeerBatch{Open: entries}, nil
	}
	text, err := proto.Marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("writing a batch: %w", err)
	}
	return &mcppoolv1.PeerBatch{Sealed: s.box.Seal(nil, text, from)}, nil
}

// open decrypts a batch.
func (s *sealer) open(from string, b *mcppoolv1.PeerBatch) (*mcppoolv1.PeerEntries, error) {
	if s.box == nil {
		if len(b.GetSealed()) > 0 {
			return nil, errSealed
		}
		return b.GetOpen(), nil
	}
	text, err := s.box.Open(b.GetSealed(), from)
	if err != nil {
		return nil, errSealed
	}
	entries := &mcppoolv1.PeerEntries{}
	if err := proto.Unmarshal(text, entries); err != nil {
		return nil, fmt.Errorf("reading a batch: %w", err)
	}
	return entries, nil
}
