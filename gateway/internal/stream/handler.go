package stream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/gateway/internal/problem"
)

// subscribeWait is how long a subscription (GET) waits for its first message before it answers 200: long enough for most
// errors to become an HTTP status, short enough for a client that shows whether it is connected.
const subscribeWait = time.Second

// Config is the configuration of streams.
type Config struct {
	Heartbeat time.Duration   // between two comments that keep an SSE connection open
	Stopping  <-chan struct{} // closed when streams are to end
	Log       *slog.Logger
}

// Handler serves streaming RPCs.
type Handler struct {
	cfg Config
	// encoding bounds how many large messages are encoded at once, so that they do not take all cores.
	encoding chan struct{}
}

// largeMessage is the size in bytes from which a message counts as large.
const largeMessage = 64 << 10

// New returns the handler.
func New(cfg Config) *Handler {
	return &Handler{cfg: cfg, encoding: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))}
}

// Call is a call of a streaming RPC.
type Call struct {
	Conn   grpc.ClientConnInterface
	Method string // /package.Service/Method
	RPC    protoreflect.MethodDescriptor
	In     proto.Message
	// Framing encodes the stream; nil: SSE if the client accepts it, else NDJSON.
	Framing Framing
	// Fail answers with an error before the stream begins; nil: with a problem.
	Fail func(http.ResponseWriter, error)
	// Done reports, after a message was read, whether the client needs no further ones; nil: it needs all.
	Done func() bool
}

// done reports whether no further messages are needed.
func (c Call) done() bool { return c.Done != nil && c.Done() }

// IsDocument reports whether an RPC answers with the pieces of one document: its messages have a single field of bytes.
func IsDocument(rpc protoreflect.MethodDescriptor) bool {
	fields := rpc.Output().Fields()
	return rpc.IsStreamingServer() && fields.Len() == 1 && fields.Get(0).Kind() == protoreflect.BytesKind
}

// Serve calls the streaming RPC of a route and forwards its messages until the call ends, the client disconnects or the gateway
// stops. The call has ended when Serve returns. If the messages are the pieces of a document, the response is the document, and a stopping
// gateway still completes it.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, call Call) {
	if IsDocument(call.RPC) {
		h.serveDocument(w, r, call)
		return
	}
	if call.Fail == nil {
		call.Fail = problem.Write
	}
	resumed, err := resume(r.Header, call.In)
	if err != nil {
		call.Fail(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	incoming, err := startCall(ctx, call)
	if err != nil {
		cancel()
		call.Fail(w, err)
		return
	}
	defer func() { // the receiver ends before the handler does
		cancel()
		for range incoming {
		}
	}()
	s := &session{w: w, framing: call.Framing, refuse: call.Fail, done: call.done, encoding: h.encoding, log: h.cfg.Log, emptyMeansEnded: resumed && follows(call.In)}
	switch {
	case call.Framing != nil:
	case wantsSSE(r.Header):
		s.framing = sse{}
	default:
		s.framing = ndjson{}
	}
	s.last.LastSeq = afterSeq(call.In)
	h.pump(ctx, s, incoming, h.firstWait(r.Method))
}

// firstWait returns how long to wait for the first message before answering 200. A POST waits for one heartbeat, the longest time that a
// connection should be silent, so that most of its errors have an HTTP status.
func (h *Handler) firstWait(method string) time.Duration {
	if method == http.MethodGet {
		return min(subscribeWait, h.cfg.Heartbeat)
	}
	return h.cfg.Heartbeat
}

func (h *Handler) pump(ctx context.Context, s *session, incoming <-chan received, firstWait time.Duration) {
	first := time.NewTimer(firstWait)
	defer first.Stop()
	heartbeat := time.NewTicker(h.cfg.Heartbeat)
	defer heartbeat.Stop()
	for s.err == nil {
		select {
		case got, ok := <-incoming:
			if !ok || s.forward(got) {
				return
			}
			got.written <- struct{}{}
		case <-first.C:
			s.writeHeader()
		case <-heartbeat.C:
			s.beat()
		case <-h.cfg.Stopping:
			s.stop()
			return
		case <-ctx.Done():
			return
		}
	}
}

// received is a message, or the error that ended the stream; io.EOF if it succeeded.
type received struct {
	message proto.Message
	err     error
	written chan<- struct{} // takes a value when the message was written
}

// startCall starts the call and a goroutine that receives its messages: the next one when the last was written, so that a slow client delays
// the sender. The channel ends with the stream's error, or io.EOF; it is closed early if ctx ends.
func startCall(ctx context.Context, call Call) (<-chan received, error) {
	output, err := protoregistry.GlobalTypes.FindMessageByName(call.RPC.Output().FullName())
	if err != nil {
		return nil, err
	}
	desc := &grpc.StreamDesc{StreamName: string(call.RPC.Name()), ServerStreams: true}
	messages, err := call.Conn.NewStream(ctx, desc, call.Method)
	if err != nil {
		return nil, err
	}
	if err := messages.SendMsg(call.In); err != nil && !errors.Is(err, io.EOF) { // after EOF, RecvMsg returns the reason
		return nil, err
	}
	if err := messages.CloseSend(); err != nil {
		return nil, err
	}
	incoming, written := make(chan received), make(chan struct{}, 1)
	go func() {
		defer close(incoming)
		for {
			got := receive(messages, output)
			got.written = written
			select {
			case incoming <- got:
			case <-ctx.Done():
				return
			}
			if got.err != nil {
				return
			}
			got.message = nil
			select {
			case <-written:
			case <-ctx.Done():
				return
			}
		}
	}()
	return incoming, nil
}

func receive(messages grpc.ClientStream, output protoreflect.MessageType) received {
	m := output.New().Interface()
	return received{message: m, err: messages.RecvMsg(m)}
}

// Each calls each with the messages of the call, one after the other, and returns when the call has ended or is done, or with the error of each.
func (c Call) Each(ctx context.Context, each func(proto.Message) error) error {
	ctx, cancel := context.WithCancel(ctx)
	incoming, err := startCall(ctx, c)
	if err != nil {
		cancel()
		return err
	}
	defer func() { // the receiver ends before Each does
		cancel()
		for range incoming {
		}
	}()
	for got := range incoming {
		switch {
		case errors.Is(got.err, io.EOF):
			return nil
		case got.err != nil:
			return got.err
		}
		if err := each(got.message); err != nil || c.done() {
			return err
		}
		got.written <- struct{}{}
	}
	return context.Cause(ctx)
}

// resume sets after_seq of the request to the Last-Event-ID of a client that reconnects, and reports whether it did. The header overrides
// the query, because an EventSource repeats its URL unchanged.
func resume(header http.Header, in proto.Message) (bool, error) {
	id := header.Get("Last-Event-ID")
	if id == "" {
		return false, nil
	}
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return false, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			"the header Last-Event-ID is %q; send the number of the last event that you saw, or leave it out", id)
	}
	switch in := in.(type) {
	case *executorv1.WatchTaskRequest:
		in.AfterSeq = seq
	case *executorv1.RunTaskRequest:
		in.AfterSeq = seq
	case *conversationv1.WatchTopicRequest:
		in.AfterSeq = seq
	default:
		return false, nil // events of this stream have no numbers
	}
	return true, nil
}

func afterSeq(in proto.Message) uint64 {
	if in, ok := in.(interface{ GetAfterSeq() uint64 }); ok {
		return in.GetAfterSeq()
	}
	return 0
}

// follows reports whether the stream is a watch that lasts until its task has ended.
func follows(in proto.Message) bool {
	watch, ok := in.(*executorv1.WatchTaskRequest)
	return ok && !watch.GetNoFollow()
}
