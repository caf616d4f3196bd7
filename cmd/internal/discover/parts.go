package discover

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/internal/ui"
	"pawl.dev/services/serve"
)

// Part is where a part of the suite is that may run in processes of its own.
type Part struct {
	Name string // what people call it
	Addr string // of several replicas a list with commas, or dns:///name:port
	// Given: the user named it, so that it is asked whatever the server itself offers. Else it is a guess, for a server that lacks the part.
	Given bool
}

// parts are the processes of one suite: the named server, and others for what it does not offer. It implements Conn.
type parts struct {
	home  Conn
	dial  func(addr string) (Conn, error)
	where map[string]Part // by package of the services

	mu     sync.Mutex
	chosen map[string]Conn // guarded by mu; by package
}

// Close ends all connections.
func (p *parts) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.home.Close()
	for _, c := range p.chosen {
		if c != p.home {
			_ = c.Close()
		}
	}
	return err
}

// Invoke implements grpc.ClientConnInterface.
func (p *parts) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c, err := p.of(ctx, method)
	if err != nil {
		return err
	}
	return c.Invoke(oneReplica(ctx), method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (p *parts) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c, err := p.of(ctx, method)
	if err != nil {
		return nil, err
	}
	return c.NewStream(oneReplica(ctx), desc, method, opts...)
}

// oneReplica makes all calls of command lines go to one of several replicas, as long as it is there: each keeps its calls in flight, and the
// logins that were begun, for itself.
func oneReplica(ctx context.Context) context.Context { return serve.WithAffinity(ctx, "pawl") }

// of is the process that a method is called at: /pawl.mcppool.v1.McpPoolService/CallTool.
func (p *parts) of(ctx context.Context, method string) (Conn, error) {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	pkg := service[:max(strings.LastIndexByte(service, '.'), 0)]
	part, ok := p.where[pkg]
	if !ok {
		return p.home, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.chosen[pkg]; c != nil {
		return c, nil
	}
	c, err := p.choose(ctx, part, service)
	if err == nil {
		p.chosen[pkg] = c
	}
	return c, err
}

// choose finds the process of a part. Where only the guess is left and nothing is there, the server itself says what it lacks.
func (p *parts) choose(ctx context.Context, part Part, service string) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if !part.Given && status.Code(serves(ctx, p.home, service)) != codes.NotFound {
		return p.home, nil
	}
	c, err := p.dial(part.Addr)
	if err == nil {
		if err = serves(ctx, c, service); err == nil {
			return c, nil
		}
		_ = c.Close()
	}
	if !part.Given {
		return p.home, nil
	}
	return nil, ui.Errorf("no %s answers at %s: %s", part.Name, part.Addr, Plainly(err)).
		Then("correct --pool or --planner (PAWL_POOL, PAWL_PLANNER), or leave it out")
}

// Plainly is why a server could not be reached, without what gRPC puts around it.
func Plainly(err error) string {
	text := status.Convert(err).Message()
	if _, inner, ok := strings.Cut(text, `desc = "`); ok {
		text = strings.TrimSuffix(inner, `"`)
	}
	return strings.TrimPrefix(text, "transport: Error while dialing: ")
}

// serves says whether a server offers a service; the error has the code NotFound where it is there and does not.
func serves(ctx context.Context, c Conn, service string) error {
	answer, err := healthv1.NewHealthClient(c).Check(ctx, &healthv1.HealthCheckRequest{Service: service})
	if err == nil && answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("it says %s", answer.GetStatus())
	}
	return err
}
