package bolt

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// maxInline is the longest string, in bytes, that is stored within its message. A longer string is stored once, under its hash, so that a
// step's large input is not written at each commit.
const maxInline = 4 << 10

// maxMessage bounds the size of a message that is put together from its payloads.
const maxMessage = 128 << 20

var errValue = errors.New("it cannot be decoded")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumSize is the size of a value's checksum.
const checksumSize = 4

// withChecksum appends a checksum over a key and its value.
func withChecksum(key, value []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, checksum(key, value))
}

// verifyChecksum returns the value without its checksum. The result shares memory with stored.
func verifyChecksum(key, stored []byte) ([]byte, error) {
	n := len(stored) - checksumSize
	if n < 0 || binary.LittleEndian.Uint32(stored[n:]) != checksum(key, stored[:n]) {
		return nil, damagedError(name(key), "its checksum does not match")
	}
	return stored[:n:n], nil
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// hash names a payload: the SHA-256 of its bytes.
type hash = [sha256.Size]byte

// payload is a large string that is stored apart from the messages that hold it.
type payload struct {
	sum  hash
	data []byte
}

// encode appends a message and returns the payloads that were cut out of it.
//
// A message without large strings is stored in wire form. Otherwise the value is a zero byte, with which no message begins; the
// number of cuts; for each cut its distance from the previous cut, its size and its hash; and the rest of the message.
func encode(dst []byte, m proto.Message) ([]byte, []payload, error) {
	if size := proto.Size(m); size <= maxInline {
		dst = slices.Grow(dst, size+checksumSize)
		dst, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, m)
		return dst, nil, err
	}
	wire, err := proto.Marshal(m)
	if err != nil {
		return nil, nil, err
	}
	var cuts []span
	findLarge(m.ProtoReflect().Descriptor(), wire, 0, func(s span) { cuts = append(cuts, s) })
	if len(cuts) == 0 {
		return append(dst, wire...), nil, nil
	}
	dst = binary.AppendUvarint(append(dst, 0), uint64(len(cuts)))
	payloads := make([]payload, len(cuts))
	var rest []byte
	at := 0
	for i, c := range cuts {
		payloads[i] = payload{sum: sha256.Sum256(wire[c.from:c.to]), data: wire[c.from:c.to]}
		dst = binary.AppendUvarint(dst, uint64(c.from-at))
		dst = binary.AppendUvarint(dst, uint64(c.to-c.from))
		dst = append(dst, payloads[i].sum[:]...)
		rest = append(rest, wire[at:c.from]...)
		at = c.to
	}
	return append(append(dst, rest...), wire[at:]...), payloads, nil
}

// span is a range of bytes.
type span struct{ from, to int }

// findLarge calls found for each large string or bytes field of a message in wire form. offset is the position of the message. Fields that
// the descriptor does not know stay in place.
func findLarge(d protoreflect.MessageDescriptor, wire []byte, offset int, found func(span)) {
	for len(wire) > 0 {
		num, typ, tag := protowire.ConsumeTag(wire)
		if tag < 0 {
			return
		}
		n := protowire.ConsumeFieldValue(num, typ, wire[tag:])
		if n < 0 {
			return
		}
		if f := d.Fields().ByNumber(num); f != nil && typ == protowire.BytesType && n > maxInline {
			value, _ := protowire.ConsumeBytes(wire[tag:])
			from := offset + tag + n - len(value)
			switch {
			case f.Kind() == protoreflect.MessageKind:
				findLarge(f.Message(), value, from, found)
			case len(value) > maxInline:
				found(span{from, from + len(value)})
			}
		}
		wire, offset = wire[tag+n:], offset+tag+n
	}
}

// decode reads what encode wrote. It returns the size of the whole message. load appends the data of a payload.
func decode(value []byte, into proto.Message, load func(dst []byte, sum hash) ([]byte, error)) (size int, err error) {
	if len(value) == 0 || value[0] != 0 {
		return len(value), proto.UnmarshalOptions{Merge: true}.Unmarshal(value, into)
	}
	cuts, rest, err := readCuts(value)
	if err != nil {
		return 0, err
	}
	total := uint64(len(rest))
	for _, c := range cuts {
		if total += c.size; c.size > maxMessage || total > maxMessage {
			return 0, errValue
		}
	}
	wire := make([]byte, 0, total)
	for _, c := range cuts {
		if c.gap > uint64(len(rest)) {
			return 0, errValue
		}
		wire = append(wire, rest[:c.gap]...)
		before := len(wire)
		if wire, err = load(wire, c.sum); err != nil {
			return 0, err
		}
		if uint64(len(wire)-before) != c.size {
			return 0, errValue
		}
		rest = rest[c.gap:]
	}
	wire = append(wire, rest...)
	return len(wire), proto.UnmarshalOptions{Merge: true}.Unmarshal(wire, into)
}

// cut is the position of a payload: after gap more bytes of the rest of the message.
type cut struct {
	gap, size uint64
	sum       hash
}

// readCuts returns the cuts of an encoded message and the rest of the message.
func readCuts(value []byte) (cuts []cut, rest []byte, err error) {
	if len(value) == 0 || value[0] != 0 {
		return nil, value, nil
	}
	r := reader{rest: value[1:]}
	n := r.uvarint()
	for range min(n, uint64(len(value))) {
		c := cut{gap: r.uvarint(), size: r.uvarint()}
		copy(c.sum[:], r.bytes(len(c.sum)))
		cuts = append(cuts, c)
	}
	if r.short || n > uint64(len(value)) {
		return nil, nil, errValue
	}
	return cuts, r.rest, nil
}

// taskState holds fields of a checkpoint that are stored before it, so that they are read without decoding the checkpoint.
type taskState struct {
	rev     uint64
	status  executorv1.ExecutorStatus
	lastSeq uint64
	// indexTime is the end of an ended task, else its deadline, in nanoseconds since 1970; 0: none.
	indexTime int64
}

// encodeCheckpoint appends a state and its checkpoint.
func encodeCheckpoint(dst []byte, s taskState, c *storagev1.Checkpoint) ([]byte, []payload, error) {
	for _, n := range []uint64{s.rev, uint64(uint32(s.status)), s.lastSeq, uint64(s.indexTime)} {
		dst = binary.AppendUvarint(dst, n)
	}
	return encode(dst, c)
}

// readState returns the state and the encoded checkpoint that follows it.
func readState(value []byte) (taskState, []byte, error) {
	r := reader{rest: value}
	s := taskState{
		rev: r.uvarint(), status: executorv1.ExecutorStatus(int32(r.uvarint())), lastSeq: r.uvarint(), indexTime: int64(r.uvarint()),
	}
	if r.short {
		return taskState{}, nil, errValue
	}
	return s, r.rest, nil
}

// reader reads numbers and bytes; short is set if there were too few bytes.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.short = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes(n int) []byte {
	if len(r.rest) < n {
		r.short = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
