package inproc

import (
	"context"

	"google.golang.org/grpc"
)

// chainUnary makes one interceptor of several, the first being the outermost; nil of none. A chain keeps its place for all of its
// interceptors, which may call their handler again, but not twice at once.
func chainUnary(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		at := 0
		var next grpc.UnaryHandler
		next = func(ctx context.Context, req any) (any, error) {
			if at == len(all)-1 {
				return handler(ctx, req)
			}
			at++
			resp, err := all[at](ctx, req, info, next)
			at--
			return resp, err
		}
		return all[0](ctx, req, info, next)
	}
}

// chainStream is chainUnary for streams.
func chainStream(all []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		at := 0
		var next grpc.StreamHandler
		next = func(srv any, ss grpc.ServerStream) error {
			if at == len(all)-1 {
				return handler(srv, ss)
			}
			at++
			err := all[at](srv, ss, info, next)
			at--
			return err
		}
		return all[0](srv, ss, info, next)
	}
}
