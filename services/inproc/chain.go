package inproc

import (
	"context"

	"google.golang.org/grpc"
)

// chainUnary makes one interceptor of several, the first being the outermost; nil of none.
func chainUnary(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if len(all) == 0 {
		return nil
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return all[0](ctx, req, info, nextUnary(all, 0, info, handler))
	}
}

func nextUnary(all []grpc.UnaryServerInterceptor, at int, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) grpc.UnaryHandler {
	if at == len(all)-1 {
		return handler
	}
	return func(ctx context.Context, req any) (any, error) {
		return all[at+1](ctx, req, info, nextUnary(all, at+1, info, handler))
	}
}

// chainStream is chainUnary for streams.
func chainStream(all []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	if len(all) == 0 {
		return nil
	}
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return all[0](srv, ss, info, nextStream(all, 0, info, handler))
	}
}

func nextStream(all []grpc.StreamServerInterceptor, at int, info *grpc.StreamServerInfo, handler grpc.StreamHandler) grpc.StreamHandler {
	if at == len(all)-1 {
		return handler
	}
	return func(srv any, ss grpc.ServerStream) error {
		return all[at+1](srv, ss, info, nextStream(all, at+1, info, handler))
	}
}
