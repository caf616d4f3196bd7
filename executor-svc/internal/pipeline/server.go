package pipeline

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/toolcall"
)

// releaseTimeout bounds the request that releases a session.
const releaseTimeout = 5 * time.Second

// Deps are what the service uses.
type Deps struct {
	Planner plannerv1.PlannerServiceClient
	Pool    mcppoolv1.McpPoolServiceClient
	Tasks   Tasks
	Lister  *toolcall.Lister // nil: a new one
	// Replicas reports that the MCP pool has several processes.
	Replicas bool
	// MaxPerUser bounds the requests of one user that run at once; 0: any number. The local user is not limited.
	MaxPerUser int
	Log        *slog.Logger
}

// Server implements CompletionService.
type Server struct {
	pipelinev1.UnsafeCompletionServiceServer
	Deps
	pipeline *Pipeline

	mu   sync.Mutex
	busy map[string]int // requests of each user; guarded by mu
}

// NewServer returns the service.
func NewServer(d Deps) *Server {
	s := &Server{Deps: d, busy: map[string]int{}}
	s.pipeline = &Pipeline{
		once: []Processor{&ToolPreparation{Pool: d.Pool, Planner: d.Planner, Lister: cmp.Or(d.Lister, toolcall.NewLister()), Route: s.route}},
		repeated: []Processor{
			&ConversationEntry{Planner: d.Planner}, SideBand{}, ToolCallExtractor{},
			&ToolExecution{Pool: d.Pool, Tasks: d.Tasks, Route: s.route}, ResultFormatting{}, Recursion{},
		},
	}
	return s
}

// Register adds the service to a server.
func (s *Server) Register(r grpc.ServiceRegistrar) { pipelinev1.RegisterCompletionServiceServer(r, s) }

// Complete implements CompletionService.
func (s *Server) Complete(ctx context.Context, req *pipelinev1.CompleteRequest) (*pipelinev1.CompleteResponse, error) {
	user, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.complete(ctx, user, req, nil)
}

// StreamComplete implements CompletionService.
func (s *Server) StreamComplete(req *pipelinev1.StreamCompleteRequest, stream grpc.ServerStreamingServer[pipelinev1.StreamCompleteResponse]) error {
	user, leave, err := s.enter(stream.Context())
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	out := &Tee{}
	var failed error
	var running sync.WaitGroup
	running.Go(func() {
		defer out.Close()
		var res *pipelinev1.CompleteResponse
		if res, failed = s.complete(ctx, user, req.GetCompletion(), out); failed == nil {
			out.Send(&pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_Response{Response: res}})
		}
	})
	err = out.Forward(ctx, stream.Send)
	cancel()
	running.Wait()
	return cmp.Or(err, failed)
}

func (s *Server) complete(ctx context.Context, user string, req *pipelinev1.CompleteRequest, out *Tee) (*pipelinev1.CompleteResponse, error) {
	ctx, cancel := context.WithCancel(identity.OnBehalfOf(ctx, user))
	defer cancel()
	x := &Exchange{
		Request: req, User: user, Session: "completion/" + uuid.NewString(), Out: out, System: req.GetSystem(), Messages: slices.Clip(req.GetMessages()),
		ByName: map[string]*commonv1.Tool{}, Response: &pipelinev1.CompleteResponse{Usage: &commonv1.Usage{}},
	}
	defer s.release(ctx, x)
	ctx, end := x.startSpan(ctx)
	err := s.pipeline.Run(ctx, x)
	end(err)
	if err != nil {
		return nil, err
	}
	return x.Response, nil
}

// enter returns the caller's user, and counts the request until leave is called, or refuses it.
func (s *Server) enter(ctx context.Context) (user string, leave func(), err error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return "", nil, err
	}
	user = who.Sub
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.MaxPerUser > 0 && s.busy[user] >= s.MaxPerUser && user != identity.LocalSub {
		return "", nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"you have %d completions running; wait until one has ended, or ask an operator to raise --max-completions", s.MaxPerUser)
	}
	s.busy[user]++
	return user, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy[user]--; s.busy[user] == 0 {
			delete(s.busy, user)
		}
	}, nil
}

// route implements Route.
func (s *Server) route(ctx context.Context, mcpID, user string) context.Context {
	if !s.Replicas {
		return ctx
	}
	return serve.WithAffinity(ctx, mcpID, user)
}

// release tells the MCP pool that the request has ended. If that fails, the pool closes the idle connections after a while.
func (s *Server) release(ctx context.Context, x *Exchange) {
	ids := x.Request.GetMcpIds()
	if !s.Replicas && len(ids) > 1 {
		ids = ids[:1]
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	for _, id := range ids {
		if _, err := s.Pool.ReleaseSession(s.route(ctx, id, x.User), &mcppoolv1.ReleaseSessionRequest{SessionId: x.Session}); err != nil {
			s.Log.WarnContext(ctx, "the session of a completion could not be released", "error", err)
		}
	}
}
