package discover

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// Session is a connection to a server, which it opens at its first call and opens again if the server goes away.
type Session struct {
	Tasks    executorv1.ExecutorServiceClient
	Agents   executorv1.AgentServiceClient
	Pool     mcppoolv1.McpPoolServiceClient
	Planner  plannerv1.PlannerServiceClient
	Topics   conversationv1.TopicServiceClient
	Webhooks executorv1.WebhookServiceClient

	cfg      Config
	slowNote sync.Once // for the note that a server is slow

	mu     sync.Mutex // guards server
	server *Server    // nil before the first call
}

// New returns a session that is not connected yet.
func New(cfg Config) *Session {
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	if cfg.Alive == nil {
		cfg.Alive = Alive
	}
	s := &Session{cfg: cfg}
	s.Webhooks = executorv1.NewWebhookServiceClient(s)
	s.Topics = conversationv1.NewTopicServiceClient(s)
	s.Tasks, s.Agents = executorv1.NewExecutorServiceClient(s), executorv1.NewAgentServiceClient(s)
	s.Pool, s.Planner = mcppoolv1.NewMcpPoolServiceClient(s), plannerv1.NewPlannerServiceClient(s)
	return s
}

// Config returns the session's configuration.
func (s *Session) Config() Config { return s.cfg }

// Flags returns the flags with which another command line reaches the same server; "" or beginning with a space.
func (s *Session) Flags() string { return s.cfg.Flags }

// Server returns the server in use. It finds or starts one at the first call.
func (s *Session) Server(ctx context.Context) (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		server, err := s.open(ctx, cmp.Or(s.cfg.Patience, patience))
		if err != nil {
			return nil, err
		}
		s.server = server
		if s.cfg.KeyFromFlag && s.answersWithoutKey(ctx, server) {
			s.cfg.Note("the server has no keys: --key has no effect")
		}
	}
	return s.server, nil
}

// Opened returns the server in use, or nil before the first call.
func (s *Session) Opened() *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// Embedded reports whether the server runs in this process and ends with it.
func (s *Session) Embedded() bool {
	server := s.Opened()
	return server != nil && server.Kind == Embedded
}

// Close closes the connection, and stops a server in this process.
func (s *Session) Close() error {
	if server := s.Opened(); server != nil {
		return server.Close()
	}
	return nil
}

// Reconnect finds a server after lost went away. Later callers get the server that the first caller found. Reconnect starts a server in this
// process only if lost ended with the command that ran it: otherwise it would lock the data folder, which the lost server needs when it starts again.
func (s *Session) Reconnect(ctx context.Context, lost *Server) (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != lost {
		return s.server, nil
	}
	if lost.Kind == Embedded {
		return nil, ui.Errorf("the server inside this command ended").Then("run the command again; tasks go on where they were")
	}
	var server *Server
	var err error
	if lost.ofCommand {
		s.cfg.Note("the server at " + lost.Addr + " ended with its command; going on without it")
		server, err = s.open(ctx, s.reconnectPatience())
	} else {
		s.cfg.Note("the server at " + lost.Addr + " went away; waiting for it to come back")
		server, err = s.await(ctx, lost.Addr)
	}
	if err != nil {
		return nil, err
	}
	_ = lost.Close()
	s.server = server
	return server, nil
}

func (s *Session) reconnectPatience() time.Duration {
	return cmp.Or(s.cfg.ReconnectPatience, reconnectPatience)
}

// await looks for a server until one answers, for at most ReconnectPatience.
func (s *Session) await(ctx context.Context, lostAddr string) (*Server, error) {
	patience := s.reconnectPatience()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	retry := time.NewTicker(reconnectEvery)
	defer retry.Stop()
	for {
		server, err := s.findExisting(ctx)
		if err == nil {
			return server, nil
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, ctx.Err()
			}
			advice := "start one with pawl up"
			if s.cfg.Server != "" {
				advice = "start it again"
			}
			return nil, ui.WrapError(err, "the server at %s did not come back within %s", lostAddr, patience).
				Then("%s, then repeat the command; tasks go on where they were", advice)
		}
	}
}

// Invoke implements grpc.ClientConnInterface. It repeats a call whose server went away; all unary methods of the contracts may be repeated.
func (s *Session) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	server, err := s.Server(ctx)
	for attempt := 1; err == nil; attempt++ {
		err := server.Conn.Invoke(ctx, method, args, reply, s.withLogin(server, opts)...)
		if err == nil || attempt == maxAttempts || !Gone(err) || ctx.Err() != nil {
			return err
		}
		if server, err = s.Reconnect(ctx, server); err != nil {
			return err
		}
	}
	return err
}

// maxAttempts is the largest number of attempts of a call whose server went away.
const maxAttempts = 3

// NewStream implements grpc.ClientConnInterface. It does not repeat a stream, because only the reader knows what it has received.
func (s *Session) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	server, err := s.Server(ctx)
	if err != nil {
		return nil, err
	}
	return server.Conn.NewStream(ctx, desc, method, s.withLogin(server, opts)...)
}

// withLogin adds the credentials of the login to a call's options.
func (s *Session) withLogin(server *Server, opts []grpc.CallOption) []grpc.CallOption {
	if s.cfg.Login == nil || server.Kind == Embedded {
		return opts
	}
	return append(slices.Clip(opts), grpc.PerRPCCredentials(s.cfg.Login))
}

// Gone reports whether err means that the server went away, rather than that it refused the call.
func Gone(err error) bool {
	st, ok := status.FromError(err)
	if !ok || err == nil {
		return false
	}
	reason, found := reasonOf(st)
	switch {
	case found:
		return reason == errs.ReasonName(commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN)
	case st.Code() == codes.Unavailable:
		return true
	}
	return false
}

func reasonOf(st *status.Status) (string, bool) {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == errs.Domain {
			return info.GetReason(), true
		}
	}
	return "", false
}

// pageSize is the number of entries that All requests per page.
const pageSize = 1000

// All calls a List method until its last page and returns all pages as one response.
func All[Q, R proto.Message](ctx context.Context, list func(context.Context, Q, ...grpc.CallOption) (R, error), req Q) (R, error) {
	req = proto.CloneOf(req)
	setField(req, "page_size", protoreflect.ValueOfInt32(pageSize))
	var all R
	for first := true; ; first = false {
		page, err := list(ctx, req)
		if err != nil {
			return all, err
		}
		next := page.ProtoReflect().Get(field(page, "next_page_token"))
		page.ProtoReflect().Clear(field(page, "next_page_token"))
		if first {
			all = page
		} else {
			proto.Merge(all, page)
		}
		if next.String() == "" {
			return all, nil
		}
		setField(req, "page_token", next)
	}
}

func field(m proto.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	return m.ProtoReflect().Descriptor().Fields().ByName(name)
}

func setField(m proto.Message, name protoreflect.Name, v protoreflect.Value) {
	m.ProtoReflect().Set(field(m, name), v)
}

// Differences returns the paths of the fields that differ, for an update mask. It omits a field of a oneof if another field has replaced it.
func Differences(old, now protoreflect.Message) []string {
	var paths []string
	fields := now.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		name := string(fd.Name())
		oneof := fd.ContainingOneof()
		switch {
		case old.Get(fd).Equal(now.Get(fd)) && old.Has(fd) == now.Has(fd), oneof != nil && !now.Has(fd) && now.WhichOneof(oneof) != nil:
		case fd.Message() != nil && fd.Message().ParentFile().Package() == now.Descriptor().ParentFile().Package() && !fd.IsMap() && !fd.IsList() && old.Has(fd) && now.Has(fd):
			for _, path := range Differences(old.Get(fd).Message(), now.Get(fd).Message()) {
				paths = append(paths, name+"."+path)
			}
		default:
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return paths
}
