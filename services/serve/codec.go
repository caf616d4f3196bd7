package serve

import (
	"fmt"
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec does what gRPC's own does for protobuf, with other buffers for messages of more than a kilobyte. gRPC's pool has buffers of
// 32 KiB and then of 1 MiB, and clears each that it hands out: a message of 60 kB took 2.5 times the CPU.
type codec struct{}

// Name is what would be added to the content type of each call; plain application/grpc means protobuf.
func (codec) Name() string { return "" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("marshal a %T: it is no protobuf message", v)
	}
	size, options := proto.Size(m), proto.MarshalOptions{UseCachedSize: true} // which is of this moment
	if mem.IsBelowBufferPoolingThreshold(size) {
		b, err := options.Marshal(m)
		if err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	buf := messages.Get(size)
	if _, err := options.MarshalAppend((*buf)[:0], m); err != nil {
		messages.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, &messages)}, nil
}

// Unmarshal copies what it keeps: the buffer is used again.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("unmarshal a %T: it is no protobuf message", v)
	}
	buf := data.MaterializeToBuffer(&messages)
	defer buf.Free()
	return proto.Unmarshal(buf.ReadOnlyData(), m)
}

const (
	smallestBuffer = 11 // 2 KiB, as a power of two
	largestBuffer  = 23 // 8 MiB; larger messages are rare
)

// messages are the buffers of all connections.
var messages buffers

// buffers has pools of buffers, each of twice the size of those before. It does not clear them: who takes one fills it.
type buffers [largestBuffer + 1]sync.Pool

// Get implements mem.BufferPool.
func (b *buffers) Get(length int) *[]byte {
	power := max(smallestBuffer, bits.Len(uint(max(length, 1)-1)))
	if power > largestBuffer {
		buf := make([]byte, length)
		return &buf
	}
	if buf, ok := b[power].Get().(*[]byte); ok {
		*buf = (*buf)[:length]
		return buf
	}
	buf := make([]byte, length, 1<<power)
	return &buf
}

// Put implements mem.BufferPool.
func (b *buffers) Put(buf *[]byte) {
	power := bits.Len(uint(cap(*buf))) - 1
	if power >= smallestBuffer && power <= largestBuffer && cap(*buf) == 1<<power {
		b[power].Put(buf)
	}
}
