package inproc

import (
	"strings"
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

// New makes a connection whose calls pass the interceptors; nil is none.
func New(unary grpc.UnaryServerInterceptor, stream grpc.StreamServerInterceptor) *Conn {
	return &Conn{server: &server{
		unary: unary, stream: stream, clientStats: telemetry.ClientHandler(), serverStats: telemetry.ServerHandler(), methods: map[string]*method{},
	}}
}

// WithToken returns a view of the connection that sends that bearer token with every call.
func (c *Conn) WithToken(token string) *Conn {
	return &Conn{server: c.server, authorization: []string{identity.BearerHeader(token)}}
}

// RegisterService implements grpc.ServiceRegistrar. Like gRPC's own, it panics if a service is registered twice.
func (c *Conn) RegisterService(desc *grpc.ServiceDesc, impl any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known(desc.ServiceName) {
		panic("inproc: " + desc.ServiceName + " is registered twice")
	}
	for i := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + desc.Methods[i].MethodName
		c.methods[name] = &method{name: name, impl: impl, unary: &desc.Methods[i]}
	}
	for i := range desc.Streams {
		name := "/" + desc.ServiceName + "/" + desc.Streams[i].StreamName
		c.methods[name] = &method{name: name, impl: impl, stream: &desc.Streams[i]}
	}
}

// known reports whether a service is registered. The caller holds mu.
func (s *server) known(service string) bool {
	for name := range s.methods {
		if strings.HasPrefix(name, "/"+service+"/") {
			return true
		}
	}
	return false
}

// find returns a method; stream says which kind is called.
func (s *server) find(name string, stream bool) (*method, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m, ok := s.methods[name]; ok && (m.stream != nil) == stream {
		return m, nil
	}
	service, short, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if !s.known(service) {
		return nil, status.Errorf(codes.Unimplemented, "unknown service %s", service)
	}
	return nil, status.Errorf(codes.Unimplemented, "unknown method %s for service %s", short, service)
}
