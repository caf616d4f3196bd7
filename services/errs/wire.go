package errs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"google.golang.org/grpc/codes"
)

// ToWire maps what a handler returned to a status with details, and logs what is our own fault. Nil stays nil.
func ToWire(ctx context.Context, log *slog.Logger, method string, err error) error {
	if err == nil {
		return nil
	}
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
