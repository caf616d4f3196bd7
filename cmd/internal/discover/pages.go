package discover

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// pageSize is how many entries of a list are asked for at once.
const pageSize = 1000

// All calls a List method until its last page and returns all pages as one response.
func All[Q, R proto.Message](ctx context.Context, list func(context.Context, Q, ...grpc.CallOption) (R, error), req Q) (R, error) {
	req = proto.CloneOf(req)
	setField(req, "page_size", protoreflect.ValueOfInt32(pageSize))
	var all R
	for first := true; ; first = false {
		page, err := list(ctx, req)
		if err != nil {
			return all, err
		}
		next := page.ProtoReflect().Get(field(page, "next_page_token"))
		page.ProtoReflect().Clear(field(page, "next_page_token"))
		if first {
			all = page
		} else {
			proto.Merge(all, page)
		}
		if next.String() == "" {
			return all, nil
		}
		setField(req, "page_token", next)
	}
}

func field(m proto.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	return m.ProtoReflect().Descriptor().Fields().ByName(name)
}

func setField(m proto.Message, name protoreflect.Name, v protoreflect.Value) {
	m.ProtoReflect().Set(field(m, name), v)
}
