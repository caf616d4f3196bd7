package serve

import (
	"bytes"
	"testing"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func body(size int, of byte) *testgrpc.Payload {
	return &testgrpc.Payload{Body: bytes.Repeat([]byte{of}, size)}
}

func TestCodecKeepsMessagesOfAllSizes(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 1024, 1025, 2040, 2048, 2049, 60_000, 1 << 20, 1<<23 - 8, 1 << 23, 9 << 20} {
		in := body(size, 'a')
		data, err := codec{}.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := proto.Marshal(in); err != nil || !bytes.Equal(data.Materialize(), want) {
			t.Errorf("%d bytes are not what protobuf makes of them (%v)", size, err)
		}
		wire := data.Materialize()
		data.Free()
		// It comes in frames.
		half := len(wire) / 2
		frames := mem.BufferSlice{mem.SliceBuffer(wire[:half]), mem.SliceBuffer(wire[half:])}
		out := &testgrpc.Payload{}
		if err := (codec{}).Unmarshal(frames, out); err != nil {
			t.Fatal(err)
		}
		overwritten, err := codec{}.Marshal(body(size, 'b')) // in the buffers that were given back
		if err != nil {
			t.Fatal(err)
		}
		overwritten.Free()
		if !proto.Equal(in, out) {
			t.Errorf("%d bytes became %d others", size, len(out.GetBody()))
		}
	}
}

func TestCodecRefusesWhatIsNoMessage(t *testing.T) {
	if _, err := (codec{}).Marshal("text"); err == nil {
		t.Error("Marshal took a string")
	}
	if err := (codec{}).Unmarshal(nil, new(string)); err == nil {
		t.Error("Unmarshal took a string")
	}
	for _, size := range []int{10, 5000} {
		bad := &testgrpc.SimpleResponse{Username: string(bytes.Repeat([]byte{0xff}, size))}
		if _, err := (codec{}).Marshal(bad); err == nil {
			t.Errorf("Marshal took %d bytes that are not UTF-8", size)
		}
	}
}
