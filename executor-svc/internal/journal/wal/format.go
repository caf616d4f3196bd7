package wal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// ID names a log, so that its files are not taken for those of another log.
type ID [16]byte

const (
	magic      = "pawlwal1"
	headerSize = 64
	// headerSum is the position of the header's checksum.
	headerSum  = len(magic) + len(ID{}) + 8
	recordSize = 16 // without its payload
	alignment  = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendHeader(dst []byte, id ID, first uint64) []byte {
	at := len(dst)
	dst = append(append(dst, magic...), id[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, first)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
	return append(dst, make([]byte, headerSize-(len(dst)-at))...)
}

var errHeader = errors.New("its header is not valid")

// readHeader returns the content of a file's header.
func readHeader(raw []byte) (id ID, first uint64, err error) {
	if len(raw) < headerSize || string(raw[:len(magic)]) != magic ||
		binary.LittleEndian.Uint32(raw[headerSum:]) != crc32.Checksum(raw[:headerSum], castagnoli) {
		return id, 0, errHeader
	}
	copy(id[:], raw[len(magic):])
	return id, binary.LittleEndian.Uint64(raw[len(magic)+len(id):]), nil
}

func appendRecord(dst []byte, id *ID, number uint64, payload []byte) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, number)
	dst = append(dst, payload...)
	binary.LittleEndian.PutUint32(dst[at+4:], recordSum(dst[at:], id))
	return append(dst, make([]byte, padding(len(payload)))...)
}

func padding(n int) int { return -n & (alignment - 1) }

func recordSum(record []byte, id *ID) uint32 {
	sum := crc32.Update(crc32.Checksum(id[:], castagnoli), castagnoli, record[:4])
	return crc32.Update(sum, castagnoli, record[8:])
}

// numberAt returns the number that a record at a position would have; 0 if there is no room for a record.
func numberAt(raw []byte, at int) uint64 {
	if at+recordSize > len(raw) {
		return 0
	}
	return binary.LittleEndian.Uint64(raw[at+8:])
}

// recordAt returns the payload of the record with that number at a position, and the position of the next record. ok is false if there is
// no such record.
func recordAt(raw []byte, at int, id *ID, number uint64) (payload []byte, next int, ok bool) {
	if at+recordSize > len(raw) || numberAt(raw, at) != number {
		return nil, at, false
	}
	size := uint64(binary.LittleEndian.Uint32(raw[at:]))
	if size > uint64(len(raw)-at-recordSize) {
		return nil, at, false
	}
	end := at + recordSize + int(size)
	if binary.LittleEndian.Uint32(raw[at+4:]) != recordSum(raw[at:end], id) {
		return nil, at, false
	}
	return raw[at+recordSize : end : end], end + padding(int(size)), true
}
