package flow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A copy has every field, also those that will be added, and what flows change in it does not change the original.
func TestCloneIsWhole(t *testing.T) {
	c := &storagev1.Checkpoint{}
	fill(c.ProtoReflect())
	before := proto.Clone(c)
	copied := flow.Clone(c)
	if d := cmp.Diff(before, copied, protocmp.Transform()); d != "" {
		t.Errorf("the copy (-want +got):\n%s", d)
	}
	copied.ActiveSteps[0].Attempt++
	copied.ActiveSteps[0].InputJson = "changed"
	copied.Usage.ToolCalls++
	copied.Waits = append(copied.Waits[:0], &storagev1.Wait{Id: "other"})
	copied.Grants[0] = nil
	copied.UnknownCalls[0] = nil
	copied.ActiveSteps[0].Accepted[0] = nil
	copied.ActiveSteps = append(copied.ActiveSteps[:0], nil)
	if d := cmp.Diff(before, c, protocmp.Transform()); d != "" {
		t.Errorf("the original (-want +got):\n%s", d)
	}
}

// fill sets every field of a message to something that is not its default.
func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsList() && f.Message() != nil:
			fill(m.Mutable(f).List().AppendMutable().Message())
		case f.IsList():
			m.Mutable(f).List().Append(value(f))
		case f.Message() != nil:
			fill(m.Mutable(f).Message())
		default:
			m.Set(f, value(f))
		}
	}
}

func value(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(f.Name()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(f.Name()))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(f.Number()))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(f.Number()))
	}
	return protoreflect.ValueOfInt64(int64(f.Number()))
}
