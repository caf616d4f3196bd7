package serve

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// logCall writes the line of a call that ended; ctx has its principal where that was found out.
func logCall(ctx context.Context, log *slog.Logger, method string, took time.Duration, err error) {
	level, code := slog.LevelDebug, codes.OK
	if err != nil {
		code = errs.From(err).Code
	}
	if serverFault(code) {
		level = slog.LevelWarn
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("code", code.String()), slog.Duration("duration", took)}
	if p, err := identity.FromContext(ctx); err == nil {
		attrs = append(attrs, slog.String("sub", p.Sub))
		if p.OnBehalf {
			attrs = append(attrs, slog.Bool("on_behalf", true))
		}
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	log.LogAttrs(ctx, level, "call", attrs...)
}

// serverFault tells what the operator should look at from what callers do wrong.
func serverFault(c codes.Code) bool {
	switch c {
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unavailable:
		return true
	}
	return false
}
