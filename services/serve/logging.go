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
		level = levelOf(code)
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
		attrs = append(attrs, slog.String("reason", errs.ReasonName(errs.Reason(err))), slog.String("error", err.Error()))
	}
	log.LogAttrs(ctx, level, "call", attrs...)
}

// levelOf tells what is our own fault, and what the operator should look at, from what callers do wrong.
func levelOf(failure codes.Code) slog.Level {
	switch failure {
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.OK:
		return slog.LevelError
	case codes.Unavailable:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}
