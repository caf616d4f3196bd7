package clitest

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// Registrar is a service that can be registered with a gRPC server.
type Registrar interface{ Register(grpc.ServiceRegistrar) }

// Server is a gRPC server on loopback that plays the part of another process.
type Server struct {
	Addr   string
	Health *health.Server
	grpc   *grpc.Server
}

// Serve serves the services until the test ends or Stop is called. Every caller is the user `local`.
func Serve(t testing.TB, services ...Registrar) *Server {
	t.Helper()
	return ServeAt(t, "127.0.0.1:0", services...)
}

// ServeAt is like Serve, at the given address.
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

// Stop stops the server at once, like a process that is killed.
func (s *Server) Stop() { s.grpc.Stop() }
