package load

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// unread is the largest flow-control window.
const unread = 1<<31 - 1

// begin starts an HTTP/2 connection with a window for each stream.
func begin(conn net.Conn, window uint32) (*http2.Framer, error) {
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	f := http2.NewFramer(conn, conn)
	return f, f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
}

// call begins a gRPC call.
func call(f *http2.Framer, stream uint32, method, key string) error {
	var block bytes.Buffer
	headers := hpack.NewEncoder(&block)
	fields := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", method}, {"content-type", "application/grpc"}, {"te", "trailers"}}
	if key != "" {
		fields = append(fields, [2]string{"authorization", "Bearer " + key})
	}
	for _, field := range fields {
		_ = headers.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // a buffer takes everything
	}
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
}

// unfinishedMessages begins gRPC calls on a connection whose messages do not arrive whole; in a stream of calls, that is the second message. It sends as much as the server's windows allow, and
// returns when the server closes the connection or the attack ends.
func unfinishedMessages(conn net.Conn, key, method string, calls int) {
	f, err := begin(conn, 65535)
	if err != nil {
		return
	}
	left, windows := map[uint32]int{}, map[uint32]int{0: 65535} // of the connection: 0
	prefix := binary.BigEndian.AppendUint32([]byte{0}, announced)
	if method == mcppoolv1.McpPoolService_CallTools_FullMethodName {
		first, err := proto.Marshal(&mcppoolv1.CallToolsRequest{Call: &mcppoolv1.CallToolRequest{McpId: "t", Name: "echo", InputJson: `{"text":"x"}`, CallId: "c"}})
		if err != nil {
			return
		}
		prefix = slices.Concat(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(first))), first, prefix)
	}
	for i := range calls {
		stream := uint32(2*i + 1)
		if call(f, stream, method, key) != nil || f.WriteData(stream, false, prefix) != nil {
			return
		}
		left[stream], windows[stream] = sent, 65535-len(prefix)
		windows[0] -= len(prefix)
	}
	data := make([]byte, chunk)
	initial := 65535
	for {
		for stream, n := range left {
			for n > 0 && windows[0] > 0 && windows[stream] > 0 {
				piece := min(n, windows[0], windows[stream], chunk)
				if f.WriteData(stream, false, data[:piece]) != nil {
					return
				}
				n -= piece
				windows[0] -= piece
				windows[stream] -= piece
			}
			left[stream] = n
		}
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.WindowUpdateFrame:
			windows[frame.StreamID] += int(frame.Increment)
		case *http2.SettingsFrame:
			if value, ok := frame.Value(http2.SettingInitialWindowSize); ok {
				for stream := range left {
					windows[stream] += int(value) - initial
				}
				initial = int(value)
			}
		case *http2.RSTStreamFrame:
			delete(left, frame.StreamID)
		}
	}
}

// watchUnread watches a task over gRPC, with windows that never end.
func watchUnread(conn net.Conn, key, task string) {
	f, err := begin(conn, unread)
	if err != nil {
		return
	}
	request, err := proto.Marshal(&executorv1.WatchTaskRequest{Id: task})
	if err != nil {
		return
	}
	if f.WriteWindowUpdate(0, unread-65535) != nil || call(f, 1, executorv1.ExecutorService_WatchTask_FullMethodName, key) != nil {
		return
	}
	_ = f.WriteData(1, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request))), request...))
}
