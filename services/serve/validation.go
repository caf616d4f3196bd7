package serve

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// validate refuses a message that is too large or breaks the rules in its proto.
func (i *interceptor) validate(msg any) error {
	m, ok := msg.(proto.Message)
	if !ok {
		return nil
	}
	if n := proto.Size(m); n > i.maxBytes {
		return errs.TooLarge(int64(n), int64(i.maxBytes))
	}
	return i.validator.Validate(m)
}

// recheckEvery is the time between two checks of a stream's credential.
const recheckEvery = time.Second

// checkedStream validates each message as it is received, and ends when its credential is revoked: it then neither sends nor receives
// another message.
type checkedStream struct {
	grpc.ServerStream
	*interceptor
	ctx     context.Context // with the principal
	method  string
	begun   time.Time
	checked atomic.Int64 // when the credential was last looked at, in nanoseconds since begun
}

func (s *checkedStream) Context() context.Context { return s.ctx }

func (s *checkedStream) SendMsg(m any) error {
	if err := s.recheck(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg checks the credential when the message has arrived, which may be long after the wait began.
func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if err := s.recheck(); err != nil {
		return err
	}
	return s.validate(m)
}

func (s *checkedStream) recheck() error {
	now := time.Since(s.begun) // which no setting of the clock changes
	if now-time.Duration(s.checked.Load()) < recheckEvery {
		return nil
	}
	if _, err := identity.Authenticate(s.ctx, s.auth, s.method); err != nil {
		return err
	}
	s.checked.Store(int64(now))
	return nil
}
