package inproc

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"pawl.dev/services/identity"
	"pawl.dev/services/telemetry"
)

// Conn is a server and a connection to it.
type Conn struct {
	*server
	authorization []string // metadata of every call; nil: none
}

type server struct {
	unary  grpc.UnaryServerInterceptor  // nil: none
	stream grpc.StreamServerInterceptor // nil: none

	clientStats, serverStats stats.Handler // nil: none

	mu      sync.RWMutex
	methods map[string]*method // by full name, `/package.Service/Method`
}

// method is one registered method: unary or a stream.
type method struct {
	name   string
	impl   any
	unary  *grpc.MethodDesc
	stream *grpc.StreamDesc
}

var (
	_ grpc.ServiceRegistrar    = (*Conn)(nil)
	_ grpc.ClientConnInterface = (*Conn)(nil)
)

// New makes a connection whose calls pass through the interceptors; either may be nil.
func New(unary grpc.UnaryServerInterceptor, stream grpc.StreamServerInterceptor) *Conn {
	s := &server{unary: unary, stream: stream, methods: map[string]*method{}}
	s.serverStats, s.clientStats = telemetry.Handlers()
	return &Conn{server: s}
}

// WithToken returns a view of the connection that sends a bearer token with every call.
func (c *Conn) WithToken(token string) *Conn {
	return &Conn{server: c.server, authorization: []string{identity.BearerHeader(token)}}
}

// RegisterService implements grpc.ServiceRegistrar. Like gRPC's own, it panics if a service is registered twice.
func (c *Conn) RegisterService(desc *grpc.ServiceDesc, impl any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add := func(short string, m *method) {
		m.name, m.impl = "/"+desc.ServiceName+"/"+short, impl
		if c.methods[m.name] != nil {
			panic("inproc: " + m.name + " is registered twice")
		}
		c.methods[m.name] = m
	}
	for i := range desc.Methods {
		add(desc.Methods[i].MethodName, &method{unary: &desc.Methods[i]})
	}
	for i := range desc.Streams {
		add(desc.Streams[i].StreamName, &method{stream: &desc.Streams[i]})
	}
}

// find returns a method; stream reports whether the client calls it as a streaming method.
func (s *server) find(name string, stream bool) (*method, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m, ok := s.methods[name]; ok && (m.stream != nil) == stream {
		return m, nil
	}
	return nil, status.Errorf(codes.Unimplemented, "unknown method %s", name)
}
