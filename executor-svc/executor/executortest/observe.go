package executortest

import (
	"context"
	"errors"
	"io"
	"path"
	"time"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/executor-svc/executor"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Observer is called at each point at which a crash test should kill the process. Many goroutines call it, and it blocks their work.
// The points:
//
//	Create.before     a new task is not stored yet
//	Create.after      the new task is durable
//	Commit.…, Send.…  the same for a transition, and for a command
//	Post.…            the same for an addition to a topic that is not part of a transition
//	UpdateTopic.…     the same for a change of a topic's settings
//	DeleteTopic.…     the same for a topic
//	Dispatched.…      the same for the removal of messages from the outbox
//	CallTool.before   a call is not sent to the pool yet
//	CallTool.sent     its request was written to the stream
//	CallTool.message  a message that precedes its result arrived
//	CallTool.end      its result arrived, or an error that ends the call or the stream
//	AttachCall.…      the same for a request for a call's outcome
//	AckCall.before    an acknowledgement is not sent to the pool yet
//	AckCall.after     the pool has replied, or cannot be reached
//	CancelCall.…, ReleaseSession.…  the same
//
// The points of the journal reach `after` only if the change succeeded. A stream that cannot be opened reaches no point.
type Observer func(point string)

// Observe returns deps whose journal and connection to the pool call see at each point.
func Observe(deps executor.Deps, see Observer) executor.Deps {
	deps.WrapJournal = func(j journal.Journal) journal.Journal { return observedJournal{j, see} }
	deps.Pool = observedConn{deps.Pool, see}
	return deps
}

type observedJournal struct {
	journal.Journal
	see Observer
}

func (o observedJournal) Create(ctx context.Context, n journal.NewTask) (id string, created bool, err error) {
	err = o.around("Create", func() error {
		id, created, err = o.Journal.Create(ctx, n)
		return err
	})
	return id, created, err
}

func (o observedJournal) Commit(ctx context.Context, t journal.Transition) error {
	return o.around("Commit", func() error { return o.Journal.Commit(ctx, t) })
}

func (o observedJournal) Send(ctx context.Context, taskID string, c *storagev1.Command) (no uint64, err error) {
	err = o.around("Send", func() error {
		no, err = o.Journal.Send(ctx, taskID, c)
		return err
	})
	return no, err
}

func (o observedJournal) Post(ctx context.Context, p journal.Post) (seq uint64, posted bool, err error) {
	err = o.around("Post", func() error {
		seq, posted, err = o.Journal.Post(ctx, p)
		return err
	})
	return seq, posted, err
}

func (o observedJournal) UpdateTopic(ctx context.Context, id string, t *storagev1.Topic, now time.Time, facts []*storagev1.TopicFact) error {
	return o.around("UpdateTopic", func() error { return o.Journal.UpdateTopic(ctx, id, t, now, facts) })
}

func (o observedJournal) DeleteTopic(ctx context.Context, id string, rev uint64) error {
	return o.around("DeleteTopic", func() error { return o.Journal.DeleteTopic(ctx, id, rev) })
}

func (o observedJournal) Dispatched(ctx context.Context, numbers []uint64) error {
	return o.around("Dispatched", func() error { return o.Journal.Dispatched(ctx, numbers) })
}

func (o observedJournal) around(what string, do func() error) error {
	o.see(what + ".before")
	err := do()
	if err == nil {
		o.see(what + ".after")
	}
	return err
}

type observedConn struct {
	grpc.ClientConnInterface
	see Observer
}

func (o observedConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	switch method {
	case mcppoolv1.McpPoolService_AckCall_FullMethodName, mcppoolv1.McpPoolService_CancelCall_FullMethodName,
		mcppoolv1.McpPoolService_ReleaseSession_FullMethodName:
	default:
		return o.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	o.see(path.Base(method) + ".before")
	err := o.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	o.see(path.Base(method) + ".after")
	return err
}

func (o observedConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := o.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	if desc.ClientStreams {
		return &observedCalls{stream, o.see}, nil
	}
	return &observedStream{stream, path.Base(method), o.see}, nil
}

// observedStream is an AttachCall stream.
type observedStream struct {
	grpc.ClientStream
	method string
	see    Observer
}

func (s *observedStream) SendMsg(m any) error {
	s.see(s.method + ".before")
	return s.ClientStream.SendMsg(m)
}

// CloseSend sends the request.
func (s *observedStream) CloseSend() error {
	err := s.ClientStream.CloseSend()
	s.see(s.method + ".sent")
	return err
}

func (s *observedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	point := ".message"
	if res, ok := m.(interface {
		GetResult() *mcppoolv1.CallResult
	}); err != nil || ok && res.GetResult() != nil {
		point = ".end"
	}
	s.see(s.method + point)
	return err
}

// observedCalls is a CallTools stream.
type observedCalls struct {
	grpc.ClientStream
	see Observer
}

func (s *observedCalls) SendMsg(m any) error {
	s.see("CallTool.before")
	err := s.ClientStream.SendMsg(m)
	if err == nil {
		s.see("CallTool.sent")
	}
	return err
}

func (s *observedCalls) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if errors.Is(err, io.EOF) {
		return err // the stream ended between calls
	}
	point := "CallTool.message"
	if res, ok := m.(*mcppoolv1.CallToolsResponse); err != nil || ok && (res.GetError() != nil || res.GetCall().GetResult() != nil) {
		point = "CallTool.end"
	}
	s.see(point)
	return err
}
