package peer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// errSealed means that a batch was not encrypted with this replica's key.
var errSealed = errors.New("it is not sealed with the key of this replica (--token-key)")

// sealer encrypts batches under a key that all replicas share. The zero value does not encrypt.
type sealer struct {
	aead  cipher.AEAD
	check string // names the key
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
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of the replicas: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of the replicas: %w", err)
	}
	return &sealer{aead: aead, check: base64.RawURLEncoding.EncodeToString(check)}, nil
}

// batch encrypts entries to send.
func (s *sealer) batch(from string, entries *mcppoolv1.PeerEntries) (*mcppoolv1.PeerBatch, error) {
	if s.aead == nil {
		return &mcppoolv1.PeerBatch{Open: entries}, nil
	}
	text, err := proto.Marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("writing a batch: %w", err)
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(text)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return &mcppoolv1.PeerBatch{Sealed: s.aead.Seal(nonce, nonce, text, []byte(from))}, nil
}

// open decrypts a batch.
func (s *sealer) open(from string, b *mcppoolv1.PeerBatch) (*mcppoolv1.PeerEntries, error) {
	if s.aead == nil {
		if len(b.GetSealed()) > 0 {
			return nil, errSealed
		}
		return b.GetOpen(), nil
	}
	n := s.aead.NonceSize()
	if len(b.GetSealed()) < n {
		return nil, errSealed
	}
	text, err := s.aead.Open(nil, b.GetSealed()[:n], b.GetSealed()[n:], []byte(from))
	if err != nil {
		return nil, errSealed
	}
	entries := &mcppoolv1.PeerEntries{}
	if err := proto.Unmarshal(text, entries); err != nil {
		return nil, fmt.Errorf("reading a batch: %w", err)
	}
	return entries, nil
}
