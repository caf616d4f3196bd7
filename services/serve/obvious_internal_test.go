package serve

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// The messages of each step are seen to be right without the validator and without an allocation; nothing wrong ever is.
func TestObvious(t *testing.T) {
	call := func(change func(*mcppoolv1.CallToolRequest)) proto.Message {
		c := &mcppoolv1.CallToolRequest{McpId: "files", Name: "read", InputJson: "{}", CallId: "c", AckCallIds: []string{"a"}, Epoch: 1}
		change(c)
		return &mcppoolv1.CallToolsRequest{Call: c}
	}
	cases := []struct {
		name    string
		m       proto.Message
		obvious bool
	}{
		{"a call", call(func(*mcppoolv1.CallToolRequest) {}), true},
		{"a call with an answer", call(func(c *mcppoolv1.CallToolRequest) { c.Answers = []*mcppoolv1.CallAnswer{{}} }), false},
		{"64 characters of more bytes", call(func(c *mcppoolv1.CallToolRequest) { c.McpId = strings.Repeat("長", 64) }), true},
		{"65 characters", call(func(c *mcppoolv1.CallToolRequest) { c.McpId = strings.Repeat("x", 65) }), false},
		{"no server", call(func(c *mcppoolv1.CallToolRequest) { c.McpId = "" }), false},
		{"too many bytes", call(func(c *mcppoolv1.CallToolRequest) { c.RequestState = strings.Repeat("x", 1<<20+1) }), false},
		{"too many items", call(func(c *mcppoolv1.CallToolRequest) { c.AckCallIds = make([]string, 1001) }), false},
		{"a rule that is not known here", call(func(c *mcppoolv1.CallToolRequest) { c.Timeout = durationpb.New(1) }), false},
		{"a required message is missing", &mcppoolv1.CallToolsRequest{}, false},
		{"nothing at all", (*mcppoolv1.CallToolsRequest)(nil), false},
		{"a message of another kind", dynamicpb.NewMessage((&mcppoolv1.CallToolRequest{}).ProtoReflect().Descriptor()), false},
		{"a rule of the whole message", &executorv1.RunTaskRequest{Task: &executorv1.CreateTaskRequest{Goal: "do it"}}, false},
		{"a page of tools", &mcppoolv1.ListToolsRequest{McpId: "files", PageSize: 1000}, true},
		{"a page that is too large", &mcppoolv1.ListToolsRequest{McpId: "files", PageSize: 1001}, false},
		{"a page that is too small", &mcppoolv1.ListToolsRequest{McpId: "files", PageSize: -1}, false},
		{"a plan", &plannerv1.PlanStepsRequest{Context: &plannerv1.TaskContext{Goal: "do it", Tools: []*commonv1.Tool{{Id: "files/read"}}}}, true},
	}
	validator, err := protovalidate.New()
	if err != nil {
		t.Fatal(err)
	}
	o := newObvious()
	for _, c := range cases {
		got := o.kept(c.m)
		if got != c.obvious && (c.obvious || validator.Validate(c.m) != nil) {
			t.Errorf("%s: %v, want %v", c.name, got, c.obvious)
		}
		if got && testing.AllocsPerRun(10, func() { o.kept(c.m) }) > 0 {
			t.Errorf("%s: allocates", c.name)
		}
	}
}

// What is said of messages of all types of the contracts, filled at random, the validator says too.
func TestObviousAgreesWithTheValidator(t *testing.T) {
	validator, err := protovalidate.New()
	if err != nil {
		t.Fatal(err)
	}
	o, obvious, wrong := newObvious(), 0, 0
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range []protoreflect.FullName{"pawl.common.v1", "pawl.executor.v1", "pawl.mcppool.v1", "pawl.planner.v1"} {
		protoregistry.GlobalFiles.RangeFilesByPackage(name, func(f protoreflect.FileDescriptor) bool {
			for i := range f.Messages().Len() {
				one, err := protoregistry.GlobalTypes.FindMessageByName(f.Messages().Get(i).FullName())
				if err != nil {
					t.Fatal(err)
				}
				for range 30 {
					m := one.New()
					fill(random, m, 3)
					said, err := o.kept(m.Interface()), validator.Validate(m.Interface())
					if said && err != nil {
						t.Fatalf("%s is said to be right: %v\n%v", one.Descriptor().FullName(), err, m.Interface())
					}
					if said {
						obvious++
					}
					if err != nil {
						wrong++
					}
				}
			}
			return true
		})
	}
	if obvious < 250 || wrong < 250 {
		t.Errorf("%d messages were obvious and %d wrong: that proves little", obvious, wrong)
	}
}

// fill sets fields at random, with values around the usual bounds.
func fill(random *rand.Rand, m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		if depth == 0 || fd.IsMap() && random.IntN(8) > 0 || random.IntN(3) == 0 {
			continue
		}
		switch {
		case fd.IsMap():
			m.Mutable(fd)
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range random.IntN(4) {
				list.Append(anyOf(random, fd, list.NewElement(), depth))
			}
		default:
			m.Set(fd, anyOf(random, fd, m.NewField(fd), depth))
		}
	}
}

func anyOf(random *rand.Rand, fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) protoreflect.Value {
	n := []int64{0, 0, 1, 1, 2, 5, 36, 99, 100, 101, 1000, 1001, 10001, -1}[random.IntN(14)]
	switch fd.Kind() {
	case protoreflect.MessageKind:
		fill(random, v.Message(), depth-1)
		return v
	case protoreflect.StringKind:
		lengths := []int{0, 1, 1, 2, 5, 10, 64, 65, 128, 200, 201, 400, 401, 512, 513, 2001, 20001}
		return protoreflect.ValueOfString(strings.Repeat([]string{"x", "長"}[random.IntN(2)], lengths[random.IntN(len(lengths))]))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(make([]byte, max(n, 0)))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n > 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	}
	panic(fmt.Sprintf("no value for %v", fd.Kind()))
}
