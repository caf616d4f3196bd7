package discover

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/internal/exit"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// Session is a connection to a server, and to the next one when that goes away.
type Session struct {
	finder *Finder
	note   func(string) // tells the user what happens

	mu     sync.Mutex // guards server
	server *Server
}

// NewSession opens the first server. note is told when the server is lost and found.
func (f *Finder) NewSession(ctx context.Context, note func(string)) (*Session, error) {
	server, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &Session{finder: f, note: note, server: server}, nil
}

// Server is the one in use.
func (s *Session) Server() *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// Close ends the connection, and the suite where it runs in this process.
func (s *Session) Close() error {
	return s.Server().close()
}

// Reconnect finds a server again after lost went away; later callers get the server that the first one found. It never starts a
// server in this process: one that was killed is started again with its own settings, and needs its data folder for that.
func (s *Session) Reconnect(ctx context.Context, lost *Server) (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != lost {
		return s.server, nil
	}
	if lost.Kind == Embedded {
		return nil, exit.Newf("the server inside this command ended").Then("run the command again; tasks go on where they were")
	}
	s.note("the server at " + lost.Addr + " went away; waiting for it to come back")
	server, err := s.await(ctx, lost.Addr)
	if err != nil {
		return nil, err
	}
	_ = lost.close()
	s.server = server
	return server, nil
}

// await looks for a server until one answers or ReconnectPatience ends.
func (s *Session) await(ctx context.Context, lost string) (*Server, error) {
	cfg := s.finder.cfg
	ctx, cancel := context.WithTimeout(ctx, cfg.ReconnectPatience)
	defer cancel()
	retry := time.NewTicker(reconnectEvery)
	defer retry.Stop()
	for {
		server, err := s.finder.existing(ctx)
		if err == nil {
			return server, nil
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, ctx.Err()
			}
			if cfg.Server != "" {
				return nil, exit.Wrap(err, "the server at %s did not come back within %s", lost, cfg.ReconnectPatience).
					Then("start it again, then repeat the command; tasks go on where they were")
			}
			return nil, exit.Wrap(err, "the server at %s did not come back within %s", lost, cfg.ReconnectPatience).
				Then("start one with pawl up, then repeat the command; tasks go on where they were")
		}
	}
}

// Invoke implements grpc.ClientConnInterface. A call whose server went away is made again at the next one, so only
// calls that may be repeated may go this way; all unary calls of the contracts may.
func (s *Session) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	for try := 1; ; try++ {
		server := s.Server()
		err := server.Conn.Invoke(ctx, method, args, reply, opts...)
		if err == nil || try == tries || !Gone(err) || ctx.Err() != nil {
			return err
		}
		if _, reErr := s.Reconnect(ctx, server); reErr != nil {
			return reErr
		}
	}
}

// tries is how often a call is made in all because its server went away.
const tries = 3

// NewStream implements grpc.ClientConnInterface. Streams are not begun anew: who reads one knows what it has seen.
func (s *Session) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return s.Server().Conn.NewStream(ctx, desc, method, opts...)
}

// Gone says whether err means that the server itself went away, and not that it refused.
func Gone(err error) bool {
	st, ok := status.FromError(err)
	if !ok || err == nil {
		return false
	}
	reason, given := reasonOf(st)
	switch {
	case given:
		return reason == errs.ReasonName(commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN)
	case st.Code() == codes.Unavailable:
		return true
	}
	return false
}

func reasonOf(st *status.Status) (string, bool) {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == errs.Domain {
			return info.GetReason(), true
		}
	}
	return "", false
}
