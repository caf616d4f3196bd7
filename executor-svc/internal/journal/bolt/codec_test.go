package bolt

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// payloads is a store of payloads in memory.
type payloads map[hash][]byte

func (p payloads) keep(all []payload) {
	for _, one := range all {
		p[one.sum] = bytes.Clone(one.data)
	}
}

func (p payloads) load(dst []byte, sum hash) ([]byte, error) {
	if b, ok := p[sum]; ok {
		return append(dst, b...), nil
	}
	return nil, errors.New("absent")
}

// texts are strings around the size from which they are cut out, and one that looks like an encoded message.
func texts() []string {
	return []string{"", "x", "a short text", string(append([]byte{0, 1, 0, 5}, make([]byte, 32)...)),
		strings.Repeat("l", maxInline), strings.Repeat("l", maxInline+1), strings.Repeat("large ", 12000), strings.Repeat("\x00", maxInline+1)}
}

// fill sets fields of a message at random.
func fill(r *rand.Rand, m protoreflect.Message, depth int, texts []string) {
	if r.IntN(5) == 0 {
		m.SetUnknown([]byte{0xfa, 0x3e, 3, 'n', 'e', 'w'}) // field 1007
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if r.IntN(3) == 0 || depth == 0 && f.Message() != nil {
			continue
		}
		switch {
		case f.IsList():
			list := m.Mutable(f).List()
			for range r.IntN(4) {
				if f.Message() != nil {
					e := list.NewElement()
					fill(r, e.Message(), depth-1, texts)
					list.Append(e)
				} else {
					list.Append(scalar(r, f, texts))
				}
			}
		case f.Message() != nil:
			fill(r, m.Mutable(f).Message(), depth-1, texts)
		default:
			m.Set(f, scalar(r, f, texts))
		}
	}
}

func scalar(r *rand.Rand, f protoreflect.FieldDescriptor, all []string) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(all[r.IntN(len(all))])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(all[r.IntN(len(all))]))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(12) - 2))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(r.Int64() - 1<<62)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(r.Uint64() >> r.IntN(64))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(r.Uint32())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(r.Int32())
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(r.Float64())
	}
	panic("a stored message has a field of kind " + f.Kind().String())
}

// Every message comes back as it was, with fields that this program does not know, and no large string is stored in place.
func TestMessagesComeBack(t *testing.T) {
	for name, create := range map[string]func() proto.Message{
		"head":       func() proto.Message { return &storagev1.TaskHead{} },
		"record":     func() proto.Message { return &storagev1.Record{} },
		"command":    func() proto.Message { return &storagev1.Command{} },
		"checkpoint": func() proto.Message { return &storagev1.Checkpoint{} },
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := create()
				fill(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), want.ProtoReflect(), 4, texts())
				before := proto.Clone(want)
				value, cutOut, err := encode([]byte("prefix"), want)
				if err != nil || !proto.Equal(before, want) {
					t.Fatalf("encode changed the message: %v", err)
				}
				if bytes.Contains(value, []byte(strings.Repeat("l", maxInline+1))) {
					t.Fatal("a large string is stored in place")
				}
				kept := payloads{}
				kept.keep(cutOut)
				got := create()
				size, err := decode(value[len("prefix"):], got, kept.load)
				if err != nil || !proto.Equal(want, got) || size != proto.Size(want) {
					t.Fatalf("another message came back, of %d bytes: %v", size, err)
				}
			})
		})
	}
}

func TestLargeStringIsAPayload(t *testing.T) {
	text := strings.Repeat("l", maxInline+1)
	r := &storagev1.Record{Facts: []*storagev1.Fact{
		{Kind: &storagev1.Fact_StepInput{StepInput: text}}, {Kind: &storagev1.Fact_StepOutput{StepOutput: text}},
	}}
	value, cutOut, err := encode(nil, r)
	if err != nil || len(value) > 120 || len(cutOut) != 2 || cutOut[0].sum != sha256.Sum256([]byte(text)) || cutOut[1].sum != cutOut[0].sum {
		t.Errorf("%d bytes and %d payloads, %v", len(value), len(cutOut), err)
	}
	if _, err := decode(value, &storagev1.Record{}, payloads{}.load); err == nil {
		t.Error("a missing payload is not reported")
	}
	for name, m := range map[string]proto.Message{
		"checkpoint": &storagev1.Checkpoint{Name: "\xff"}, "record": &storagev1.Record{Facts: []*storagev1.Fact{{ToolId: "\xff"}}},
	} {
		if _, _, err := encode(nil, m); err == nil {
			t.Errorf("%s: text that is not UTF-8 is accepted", name)
		}
	}
}

func TestStateBeforeCheckpoint(t *testing.T) {
	want := taskState{rev: 7, status: executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING, lastSeq: 1 << 40, indexTime: 1_800_000_000_000_000_000}
	value, _, err := encodeCheckpoint(nil, want, &storagev1.Checkpoint{Rev: 7, Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	got, rest, err := readState(value)
	c := &storagev1.Checkpoint{}
	if _, decoded := decode(rest, c, payloads{}.load); err != nil || decoded != nil || got != want || c.GetName() != "n" {
		t.Errorf("%+v, %v, %v, %v", got, c, err, decoded)
	}
	if _, _, err := readState(value[:4]); err == nil {
		t.Error("a state that is cut off is accepted")
	}
}

func TestChecksum(t *testing.T) {
	stored := withChecksum([]byte("key"), []byte("value"))
	if v, err := verifyChecksum([]byte("key"), stored); err != nil || string(v) != "value" {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := verifyChecksum([]byte("kez"), stored); err == nil {
		t.Error("a value of another key is accepted")
	}
	for i := range stored {
		for bit := range 8 {
			flipped := bytes.Clone(stored)
			flipped[i] ^= 1 << bit
			if _, err := verifyChecksum([]byte("key"), flipped); err == nil {
				t.Errorf("bit %d of byte %d can be flipped", bit, i)
			}
		}
		if _, err := verifyChecksum([]byte("key"), stored[:i]); err == nil {
			t.Errorf("%d bytes of it are accepted", i)
		}
	}
}

// FuzzDecode: decoding any bytes gives a message that can be stored again, or an error.
func FuzzDecode(f *testing.F) {
	value, cutOut, err := encode(nil, &storagev1.Checkpoint{Name: "n", Waits: []*storagev1.Wait{{Message: strings.Repeat("m", maxInline+1)}}})
	if err != nil {
		f.Fatal(err)
	}
	kept := payloads{}
	kept.keep(cutOut)
	f.Add(value)
	f.Add([]byte{0, 1, 0, 5})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, value []byte) {
		_, _, _ = readState(value)
		_, _, _ = readCuts(value)
		c := &storagev1.Checkpoint{}
		if _, err := decode(value, c, kept.load); err != nil {
			return
		}
		again, cutOut, err := encode(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		kept.keep(cutOut)
		back := &storagev1.Checkpoint{}
		if _, err := decode(again, back, kept.load); err != nil || !proto.Equal(c, back) {
			t.Errorf("it does not come back: %v", err)
		}
	})
}
