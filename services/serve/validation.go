package serve

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"pawl.dev/services/errs"
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

// checkedStream validates each message as it is received.
type checkedStream struct {
	grpc.ServerStream
	*interceptor
}

func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.validate(m)
}
