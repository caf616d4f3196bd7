package inproc

import (
	"context"
	"reflect"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/runtime/protoimpl"
)

// Share promises that messages which the handler of this call sends are never changed afterwards, so they are sent without a copy.
// Clients of such a method must not change the contents of the messages that they receive. The handler of a stream promises the same for
// the messages that it receives, and gets them without a copy from clients that use Sharing. It has no effect on calls over a network.
func Share(ctx context.Context) {
	if t, ok := grpc.ServerTransportStreamFromContext(ctx).(*transport); ok {
		t.shares.Store(true)
	}
}

// Sharing is the option of a client that does not change messages after sending them on a stream, as gRPC requires anyway. If the
// handler called Share, they are sent without a copy. It has no effect on connections over a network.
func Sharing() grpc.CallOption { return sharing{} }

type sharing struct{ grpc.EmptyCallOption }

// sendable returns a message that a side sends; a copy if it is not shared.
func sendable(m any, shared bool) (proto.Message, error) {
	p, ok := m.(proto.Message)
	if !ok || !p.ProtoReflect().IsValid() {
		return nil, status.Errorf(codes.Internal, "inproc: cannot send a %T: it is nil or no protobuf message", m)
	}
	if !shared {
		p = proto.Clone(p)
	}
	return p, nil
}

// copyTo fills dst, which the receiver owns, with a deep copy of src.
func copyTo(dst any, src proto.Message) error {
	to, ok := dst.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "inproc: cannot receive into %T: it is no protobuf message", dst)
	}
	if src.ProtoReflect().Descriptor() != to.ProtoReflect().Descriptor() {
		return status.Errorf(codes.Internal, "inproc: cannot receive a %T into %T", src, dst)
	}
	proto.Reset(to)
	proto.Merge(to, src)
	return nil
}

// handTo fills dst, which the receiver owns, with the contents of src, which it does not change: others may read src. A message with
// unknown fields is copied; the two sides are of one version, so there are none.
func handTo(dst any, src proto.Message) error {
	to, from := reflect.ValueOf(dst), reflect.ValueOf(src)
	fields := contentFields(from.Type())
	if fields == nil || to.Type() != from.Type() || to.IsNil() ||
		len(src.ProtoReflect().GetUnknown()) > 0 || len(dst.(proto.Message).ProtoReflect().GetUnknown()) > 0 {
		return copyTo(dst, src)
	}
	to, from = to.Elem(), from.Elem()
	for _, i := range fields {
		to.Field(i).Set(from.Field(i))
	}
	return nil
}

// contents keeps the contentFields by type.
var contents sync.Map

// contentFields returns the indexes of the fields of a generated message that hold its content, without unknown fields; nil if only
// protobuf itself knows how to copy it. The whole struct cannot be copied: protobuf keeps notes in it while others read it.
func contentFields(message reflect.Type) []int {
	if known, ok := contents.Load(message); ok {
		return known.([]int)
	}
	var fields []int
	if message.Kind() == reflect.Pointer && message.Elem().Kind() == reflect.Struct {
		fields = []int{}
		for f := range message.Elem().Fields() {
			if f.IsExported() {
				fields = append(fields, f.Index[0])
				continue
			}
			switch f.Type {
			case reflect.TypeFor[protoimpl.MessageState](), reflect.TypeFor[protoimpl.SizeCache](), reflect.TypeFor[protoimpl.UnknownFields]():
				continue
			}
			fields = nil // extensions, or a way of generating that is not known here
			break
		}
	}
	contents.Store(message, fields)
	return fields
}
