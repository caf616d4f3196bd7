package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// ErrOtherKey means that a value was not encrypted with this key for this place.
var ErrOtherKey = errors.New("it was encrypted with another key, or is damaged")

// Box encrypts with AES-256-GCM. It is safe for concurrent use.
type Box struct{ aeads []cipher.AEAD }

// NewBox returns a Box that encrypts with the first key and decrypts with any.
func NewBox(keys ...[]byte) (*Box, error) {
	b := &Box{}
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("using an encryption key: %w", err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("using an encryption key: %w", err)
		}
		b.aeads = append(b.aeads, aead)
	}
	return b, nil
}

// First returns a Box with only the key that b encrypts with.
func (b *Box) First() *Box { return &Box{b.aeads[:1]} }

// Seal appends the encrypted text to dst.
func (b *Box) Seal(dst, text []byte, place string) []byte {
	return b.aeads[0].Seal(dst, nil, text, []byte(place)) //nolint:gosec // Seal makes a random nonce itself
}

// Open decrypts what Seal appended. The error is ErrOtherKey.
func (b *Box) Open(sealed []byte, place string) ([]byte, error) {
	for _, aead := range b.aeads {
		if text, err := aead.Open(nil, nil, sealed, []byte(place)); err == nil {
			return text, nil
		}
	}
	return nil, ErrOtherKey
}
