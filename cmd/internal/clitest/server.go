package clitest

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// Registrar is anything that can be offered over gRPC.
type Registrar interface{ Register(grpc.ServiceRegistrar) }

// Server is a gRPC server on loopback, as another process would have it.
type Server struct {
	Addr   string
	Health *health.Server
	grpc   *grpc.Server
}

// Serve offers services until the test ends or Stop is called. Everyone is the user `local`.
func Serve(t testing.TB, services ...Registrar) *Server {
	t.Helper()
	return ServeAt(t, "127.0.0.1:0", services...)
}

// ServeAt is Serve at an address.
func ServeAt(t testing.TB, addr string, services ...Registrar) *Server {
	t.Helper()
	lis, err := serve.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local(), Local: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: lis.Addr().String(), Health: health.NewServer()}
	s.grpc = grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	healthv1.RegisterHealthServer(s.grpc, s.Health)
	for _, service := range services {
		service.Register(s.grpc)
	}
	for name := range s.grpc.GetServiceInfo() {
		s.Health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.grpc.Serve(lis)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return s
}

// Stop ends the server at once, as a process that dies.
func (s *Server) Stop() { s.grpc.Stop() }
