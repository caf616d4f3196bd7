package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Large is the size from which a string is kept once by its hash.
const Large = 64 << 10

// maxMessage bounds what a blob may say that it unfolds to.
const maxMessage = 128 << 20

// shortest is the size from which a reference to an equal string is shorter than the string for certain.
const shortest = 12

// maxLeaves bounds the strings of one message that are compared with each other.
const maxLeaves = 64

// errBlob says that bytes are no blob.
var errBlob = errors.New("it cannot be unpacked")

// Sum names a payload.
type Sum = [sha256.Size]byte

// Payload is a large string, kept beside the message.
type Payload struct {
	Sum  Sum
	Data []byte
}

// Source gives back what was cut out.
type Source interface {
	// Payload returns what Blob put into payloads.
	Payload(sum Sum) ([]byte, error)
	// Text returns the input of a step, or its description, that the fact of this seq holds.
	Text(seq uint64) (string, error)
}

const (
	cutPayload = iota // by sum
	cutCopy           // as `ref` bytes before
	cutText           // as in the fact of seq `ref`
	cutHex            // as the hexadecimal digits of `raw`
)

// cut is a range of a message that is kept elsewhere.
type cut struct {
	from, to int
	how      byte
	sum      Sum
	ref      uint64
	raw      []byte // of one that was read
}

// Blob appends msg, a message of kind k in wire form, and returns the payloads that it needs beside it. They share memory
// with msg.
//
// A message that nothing is cut out of is stored as it is. Else a zero byte goes first, which begins no message, then the
// cuts, then what is left.
func Blob(dst []byte, k *Kind, msg []byte) ([]byte, []Payload) {
	return appendCuts(dst, msg, k.cuts(msg, nil))
}

// cuts finds what can be kept elsewhere; given cuts stay.
func (k *Kind) cuts(msg []byte, given []cut) []cut {
	all := given
	var leaves [maxLeaves]struct{ from, to int }
	seen := 0
	k.walk(msg, 0, len(msg), func(from, to int) {
		size := to - from
		if size < shortest || slices.ContainsFunc(given, func(c cut) bool { return c.from == from }) {
			return
		}
		for _, l := range leaves[:seen] {
			if l.to-l.from == size && bytes.Equal(msg[l.from:l.to], msg[from:to]) {
				all = append(all, cut{from: from, to: to, how: cutCopy, ref: uint64(from - l.from)})
				return
			}
		}
		if seen < maxLeaves {
			leaves[seen] = struct{ from, to int }{from, to}
			seen++
		}
		if isHex(msg[from:to]) {
			all = append(all, cut{from: from, to: to, how: cutHex})
		} else if size > Large {
			all = append(all, cut{from: from, to: to, how: cutPayload, sum: sha256.Sum256(msg[from:to])})
		}
	})
	slices.SortFunc(all, func(a, b cut) int { return a.from - b.from })
	return all
}

// Strings of these sizes may be hashes in hexadecimal digits.
const hexMin, hexMax = 32, 128

// isHex says that a string is lower-case hexadecimal digits, two for each byte.
func isHex(s []byte) bool {
	if len(s) < hexMin || len(s) > hexMax || len(s)%2 != 0 {
		return false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func appendCuts(dst, msg []byte, cuts []cut) ([]byte, []Payload) {
	if len(cuts) == 0 {
		return append(dst, msg...), nil
	}
	var payloads []Payload
	dst = binary.AppendUvarint(append(dst, 0), uint64(len(cuts)))
	at := 0
	for _, c := range cuts {
		dst = binary.AppendUvarint(append(dst, c.how), uint64(c.from-at))
		dst = binary.AppendUvarint(dst, uint64(c.to-c.from))
		switch c.how {
		case cutPayload:
			dst = append(dst, c.sum[:]...)
			payloads = append(payloads, Payload{Sum: c.sum, Data: msg[c.from:c.to]})
		case cutHex:
			dst, _ = hex.AppendDecode(dst, msg[c.from:c.to]) // isHex said that it is
		default:
			dst = binary.AppendUvarint(dst, c.ref)
		}
		at = c.to
	}
	at = 0
	for _, c := range cuts {
		dst = append(dst, msg[at:c.from]...)
		at = c.to
	}
	return append(dst, msg[at:]...), payloads
}

// Unblob returns the message that Blob was given. It shares memory with blob where nothing was cut out.
func Unblob(blob []byte, src Source) ([]byte, error) {
	if len(blob) == 0 || blob[0] != 0 {
		return blob, nil
	}
	cuts, gaps, rest, err := readCuts(blob)
	if err != nil {
		return nil, err
	}
	size := len(rest)
	for _, c := range cuts {
		if size += c.to; size > maxMessage {
			return nil, errBlob
		}
	}
	// What a damaged blob says of its size is believed step by step.
	msg := make([]byte, 0, min(size, len(blob)+Large))
	for i, c := range cuts {
		if gaps[i] > uint64(len(rest)) {
			return nil, errBlob
		}
		msg = append(msg, rest[:gaps[i]]...)
		rest = rest[gaps[i]:]
		if msg, err = c.fill(msg, src); err != nil {
			return nil, err
		}
	}
	return append(msg, rest...), nil
}

// Sums calls visit with the payloads that a blob refers to.
func Sums(blob []byte, visit func(Sum)) error {
	if len(blob) == 0 || blob[0] != 0 {
		return nil
	}
	cuts, _, _, err := readCuts(blob)
	for _, c := range cuts {
		if c.how == cutPayload {
			visit(c.sum)
		}
	}
	return err
}

// readCuts reads what stands before the rest. The `to` of a cut is its size.
func readCuts(blob []byte) (cuts []cut, gaps []uint64, rest []byte, err error) {
	r := reader{b: blob[1:]}
	n := r.uvarint()
	if n > uint64(len(blob)) {
		return nil, nil, nil, errBlob
	}
	for range n {
		c := cut{how: r.byte()}
		gaps = append(gaps, r.uvarint())
		size := r.uvarint()
		if size > maxMessage {
			return nil, nil, nil, errBlob
		}
		c.to = int(size)
		switch c.how {
		case cutPayload:
			copy(c.sum[:], r.bytes(len(c.sum)))
		case cutHex:
			c.raw = r.bytes(c.to / 2)
		case cutCopy, cutText:
			c.ref = r.uvarint()
		default:
			return nil, nil, nil, errBlob
		}
		if r.short {
			return nil, nil, nil, errBlob
		}
		cuts = append(cuts, c)
	}
	return cuts, gaps, r.b, nil
}

// fill appends what was cut out.
func (c cut) fill(msg []byte, src Source) ([]byte, error) {
	size := c.to
	switch c.how {
	case cutCopy:
		if c.ref > uint64(len(msg)) || c.ref < uint64(size) {
			return nil, errBlob
		}
		at := len(msg) - int(c.ref)
		return append(msg, msg[at:at+size]...), nil
	case cutHex:
		return hex.AppendEncode(msg, c.raw), nil
	case cutText:
		text, err := src.Text(c.ref)
		if err != nil {
			return nil, err
		}
		if len(text) != size {
			return nil, fmt.Errorf("the text at seq %d has %d bytes, not %d: %w", c.ref, len(text), size, errBlob)
		}
		return append(msg, text...), nil
	}
	data, err := src.Payload(c.sum)
	if err != nil {
		return nil, err
	}
	if len(data) != size {
		return nil, fmt.Errorf("payload %x has %d bytes, not %d: %w", c.sum[:4], len(data), size, errBlob)
	}
	return append(msg, data...), nil
}

// reader reads numbers and bytes, and remembers that there were too few.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.short = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) bytes(n int) []byte {
	if len(r.b) < n {
		r.short = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}
