package pack

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Kind is a type of stored message.
type Kind struct {
	// leaves are fields whose bytes may be cut out, children those that hold messages; both by field number.
	leaves   []bool
	children []*Kind
}

// The messages that are packed.
var (
	Head    = kindOf((&storagev1.TaskHead{}).ProtoReflect().Descriptor(), map[protoreflect.FullName]*Kind{})
	Record  = kindOf((&storagev1.Record{}).ProtoReflect().Descriptor(), map[protoreflect.FullName]*Kind{})
	Command = kindOf((&storagev1.Command{}).ProtoReflect().Descriptor(), map[protoreflect.FullName]*Kind{})

	checkpoint = kindOf((&storagev1.Checkpoint{}).ProtoReflect().Descriptor(), map[protoreflect.FullName]*Kind{})
)

func kindOf(d protoreflect.MessageDescriptor, known map[protoreflect.FullName]*Kind) *Kind {
	if k := known[d.FullName()]; k != nil {
		return k
	}
	size := 0
	for i := range d.Fields().Len() {
		size = max(size, int(d.Fields().Get(i).Number())+1)
	}
	k := &Kind{leaves: make([]bool, size), children: make([]*Kind, size)}
	known[d.FullName()] = k
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		switch f.Kind() {
		case protoreflect.StringKind, protoreflect.BytesKind:
			k.leaves[f.Number()] = true
		case protoreflect.MessageKind:
			k.children[f.Number()] = kindOf(f.Message(), known)
		}
	}
	return k
}

// walk calls visit with where each leaf of a message in wire form begins and ends. What is not a message ends the walk:
// nothing of it is cut out.
func (k *Kind) walk(b []byte, from, to int, visit func(from, to int)) {
	for from < to {
		num, typ, n := protowire.ConsumeTag(b[from:to])
		if n < 0 {
			return
		}
		from += n
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b[from:to]); n < 0 {
				return
			}
			from += n
			continue
		}
		size, n := protowire.ConsumeVarint(b[from:to])
		if n < 0 || size > uint64(to-from-n) {
			return
		}
		from += n
		end := from + int(size)
		switch {
		case int(num) >= len(k.leaves):
		case k.leaves[num]:
			visit(from, end)
		case k.children[num] != nil:
			k.children[num].walk(b, from, end, visit)
		}
		from = end
	}
}
