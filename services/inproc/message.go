package inproc

import (
	"fmt"
	"reflect"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func message(m any) (proto.Message, error) {
	p, ok := m.(proto.Message)
	if v := reflect.ValueOf(m); !ok || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, status.Errorf(codes.Internal, "inproc: cannot send %s: it is no protobuf message", describe(m))
	}
	return p, nil
}

// clone copies a message for the other side.
func clone(m any) (proto.Message, error) {
	p, err := message(m)
	if err != nil {
		return nil, err
	}
	return proto.Clone(p), nil
}

// copyTo fills dst, which the receiver owns, from src.
func copyTo(dst, src any) error {
	to, ok := dst.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "inproc: cannot receive into %T: it is no protobuf message", dst)
	}
	from, ok := src.(proto.Message)
	if !ok || !from.ProtoReflect().IsValid() {
		return status.Errorf(codes.Internal, "inproc: cannot send %s: it is no protobuf message", describe(src))
	}
	if from.ProtoReflect().Descriptor() == to.ProtoReflect().Descriptor() {
		proto.Reset(to)
		proto.Merge(to, from)
		return nil
	}
	// The two sides have types of their own for one message (dynamicpb, say).
	wire, err := proto.Marshal(from)
	if err == nil {
		err = proto.Unmarshal(wire, to)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "inproc: convert %T to %T: %v", src, dst, err)
	}
	return nil
}

// moveTo fills dst, which the receiver owns, with the contents of src, which has no other reader.
func moveTo(dst, src any) error {
	to, from := reflect.ValueOf(dst), reflect.ValueOf(src)
	if to.Type() != from.Type() || to.Kind() != reflect.Pointer || to.IsNil() || from.IsNil() {
		return copyTo(dst, src)
	}
	// A generated message is a struct without anything that refers to itself; as the source is given up, this is a move.
	to.Elem().Set(from.Elem())
	return nil
}

func describe(m any) string {
	if m == nil {
		return "nil"
	}
	return fmt.Sprintf("a %T", m)
}
