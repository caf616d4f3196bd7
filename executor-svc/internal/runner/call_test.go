package runner

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/inproc"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

type callsStream = grpc.BidiStreamingServer[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]

// scripted is a pool whose replies come from a test's functions.
type scripted struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
	calls   func(callsStream) error
	attach  func(grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error
	answers func(*mcppoolv1.AnswerCallRequest)
}

func (p *scripted) CallTools(s callsStream) error { return p.calls(s) }

func (p *scripted) AttachCall(_ *mcppoolv1.AttachCallRequest, s grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error {
	return p.attach(s)
}

func (p *scripted) AnswerCall(_ context.Context, r *mcppoolv1.AnswerCallRequest) (*mcppoolv1.AnswerCallResponse, error) {
	p.answers(r)
	return &mcppoolv1.AnswerCallResponse{}, nil
}

func (*scripted) CancelCall(context.Context, *mcppoolv1.CancelCallRequest) (*mcppoolv1.CancelCallResponse, error) {
	return &mcppoolv1.CancelCallResponse{}, nil
}

// session returns a session of a pool, and its task; through, if not nil, wraps the connection between them.
func session(p *scripted, through func(grpc.ClientConnInterface) grpc.ClientConnInterface) (*Session, *flow.Task) {
	direct := inproc.New(nil, nil)
	mcppoolv1.RegisterMcpPoolServiceServer(direct, p)
	var conn grpc.ClientConnInterface = direct
	if through != nil {
		conn = through(conn)
	}
	r := New(Config{}, nil, mcppoolv1.NewMcpPoolServiceClient(conn), slog.New(slog.DiscardHandler))
	head := &storagev1.TaskHead{UserSub: "u"}
	st := &storagev1.ActiveStep{Ordinal: 1, Attempt: 1, ToolId: "t/write", InputJson: "{}"}
	task := &flow.Task{ID: "task", Head: head, State: &storagev1.Checkpoint{Lanes: []*storagev1.Lane{{Step: st}}}, Now: time.Now()}
	return r.Session("task", 1, head, Memory{}), task
}

// run runs an action, ends the session and the runner, and returns the action's last input.
func run(t *testing.T, s *Session, do Run) (last flow.Input) {
	t.Helper()
	do(t.Context(), func(in flow.Input) { last = in })
	s.Leave(t.Context(), false)
	s.r.Close()
	return last
}

var errNoKey = errs.New(codes.Unauthenticated, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, "the key was removed")

// A pool that refuses the executor's credential while a call runs does not report the outcome: the session asks for it with AttachCall.
func TestCallBehindARefusedCredential(t *testing.T) {
	p := &scripted{
		calls: func(s callsStream) error {
			if _, err := s.Recv(); err != nil {
				return err
			}
			return errNoKey // the tool ran; its result cannot be sent
		},
		attach: func(s grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error {
			return s.Send(&mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Result{Result: &mcppoolv1.CallResult{}}})
		},
	}
	s, task := session(p, nil)
	got, ok := run(t, s, s.callTool(t.Context(), task, 0, task.State.Lanes[0].Step, 1, nil)).(flow.Called)
	if !ok || got.Err != nil || got.Outcome != commonv1.Outcome_OUTCOME_KNOWN {
		t.Errorf("got %+v", got)
	}
}

// If the pool does not name the outcome of a call, it is unknown: it is not proven that the call did not run.
func TestAttachRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []codes.Code{codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented} {
			p := &scripted{attach: func(grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error {
				return errs.New(code, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, "not you")
			}}
			s, task := session(p, nil)
			got, ok := run(t, s, s.attachCall(t.Context(), 0, task.State.Lanes[0].Step, flow.Attach{Ordinal: 1, Attempt: 1})).(flow.Called)
			if !ok || got.Outcome != commonv1.Outcome_OUTCOME_UNKNOWN || !got.Lost {
				t.Errorf("%v: got %+v", code, got)
			}
		}
	})
}

// A call that ends while its questions are collected has ended, and no person is asked.
func TestKnownEndAfterAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &scripted{calls: func(s callsStream) error {
			if _, err := s.Recv(); err != nil {
				return err
			}
			asked := &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_InputRequired{InputRequired: &mcppoolv1.CallInputRequired{InputId: "q1", Message: "?"}}}
			if err := s.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Call{Call: asked}}); err != nil {
				return err
			}
			end := errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED, "no").With(errs.OutcomeKey, errs.OutcomeKnown)
			if err := s.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Error{Error: end.GRPCStatus().Proto()}}); err != nil {
				return err
			}
			_, err := s.Recv()
			return err
		}}
		s, task := session(p, nil)
		got, ok := run(t, s, s.callTool(t.Context(), task, 0, task.State.Lanes[0].Step, 1, nil)).(flow.Called)
		if !ok || got.Outcome != commonv1.Outcome_OUTCOME_KNOWN || got.Err.GetErrMsg() != "no" {
			t.Errorf("got %+v", got)
		}
	})
}

// opening is a connection that calls do whenever a stream is opened.
type opening struct {
	grpc.ClientConnInterface
	do func()
}

func (o opening) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	o.do()
	return o.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

// A call that is told to stop while its stream is opened is not sent.
func TestStoppedWhileOpening(t *testing.T) {
	p := &scripted{calls: func(s callsStream) error {
		if _, err := s.Recv(); err == nil {
			t.Error("the call was sent")
		}
		return nil
	}}
	var s *Session
	s, task := session(p, func(c grpc.ClientConnInterface) grpc.ClientConnInterface {
		return opening{c, func() { s.calls[0].stopping.Store(true) }}
	})
	got, ok := run(t, s, s.callTool(t.Context(), task, 0, task.State.Lanes[0].Step, 1, nil)).(flow.Called)
	if !ok || got.Outcome != commonv1.Outcome_OUTCOME_NOT_EXECUTED {
		t.Errorf("got %+v", got)
	}
}

// After the call was told to stop, the second of two answers is not delivered.
func TestStoppedBetweenAnswers(t *testing.T) {
	var given []string
	var s *Session
	p := &scripted{
		attach: func(grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error {
			return errs.New(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "stopped").With(errs.OutcomeKey, errs.OutcomeUnknown)
		},
		answers: func(r *mcppoolv1.AnswerCallRequest) {
			given = append(given, r.GetAnswer().GetInputId())
			s.StopCall(t.Context(), 0, "cancelled")
		},
	}
	s, task := session(p, nil)
	st := task.State.Lanes[0].Step
	for _, id := range []string{"q1", "q2"} {
		st.Answers = append(st.Answers, &storagev1.InputAnswer{InputId: id, Action: executorv1.InputAnswer_ACTION_ACCEPT, ContentJson: "{}"})
	}
	run(t, s, s.attachCall(t.Context(), 0, st, flow.Attach{Ordinal: 1, Attempt: 1, Fresh: true}))
	if len(given) != 1 || given[0] != "q1" {
		t.Errorf("the pool was given %v", given)
	}
}
