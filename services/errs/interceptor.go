package errs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// UnaryServerInterceptor maps whatever a handler returns to a status with details, and logs what is our own fault.
func UnaryServerInterceptor(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		resp, err := next(ctx, req)
		if err != nil {
			return nil, toWire(ctx, log, info.FullMethod, err)
		}
		return resp, nil
	}
}

// StreamServerInterceptor is the same for streams.
func StreamServerInterceptor(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := next(srv, ss); err != nil {
			return toWire(ss.Context(), log, info.FullMethod, err)
		}
		return nil
	}
}

func toWire(ctx context.Context, log *slog.Logger, method string, err error) error {
	e := From(err)
	if log != nil && isInternal(e.Code) {
		log.ErrorContext(ctx, "the call failed inside", "method", method, "reason", ReasonName(e.Reason),
			"error", err.Error(), "chain", chain(err))
	}
	return e.GRPCStatus().Err()
}

func isInternal(c codes.Code) bool {
	return c == codes.Internal || c == codes.Unknown || c == codes.DataLoss || c == codes.OK
}

// chain names the types from the outermost error to its causes; where the text came from is seen there.
func chain(err error) string {
	var types []string
	for ; err != nil; err = errors.Unwrap(err) {
		types = append(types, fmt.Sprintf("%T", err))
	}
	return strings.Join(types, " <- ")
}
