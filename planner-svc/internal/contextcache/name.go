package contextcache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// name is the hash of a user and of all that a context holds: of the head, and then of each entry of the history with the name of
// the context before it. The same context has the same name however it was put together, so that a repeated request is answered
// with the same name; and a name stands for one history for ever, however the task goes on.
type name [sha256.Size]byte

func (n name) String() string { return hex.EncodeToString(n[:]) }

func parseName(s string) (n name, ok bool) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != len(n) {
		return n, false
	}
	return name(raw), true
}

// entryOverhead is about what a step of the history, a tool or a round takes beside its texts.
const entryOverhead = 256

var wire = proto.MarshalOptions{Deterministic: true}

// nameOfHead names a context without history. Tools are most of it, and are hashed one by one: what is written for that is small.
// The head is changed for the moment, so no other goroutine may use it yet.
func nameOfHead(user string, head *plannerv1.TaskContext) (step, error) {
	tools := head.Tools
	head.Tools = nil
	defer func() { head.Tools = tools }()
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(user), user)
	raw, err := hashPart(h, nil, head)
	size := len(raw) + entryOverhead*(1+len(head.Rounds)+len(tools))
	for _, t := range tools {
		if err == nil {
			raw, err = hashPart(h, raw, t)
			size += len(raw)
		}
	}
	if err != nil {
		return step{}, fmt.Errorf("name a context: %w", err)
	}
	return step{name: name(h.Sum(nil)), size: size}, nil
}

// hashPart hashes a message behind its length, and returns what was hashed; the buffer is used again.
func hashPart(h hash.Hash, buffer []byte, m proto.Message) ([]byte, error) {
	const prefix = 8
	raw, err := wire.MarshalAppend(append(buffer[:0], make([]byte, prefix)...), m)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint64(raw, uint64(len(raw)-prefix))
	h.Write(raw)
	return raw, nil
}

// step is a context on the way to a longer one.
type step struct {
	name name
	size int
}

// chain names the contexts that come of appending entries, one by one; the first is the one that it begins with.
func (from step) chain(entries []*plannerv1.HistoryEntry) ([]step, error) {
	steps := append(make([]step, 0, len(entries)+1), from)
	var raw []byte
	var err error
	for _, e := range entries {
		if raw, err = wire.MarshalAppend(append(raw[:0], from.name[:]...), e); err != nil {
			return nil, fmt.Errorf("name a context: %w", err)
		}
		from = step{name: sha256.Sum256(raw), size: from.size + len(raw) + entryOverhead}
		steps = append(steps, from)
	}
	return steps, nil
}

// headOf is a context without its history and without what belongs to one request alone. It shares the rest with the original.
func headOf(tc *plannerv1.TaskContext) *plannerv1.TaskContext {
	head := &plannerv1.TaskContext{}
	to := head.ProtoReflect()
	tc.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	head.History, head.Base = nil, ""
	head.ModelCallsLeft, head.InputTokensLeft, head.OutputTokensLeft, head.CostNanoUsdLeft = nil, nil, nil, nil
	return head
}
