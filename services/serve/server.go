package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/telemetry"
)

const (
	// stopGrace is how long running calls may take to end once the server stops.
	stopGrace = 10 * time.Second
	// A connection is replaced after half an hour, so that clients resolve names again and find new replicas. Its calls
	// continue: the grace is longer than the longest tool call that the protos allow (24 h).
	maxConnectionAge      = 30 * time.Minute
	maxConnectionAgeGrace = 25 * time.Hour
	// Flow-control windows have fixed sizes, in bytes. gRPC's dynamic windows cost a window update and a ping for nearly every message.
	// What has arrived of requests waits in the windows of their streams, so those of a server are the smallest that gRPC has.
	streamWindow = 1 << 20
	connWindow   = 8 << 20
	serverWindow = 64 << 10
	watchHealth  = "/grpc.health.v1.Health/Watch"
)

// Server is a gRPC server with health and reflection.
type Server struct {
	options     []grpc.ServerOption
	interceptor *interceptor
	health      *health.Server
	services    []registration
	stopping    context.Context // done when the server begins to stop
	stop        context.CancelFunc
	refusing    context.Context // done when the server begins to refuse new calls
	refuse      context.CancelFunc
	drained     <-chan struct{} // Options.Drained
	limits      Limits
}

type registration struct {
	desc *grpc.ServiceDesc
	impl any
}

// streamWorkers is how many goroutines with grown stacks serve calls; if all are busy, a call gets a goroutine of its own. A long-lived
// stream (a watched task, a running tool) keeps its goroutine busy.
const streamWorkers = 64

// New makes a server. Register services, then Serve.
func New(o Options) (*Server, error) {
	i, err := newInterceptor(&o)
	if err != nil {
		return nil, err
	}
	listener := o.Certificates
	if listener != nil && listener.flags.Cert == "" {
		if listener.flags.ClientAuth != noClientAuth {
			return nil, errors.New("--tls-ca makes gRPC callers show a certificate, which needs TLS here too: give --tls-cert and --tls-key, or --tls-client-auth none")
		}
		listener = nil
	}
	i.writeTime, i.open.every = o.Limits.WriteTime, min(sweepEvery, o.Limits.WriteTime)
	s := &Server{interceptor: i, health: health.NewServer(), drained: o.Drained, limits: o.Limits}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.refusing, s.refuse = context.WithCancel(context.Background())
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	s.options = []grpc.ServerOption{
		grpc.StreamInterceptor(s.stream),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(o.MaxRecvBytes),
		grpc.MaxConcurrentStreams(uint32(o.Limits.ConnectionStreams)), // the gateway sends the calls of all its clients over one connection
		grpc.MaxHeaderListSize(uint32(o.Limits.HeaderBytes)),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: o.MaxConnectionAge, MaxConnectionAgeGrace: maxConnectionAgeGrace,
			Time: time.Minute, Timeout: 20 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: o.Limits.PingInterval, PermitWithoutStream: true}),
		// Reused goroutines have grown stacks, so that a short call need not grow one.
		grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticStreamWindowSize(serverWindow), grpc.StaticConnWindowSize(connWindow),
	}
	if listener != nil {
		s.options = append(s.options, grpc.Creds(listener.serverCredentials()))
	}
	if h, _ := telemetry.Handlers(); h != nil {
		s.options = append(s.options, grpc.StatsHandler(h))
	}
	return s, nil
}

// RegisterService implements grpc.ServiceRegistrar; call it before Serve. Until Serve, health reports the service as NOT_SERVING.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.services = append(s.services, registration{s.authenticatedFirst(desc), impl})
	s.health.SetServingStatus(desc.ServiceName, healthpb.HealthCheckResponse_NOT_SERVING)
}

// authenticatedFirst returns a description in which each unary method is a stream of one message each way, which is the same on the wire.
// gRPC reads the message of a unary call before its interceptor runs, so a caller without a credential could make the server hold messages.
// The interceptor of streams authenticates the caller before it reads.
func (s *Server) authenticatedFirst(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	d := *desc
	d.Methods, d.Streams = nil, slices.Clone(desc.Streams)
	for _, m := range desc.Methods {
		info := &grpc.StreamServerInfo{FullMethod: "/" + desc.ServiceName + "/" + m.MethodName}
		call := func(impl any, ss grpc.ServerStream) error {
			out, err := m.Handler(impl, ss.Context(), ss.RecvMsg, nil)
			if err != nil {
				return err
			}
			return ss.SendMsg(out)
		}
		// gRPC calls no interceptor for a stream of one message each way, so the handler does.
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: func(impl any, ss grpc.ServerStream) error {
			return s.stream(impl, ss, info, call)
		}})
	}
	return &d
}

// Serve takes calls until ctx is done. It then stops the server and returns nil: health reports NOT_SERVING; if Options.Drained is set,
// calls are taken until that channel is closed; then new calls are refused, and calls that still run after 10 s are cut off. Call Serve only once.
func (s *Server) Serve(ctx context.Context, lis net.Listener) error {
	srv := s.build()
	if !s.interceptor.local {
		lis = Admit(lis, "grpc", s.limits)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(lis) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	s.health.Shutdown()
	s.stop()
	if err == nil && s.drained != nil {
		<-s.drained
	}
	s.refuse()
	if err != nil {
		srv.Stop()
	} else {
		shutDown(srv)
		err = <-ended
	}
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", lis.Addr(), err)
	}
	return nil
}

// build makes the gRPC server. New does not, because grpc.NewServer starts goroutines that end only when the server stops.
func (s *Server) build() *grpc.Server {
	srv := grpc.NewServer(s.options...)
	srv.RegisterService(s.authenticatedFirst(&healthpb.Health_ServiceDesc), Health{s.health, s.healthy})
	srv.RegisterService(s.authenticatedFirst(&identityv1.IdentityService_ServiceDesc), identity.NewAPI(s.interceptor.auth))
	for _, r := range s.services {
		srv.RegisterService(r.desc, r.impl)
		s.health.SetServingStatus(r.desc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	}
	reflection.Register(srv)
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	return srv
}

// healthy returns the first error of the services that have a method Healthy: of the one with this name, or of all if name is "".
func (s *Server) healthy(name string) error {
	for _, r := range s.services {
		if service, ok := r.impl.(interface{ Healthy() error }); ok && (name == "" || name == r.desc.ServiceName) {
			if err := service.Healthy(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Health is a health server whose Check also asks whether the services can work. Healthy returns why the service of this name cannot, or nil; for ""
// it checks all services.
type Health struct {
	*health.Server
	Healthy func(service string) error
}

// Check implements the health service.
func (h Health) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	res, err := h.Server.Check(ctx, req)
	if err != nil {
		return nil, err
	}
	if res.GetStatus() == healthpb.HealthCheckResponse_SERVING && h.Healthy(req.GetService()) != nil {
		res.Status = healthpb.HealthCheckResponse_NOT_SERVING
	}
	return res, nil
}

func shutDown(srv *grpc.Server) {
	defer time.AfterFunc(stopGrace, srv.Stop).Stop()
	srv.GracefulStop()
}

type stoppingKey struct{}

// Stopping returns a channel that is closed when the server of this call begins to stop. Streams that have no end of their own (watching)
// select on it and end with SHUTTING_DOWN, because a graceful stop waits for them. For a call that no Server serves, the channel is nil.
func Stopping(ctx context.Context) <-chan struct{} {
	ch, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return ch
}

// stream also ends health watches. gRPC serves them, they never end by themselves, and so they would delay every stop.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx := context.WithValue(ss.Context(), stoppingKey{}, s.stopping.Done())
	if info.FullMethod == watchHealth {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.refusing, cancel)()
	}
	return s.interceptor.streamWith(ctx, srv, ss, info, next)
}
