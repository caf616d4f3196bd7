package pack

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// ErrSum says that a value is not what was stored under its key.
var ErrSum = errors.New("its checksum does not fit")

// sumSize is what a checksum adds to a value.
const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal appends a checksum over a key and its value.
func Seal(key, value []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, sum(key, value))
}

// Unseal returns the value without its checksum, which it checks. It shares memory with what it is given.
func Unseal(key, sealed []byte) ([]byte, error) {
	n := len(sealed) - sumSize
	if n < 0 || binary.LittleEndian.Uint32(sealed[n:]) != sum(key, sealed[:n]) {
		return nil, ErrSum
	}
	return sealed[:n:n], nil
}

func sum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}
