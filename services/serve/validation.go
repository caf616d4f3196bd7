package serve

import (
	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"pawl.dev/services/errs"
)

// validation refuses messages that are too large or break the rules in their proto.
type validation struct {
	validator protovalidate.Validator
	maxBytes  int
}

func (v *validation) check(msg any) error {
	m, ok := msg.(proto.Message)
	if !ok {
		return nil
	}
	if n := proto.Size(m); n > v.maxBytes {
		return errs.TooLarge(int64(n), int64(v.maxBytes))
	}
	return v.validator.Validate(m)
}

// checkedStream checks each message as it is received.
type checkedStream struct {
	grpc.ServerStream
	validation *validation
}

func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.validation.check(m)
}
