package gateway_test

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// journal remembers the calls that reached a service, whatever service it is.
type journal struct {
	mu    sync.Mutex
	calls []call
}

type call struct {
	method string
	md     metadata.MD
	req    any
}

func (j *journal) add(ctx context.Context, method string, req any) {
	md, _ := metadata.FromIncomingContext(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls = append(j.calls, call{method, md, req})
}

// take returns the calls since the last take.
func (j *journal) take() []call {
	j.mu.Lock()
	defer j.mu.Unlock()
	calls := j.calls
	j.calls = nil
	return calls
}

// faking registers services whose calls a journal remembers. It answers the methods that a service does not implement.
type faking struct {
	grpc.ServiceRegistrar
	journal *journal
}

// RegisterService implements grpc.ServiceRegistrar.
func (f faking) RegisterService(desc *grpc.ServiceDesc, impl any) {
	own := *desc
	own.Methods, own.Streams = slices.Clone(desc.Methods), slices.Clone(desc.Streams)
	for i, m := range own.Methods {
		own.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
			return m.Handler(srv, ctx, decode, func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				answer := func(ctx context.Context, req any) (any, error) {
					f.journal.add(ctx, info.FullMethod, req)
					resp, err := next(ctx, req)
					if status.Code(err) == codes.Unimplemented {
						return response(desc.ServiceName, m.MethodName, req.(proto.Message)), nil
					}
					return resp, err
				}
				if around == nil {
					return answer(ctx, req)
				}
				return around(ctx, req, info, answer)
			})
		}
	}
	for i, s := range own.Streams {
		own.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
			err := s.Handler(srv, recorded{stream, f.journal, "/" + desc.ServiceName + "/" + s.StreamName})
			if status.Code(err) == codes.Unimplemented {
				return nil
			}
			return err
		}
	}
	f.ServiceRegistrar.RegisterService(&own, impl)
}

// recorded is a stream whose request the journal remembers.
type recorded struct {
	grpc.ServerStream
	journal *journal
	method  string
}

// RecvMsg implements grpc.ServerStream.
func (r recorded) RecvMsg(m any) error {
	err := r.ServerStream.RecvMsg(m)
	if err == nil {
		r.journal.add(r.Context(), r.method, m)
	}
	return err
}

// response returns the response of a method that the test does not script: the resource of its type that the request has, or one with the request's id.
func response(service, method string, req proto.Message) proto.Message {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		panic(err)
	}
	output := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method)).Output()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(output.FullName())
	if err != nil {
		panic(err)
	}
	resp, r := kind.New(), req.ProtoReflect()
	for i := range r.Descriptor().Fields().Len() {
		if field := r.Descriptor().Fields().Get(i); field.Message() == output {
			return r.Get(field).Message().Interface()
		}
	}
	if from, to := r.Descriptor().Fields().ByName("id"), output.Fields().ByName("id"); from != nil && to != nil {
		resp.Set(to, r.Get(from))
	}
	return resp.Interface()
}

var errUnimplemented = status.Error(codes.Unimplemented, "faking answers")

// fakeExecutor answers with its functions.
type fakeExecutor struct {
	executorv1.UnimplementedExecutorServiceServer
	CreateTaskFn func(*executorv1.CreateTaskRequest) (*executorv1.Task, error)
	GetTaskFn    func(*executorv1.GetTaskRequest) (*executorv1.Task, error)
	RunTaskFn    func(*executorv1.RunTaskRequest, grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error
	WatchTaskFn  func(*executorv1.WatchTaskRequest, grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error
	ExportTaskFn func(*executorv1.ExportTaskRequest, grpc.ServerStreamingServer[executorv1.ExportTaskResponse]) error
}

func (f *fakeExecutor) CreateTask(_ context.Context, r *executorv1.CreateTaskRequest) (*executorv1.Task, error) {
	return unary(f.CreateTaskFn, r)
}

func (f *fakeExecutor) GetTask(_ context.Context, r *executorv1.GetTaskRequest) (*executorv1.Task, error) {
	return unary(f.GetTaskFn, r)
}

func (f *fakeExecutor) RunTask(r *executorv1.RunTaskRequest, s grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error {
	return streaming(f.RunTaskFn, r, s)
}

func (f *fakeExecutor) WatchTask(r *executorv1.WatchTaskRequest, s grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error {
	return streaming(f.WatchTaskFn, r, s)
}

func (f *fakeExecutor) ExportTask(r *executorv1.ExportTaskRequest, s grpc.ServerStreamingServer[executorv1.ExportTaskResponse]) error {
	return streaming(f.ExportTaskFn, r, s)
}

// fakeCompletions answers with its function.
type fakeCompletions struct {
	pipelinev1.UnimplementedCompletionServiceServer
	StreamCompleteFn func(*pipelinev1.StreamCompleteRequest, completionStream) error
}

func (f *fakeCompletions) StreamComplete(r *pipelinev1.StreamCompleteRequest, s completionStream) error {
	return streaming(f.StreamCompleteFn, r, s)
}

// fakePlanner answers with its function.
type fakePlanner struct {
	plannerv1.UnimplementedPlannerServiceServer
	ListModelsFn func(*plannerv1.ListModelsRequest) (*plannerv1.ListModelsResponse, error)
}

func (f *fakePlanner) ListModels(_ context.Context, r *plannerv1.ListModelsRequest) (*plannerv1.ListModelsResponse, error) {
	return unary(f.ListModelsFn, r)
}

// fakeAgents answers with its functions.
type fakeAgents struct {
	executorv1.UnimplementedAgentServiceServer
	GetAgentFn   func(*executorv1.GetAgentRequest) (*executorv1.Agent, error)
	ListAgentsFn func(*executorv1.ListAgentsRequest) (*executorv1.ListAgentsResponse, error)
}

func (f *fakeAgents) GetAgent(_ context.Context, r *executorv1.GetAgentRequest) (*executorv1.Agent, error) {
	return unary(f.GetAgentFn, r)
}

func (f *fakeAgents) ListAgents(_ context.Context, r *executorv1.ListAgentsRequest) (*executorv1.ListAgentsResponse, error) {
	return unary(f.ListAgentsFn, r)
}

func unary[Req, Resp any](fn func(*Req) (*Resp, error), r *Req) (*Resp, error) {
	if fn == nil {
		return nil, errUnimplemented
	}
	return fn(r)
}

func streaming[Req, Resp any](fn func(*Req, grpc.ServerStreamingServer[Resp]) error, r *Req, s grpc.ServerStreamingServer[Resp]) error {
	if fn == nil {
		return errUnimplemented
	}
	return fn(r, s)
}

// fakePool answers with its functions.
type fakePool struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
	CallToolFn          func(*mcppoolv1.CallToolRequest, grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error
	AttachCallFn        func(*mcppoolv1.AttachCallRequest, grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error
	WatchMcpServersFn   func(*mcppoolv1.WatchMcpServersRequest, grpc.ServerStreamingServer[mcppoolv1.WatchMcpServersResponse]) error
	SubscribeResourceFn func(*mcppoolv1.SubscribeResourceRequest, grpc.ServerStreamingServer[mcppoolv1.SubscribeResourceResponse]) error
}

func (f *fakePool) CallTool(r *mcppoolv1.CallToolRequest, s grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
	return streaming(f.CallToolFn, r, s)
}

func (f *fakePool) AttachCall(r *mcppoolv1.AttachCallRequest, s grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error {
	return streaming(f.AttachCallFn, r, s)
}

func (f *fakePool) WatchMcpServers(r *mcppoolv1.WatchMcpServersRequest, s grpc.ServerStreamingServer[mcppoolv1.WatchMcpServersResponse]) error {
	return streaming(f.WatchMcpServersFn, r, s)
}

func (f *fakePool) SubscribeResource(r *mcppoolv1.SubscribeResourceRequest, s grpc.ServerStreamingServer[mcppoolv1.SubscribeResourceResponse]) error {
	return streaming(f.SubscribeResourceFn, r, s)
}
