package clitest

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Script stands in front of a service: it records unary requests, and answers those that a test scripts with On.
type Script struct {
	mu      sync.Mutex // guards the fields below
	sent    []proto.Message
	answers map[reflect.Type]func(req any, next func() (any, error)) (any, error)
}

// On sets the answer to requests of a type; next returns the service's own answer.
func On[Req, Resp proto.Message](s *Script, answer func(req Req, next func() (Resp, error)) (Resp, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil {
		s.answers = map[reflect.Type]func(any, func() (any, error)) (any, error){}
	}
	s.answers[reflect.TypeFor[Req]()] = func(req any, next func() (any, error)) (any, error) {
		return answer(req.(Req), func() (Resp, error) {
			resp, err := next()
			own, _ := resp.(Resp)
			return own, err
		})
	}
}

// Sent returns the requests of a type, in order.
func Sent[Req proto.Message](s *Script) []Req {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Req
	for _, m := range s.sent {
		if req, ok := m.(Req); ok {
			list = append(list, req)
		}
	}
	return list
}

func (s *Script) serve(ctx context.Context, req any, next grpc.UnaryHandler) (any, error) {
	s.mu.Lock()
	s.sent = append(s.sent, proto.Clone(req.(proto.Message)))
	answer := s.answers[reflect.TypeOf(req)]
	s.mu.Unlock()
	if answer == nil {
		return next(ctx, req)
	}
	return answer(req, func() (any, error) { return next(ctx, req) })
}

// scriptRegistrar registers services with their unary methods behind a script.
type scriptRegistrar struct {
	grpc.ServiceRegistrar
	script *Script
}

// RegisterService implements grpc.ServiceRegistrar.
func (r scriptRegistrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	own := *desc
	own.Methods = slices.Clone(desc.Methods)
	for i, m := range own.Methods {
		own.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
			return m.Handler(srv, ctx, decode, func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				return around(ctx, req, info, func(ctx context.Context, req any) (any, error) { return r.script.serve(ctx, req, next) })
			})
		}
	}
	r.ServiceRegistrar.RegisterService(&own, impl)
}

// captureRegistrar is a registrar that keeps the implementations.
type captureRegistrar []any

// RegisterService implements grpc.ServiceRegistrar.
func (c *captureRegistrar) RegisterService(_ *grpc.ServiceDesc, impl any) { *c = append(*c, impl) }

// implementation returns the implementation of S that a service registers.
func implementation[S any](service Registrar) S {
	var c captureRegistrar
	service.Register(&c)
	i := slices.IndexFunc(c, func(impl any) bool { _, ok := impl.(S); return ok })
	return c[i].(S)
}
