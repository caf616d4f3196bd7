package pack_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"pawl.dev/executor-svc/internal/journal/pack"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// addUnknown adds fields that this program does not know to some of the messages in m.
func addUnknown(r *rand.Rand, m protoreflect.Message) {
	if r.IntN(3) == 0 {
		m.SetUnknown([]byte{0xfa, 0x3e, 3, 'n', 'e', 'w'})
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				addUnknown(r, v.List().Get(i).Message())
			}
		default:
			addUnknown(r, v.Message())
		}
		return true
	})
}

// sizes are strings around the sizes at which a length takes a further byte.
func sizes() (all []string) {
	for _, n := range []int{0, 1, 20, 127, 128, 16383, 16384} {
		all = append(all, strings.Repeat("x", n))
	}
	return all
}

func randomWithUnknown(t *rapid.T, m proto.Message) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	fill(r, m.ProtoReflect(), 4, sizes())
	addUnknown(r, m.ProtoReflect())
}

// What is written by hand is to the byte what proto.Marshal writes: all fields are there, also those that are added to the
// messages one day, and those that nobody knows.
func TestWire(t *testing.T) {
	t.Run("record", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			r := &storagev1.Record{}
			randomWithUnknown(t, r)
			for _, f := range r.GetFacts() {
				text := rapid.SampledFrom(sizes()).Draw(t, "text")
				switch rapid.IntRange(0, 4).Draw(t, "kind") {
				case 0:
					f.Kind = &storagev1.Fact_StepInit{StepInit: text}
				case 1:
					f.Kind = &storagev1.Fact_StepInput{StepInput: text}
				case 2:
					f.Kind = &storagev1.Fact_StepOutput{StepOutput: text}
				case 3:
					f.Kind = nil
				}
			}
			want, err := proto.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pack.AppendRecord([]byte("before"), r)
			if err != nil || !bytes.Equal(got, append([]byte("before"), want...)) {
				t.Fatalf("%v: %x, want %x of %v", err, got[6:], want, r)
			}
		})
	})
	t.Run("checkpoint", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			c := &storagev1.Checkpoint{}
			randomWithUnknown(t, c)
			hot, notes, err := pack.Split(c, newSource())
			if err != nil {
				t.Fatal(err)
			}
			wantHot, wantNotes := partsOf(t, c)
			if !bytes.Equal(hot, wantHot) || !bytes.Equal(notes, wantNotes) {
				t.Fatalf("%x and %x, want %x and %x of %v", hot, notes, wantHot, wantNotes, c)
			}
		})
	})
}

// partsOf splits a checkpoint as it is stored since version 2.
func partsOf(t *rapid.T, c *storagev1.Checkpoint) (hot, notes []byte) {
	rest, err := proto.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for len(rest) > 0 {
		num, typ, n := protowire.ConsumeField(rest)
		switch {
		case typ == protowire.VarintType && slices.Contains([]protowire.Number{1, 2, 13}, num):
		case slices.Contains([]protowire.Number{4, 5, 12, 18, 21, 24, 25}, num):
			notes = append(notes, rest[:n]...)
		default:
			hot = append(hot, rest[:n]...)
		}
		rest = rest[n:]
	}
	return hot, notes
}

// What is no text is refused, as by proto.Marshal.
func TestWireRefusesWhatIsNoText(t *testing.T) {
	const bad = "\xff"
	for name, c := range map[string]*storagev1.Checkpoint{
		"note": {Name: bad},
		"step": {ActiveSteps: []*storagev1.ActiveStep{{ToolId: bad}}},
		"risk": {ActiveSteps: []*storagev1.ActiveStep{{Risk: &storagev1.RiskNote{Reason: bad}}}},
		"wait": {Waits: []*storagev1.Wait{{Message: bad}}},
	} {
		if err := (&pack.Checkpoint{}).Pack(c, 0, newSource()); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	for name, f := range map[string]*storagev1.Fact{
		"tool": {ToolId: bad, Kind: &storagev1.Fact_StepInit{}}, "input": {Kind: &storagev1.Fact_StepInput{StepInput: bad}}, "reason": {Kind: &storagev1.Fact_FlowCancel{FlowCancel: bad}},
	} {
		if _, err := pack.AppendRecord(nil, &storagev1.Record{Facts: []*storagev1.Fact{f}}); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}
