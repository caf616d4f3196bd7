package inproc

import (
	"context"
	"reflect"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoimpl"
)

// Share promises that messages which the handler of this call sends are never changed afterwards, so they are sent without a copy.
// Clients of such a method must not change the contents of the messages that they receive. The handler of a stream promises the same for
// the messages that it receives, and gets them without a copy from clients that use Sharing. It has no effect on calls over a network.
func Share(ctx context.Context) {
	switch t := grpc.ServerTransportStreamFromContext(ctx).(type) {
	case *streamTransport:
		t.shares.Store(true)
	case *unaryTransport:
		t.shares.Store(true)
	}
}

// Sharing is the option of a client that does not change messages after sending them on a stream, as gRPC requires anyway. If the
// handler called Share, they are sent without a copy. It has no effect on connections over a network.
func Sharing() grpc.CallOption { return sharing{} }

type sharing struct{ grpc.EmptyCallOption }

// shape says how a generated message is copied without what it points to. The whole struct cannot be: others read the source, and
// protobuf keeps notes in it while they do.
type shape struct {
	message reflect.Type // pointer to the struct
	fields  []int        // all that hold content but unknown; empty: only protobuf itself knows how
	unknown int
}

// shapes keeps the shape of the type that a method was used with last: it always is the same.
type shapes struct{ last atomic.Pointer[shape] }

func (s *shapes) of(message reflect.Type) *shape {
	known := s.last.Load()
	if known == nil || known.message != message {
		known = shapeOf(message)
		s.last.Store(known)
	}
	return known
}

func shapeOf(message reflect.Type) *shape {
	s := &shape{message: message}
	if message.Kind() != reflect.Pointer || message.Elem().Kind() != reflect.Struct {
		return s
	}
	var fields []int
	found := false
	for f := range message.Elem().Fields() {
		switch i := f.Index[0]; {
		case f.IsExported():
			fields = append(fields, i)
		case f.Type == reflect.TypeFor[protoimpl.MessageState](), f.Type == reflect.TypeFor[protoimpl.SizeCache]():
		case f.Type == reflect.TypeFor[protoimpl.UnknownFields]() && !found:
			s.unknown, found = i, true
		default:
			return s // extensions, or a way of generating that is not known here
		}
	}
	if found {
		s.fields = fields
	}
	return s
}

// shareTo fills dst, which the receiver owns, with the contents of src, which it does not change.
func (s *shapes) shareTo(dst, src any) error {
	to, from := reflect.ValueOf(dst), reflect.ValueOf(src)
	if to.Type() != from.Type() {
		return copyTo(dst, src)
	}
	sh := s.of(from.Type())
	if len(sh.fields) == 0 || to.IsNil() || from.IsNil() {
		return reflectTo(dst, src)
	}
	to, from = to.Elem(), from.Elem()
	if to.Field(sh.unknown).Len() > 0 || from.Field(sh.unknown).Len() > 0 {
		return reflectTo(dst, src)
	}
	for _, i := range sh.fields {
		to.Field(i).Set(from.Field(i))
	}
	return nil
}

// reflectTo does the same by protobuf's means.
func reflectTo(dst, src any) error {
	to, ok := dst.(proto.Message)
	from, _ := src.(proto.Message)
	if !ok || from == nil || !from.ProtoReflect().IsValid() || from.ProtoReflect().Type() != to.ProtoReflect().Type() {
		return copyTo(dst, src)
	}
	proto.Reset(to)
	into, out := to.ProtoReflect(), from.ProtoReflect()
	out.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		into.Set(fd, v)
		return true
	})
	into.SetUnknown(out.GetUnknown())
	return nil
}
