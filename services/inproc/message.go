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

// Share promises that the handler of this call never changes a message after sending it, so messages are sent without a copy. Clients
// of such a method must not change the contents of the messages that they receive. The handler of a stream also promises not to change
// the messages that it receives, and gets them without a copy from clients that use Sharing. Share has no effect on calls over a network.
func Share(ctx context.Context) {
	if t, ok := grpc.ServerTransportStreamFromContext(ctx).(*transport); ok {
		t.shares.Store(true)
	}
}

// Sharing is the call option of clients that do not change messages after sending them on a stream. If the handler called Share, the messages
// are sent without a copy. Sharing has no effect on connections over a network.
func Sharing() grpc.CallOption { return sharing{} }

type sharing struct{ grpc.EmptyCallOption }

// sendable returns m as a message to send: m itself if it is shared, else a copy.
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

// shallowCopyTo fills dst, which the receiver owns, with the contents of src. It does not change src, which others may be reading. A
// message with unknown fields is copied deeply.
func shallowCopyTo(dst any, src proto.Message) error {
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

// fieldIndexes caches the result of contentFields by type.
var fieldIndexes sync.Map

// contentFields returns the indexes of the fields of a generated message that hold its content, without unknown fields; nil if only
// protobuf itself knows how to copy it. The whole struct cannot be copied: protobuf writes internal fields of it even while others read it.
func contentFields(message reflect.Type) []int {
	if known, ok := fieldIndexes.Load(message); ok {
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
			fields = nil // extensions, or code of another generator
			break
		}
	}
	fieldIndexes.Store(message, fields)
	return fields
}
