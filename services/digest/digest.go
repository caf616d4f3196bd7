// Package digest names lists of messages by their content. It knows no kind of message.
package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"google.golang.org/protobuf/proto"
)

// Of returns the SHA-256 (hex) of a list of messages. Equal lists have the same digest.
func Of[M proto.Message](list []M) (string, error) {
	h := sha256.New()
	var buf []byte
	for _, m := range list {
		var err error
		if buf, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(buf[:0], m); err != nil {
			return "", err
		}
		var size [binary.MaxVarintLen64]byte
		h.Write(size[:binary.PutUvarint(size[:], uint64(len(buf)))])
		h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
