package serve

import (
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// awaitedBytes is the size from which a message of a stream counts as sent only when it is written.
const awaitedBytes = 256 << 10

// awaited is a message whose encoding is freed once gRPC has written it to the connection, or has given it up. Without it, a large message is on
// the queue of its connection when SendMsg returns, and nothing tells when a slow client has read it.
type awaited struct {
	proto.Message
	once  sync.Once
	freed chan struct{}
}

// codec is gRPC's codec, which also encodes an awaited.
type codec struct{ encoding.CodecV2 }

// newCodec returns the codec of all servers.
func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*awaited)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	raw, err := proto.Marshal(a.Message)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(&raw, a)}, nil
}

// Get implements mem.BufferPool; it is not called.
func (*awaited) Get(n int) *[]byte { raw := make([]byte, n); return &raw }

// Put implements mem.BufferPool: it gets the encoding once nothing uses it.
func (a *awaited) Put(*[]byte) { a.once.Do(func() { close(a.freed) }) }
