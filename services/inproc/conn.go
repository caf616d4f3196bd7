package inproc

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"pawl.dev/services/identity"
	"pawl.dev/services/telemetry"
)

// Conn is a server and a connection to it.
type Conn struct {
	unary  grpc.UnaryServerInterceptor  // nil: none
	stream grpc.StreamServerInterceptor // nil: none
	client stats.Handler                // nil: none
	server stats.Handler                // nil: none

	mu       sync.RWMutex
	services map[string]struct{}
	methods  map[string]*method // by full name, `/package.Service/Method`
}

// method is one registered method: unary or a stream.
type method struct {
	name   string
	impl   any
	unary  *grpc.MethodDesc
	stream *grpc.StreamDesc

	requests, responses shapes
}

var (
	_ grpc.ServiceRegistrar    = (*Conn)(nil)
	_ grpc.ClientConnInterface = (*Conn)(nil)
)

// New makes a connection whose calls pass the interceptors, the first being the outermost.
func New(unary []grpc.UnaryServerInterceptor, stream []grpc.StreamServerInterceptor) *Conn {
	return &Conn{
		unary: chainUnary(unary), stream: chainStream(stream),
		client: telemetry.ClientHandler(), server: telemetry.ServerHandler(),
		services: map[string]struct{}{}, methods: map[string]*method{},
	}
}

// RegisterService implements grpc.ServiceRegistrar. Like gRPC's own, it takes a service once and only with its own
// implementation; anything else is a mistake in the program, and panics.
func (c *Conn) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if desc.HandlerType != nil {
		want := reflect.TypeOf(desc.HandlerType).Elem()
		if got := reflect.TypeOf(impl); got == nil || !got.Implements(want) {
			panic(fmt.Sprintf("inproc: %T is registered as %s but does not implement %v", impl, desc.ServiceName, want))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.services[desc.ServiceName]; there {
		panic("inproc: " + desc.ServiceName + " is registered twice")
	}
	c.services[desc.ServiceName] = struct{}{}
	for i := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + desc.Methods[i].MethodName
		c.methods[name] = &method{name: name, impl: impl, unary: &desc.Methods[i]}
	}
	for i := range desc.Streams {
		name := "/" + desc.ServiceName + "/" + desc.Streams[i].StreamName
		c.methods[name] = &method{name: name, impl: impl, stream: &desc.Streams[i]}
	}
}

// find returns a method; stream says which kind is called.
func (c *Conn) find(name string, stream bool) (*method, error) {
	c.mu.RLock()
	m, ok := c.methods[name]
	c.mu.RUnlock()
	if ok && (m.stream != nil) == stream {
		return m, nil
	}
	service, short, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	c.mu.RLock()
	_, known := c.services[service]
	c.mu.RUnlock()
	if !known {
		return nil, status.Errorf(codes.Unimplemented, "unknown service %s", service)
	}
	return nil, status.Errorf(codes.Unimplemented, "unknown method %s for service %s", short, service)
}

// Invoke implements grpc.ClientConnInterface.
func (c *Conn) Invoke(ctx context.Context, name string, args, reply any, opts ...grpc.CallOption) error {
	return c.invoke(ctx, name, args, reply, nil, opts)
}

// NewStream implements grpc.ClientConnInterface.
func (c *Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, name string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.newStream(ctx, desc, name, nil, opts)
}

// WithToken returns a view of the connection that sends that bearer token with every call; "" sends none.
func (c *Conn) WithToken(token string) grpc.ClientConnInterface {
	return &tokenConn{conn: c, creds: identity.BearerCredentials(token)}
}

type tokenConn struct {
	conn  *Conn
	creds credentials.PerRPCCredentials
}

func (t *tokenConn) Invoke(ctx context.Context, name string, args, reply any, opts ...grpc.CallOption) error {
	return t.conn.invoke(ctx, name, args, reply, t.creds, opts)
}

func (t *tokenConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, name string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return t.conn.newStream(ctx, desc, name, t.creds, opts)
}
