package pack_test

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

	"pawl.dev/executor-svc/internal/journal/pack"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

var errAbsent = errors.New("absent")

// source keeps what was cut out.
type source struct {
	payloads map[pack.Sum][]byte
	inputs   map[uint64]string
}

func newSource() *source {
	return &source{payloads: map[pack.Sum][]byte{}, inputs: map[uint64]string{}}
}

func (s *source) Payload(sum pack.Sum) ([]byte, error) {
	if b, ok := s.payloads[sum]; ok {
		return b, nil
	}
	return nil, errAbsent
}

func (s *source) Text(seq uint64) (string, error) {
	if in, ok := s.inputs[seq]; ok {
		return in, nil
	}
	return "", errAbsent
}

func (s *source) keep(all []pack.Payload) {
	for _, p := range all {
		s.payloads[p.Sum] = bytes.Clone(p.Data)
	}
}

// HasInput implements pack.Facts.
func (s *source) HasInput(seq uint64, in string) bool { return in != "" && s.inputs[seq] == in }

// Begun implements pack.Facts: steps begin in facts of high seqs.
func (s *source) Begun(ordinal uint32, description string) uint64 {
	if seq := uint64(ordinal) + 1000; s.inputs[seq] == description {
		return seq
	}
	return 0
}

// texts are strings that repeat, that are long, and that look like what a blob is made of.
func texts() []string {
	cut := append([]byte{0, 1, 0, 0, 5}, make([]byte, 32)...)
	return []string{"", "x", "short", "a string long enough to be kept once", string(cut), "\x00\x01\x02",
		strings.Repeat("large ", 12000), strings.Repeat("another ", 10000), strings.Repeat("0123456789abcdef", 4), strings.Repeat("0", 31), strings.Repeat("F", 64), strings.Repeat("\x00", pack.Large+1)}
}

// fill sets fields of a message at random, strings to some of texts.
func fill(r *rand.Rand, m protoreflect.Message, depth int, texts []string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if r.IntN(3) == 0 || depth == 0 && f.Message() != nil {
			continue
		}
		if f.IsList() {
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
		} else if f.Message() != nil {
			fill(r, m.Mutable(f).Message(), depth-1, texts)
		} else {
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
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(r.Float64())
	}
	panic("a stored message has a field of kind " + f.Kind().String())
}

func random(t *rapid.T, m proto.Message) {
	seed := rapid.Uint64().Draw(t, "seed")
	fill(rand.New(rand.NewPCG(seed, 0)), m.ProtoReflect(), 4, texts())
}

// Whatever a message holds comes back, and nothing large or repeated is stored in place.
func TestBlobRoundTrip(t *testing.T) {
	for name, of := range map[string]struct {
		kind *pack.Kind
		new  func() proto.Message
	}{
		"head":    {pack.Head, func() proto.Message { return &storagev1.TaskHead{} }},
		"record":  {pack.Record, func() proto.Message { return &storagev1.Record{} }},
		"command": {pack.Command, func() proto.Message { return &storagev1.Command{} }},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := of.new()
				random(t, want)
				wire, err := proto.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				src := newSource()
				before := bytes.Clone(wire)
				blob, payloads := pack.Blob([]byte("prefix"), of.kind, wire)
				if !bytes.Equal(wire, before) {
					t.Fatal("Blob changed what it was given")
				}
				src.keep(payloads)
				blob = blob[len("prefix"):]
				sums := 0
				if err := pack.Sums(blob, func(sum pack.Sum) {
					sums++
					if src.payloads[sum] == nil {
						t.Fatal("a payload is referred to that was not given out")
					}
				}); err != nil || sums != len(payloads) {
					t.Fatalf("%d references, %d payloads; %v", sums, len(payloads), err)
				}
				msg, err := pack.Unblob(blob, src)
				if err != nil {
					t.Fatal(err)
				}
				got := of.new()
				if err := proto.Unmarshal(msg, got); err != nil || !proto.Equal(want, got) {
					t.Fatalf("another message came back: %v", err)
				}
			})
		})
	}
}

func TestCheckpointRoundTrip(t *testing.T) {
	p := &pack.Checkpoint{}
	rapid.Check(t, func(t *rapid.T) {
		want := &storagev1.Checkpoint{}
		random(t, want)
		src := newSource()
		for _, s := range want.GetActiveSteps() {
			// Steps share seqs now and then: the first one decides what the fact holds.
			if s.InputSeq %= 8; src.inputs[s.GetInputSeq()] == "" {
				src.inputs[s.GetInputSeq()] = s.GetInputJson()
			}
			if s.Ordinal %= 4; s.GetDescription() != "" && s.GetOrdinal() < 3 {
				src.inputs[uint64(s.GetOrdinal())+1000] = s.GetDescription()
			}
		}
		before := proto.CloneOf(want)
		deadline := rapid.Int64().Draw(t, "deadline")
		if err := p.Pack(want, deadline, src); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(before, want) {
			t.Fatal("Pack changed what it was given")
		}
		src.keep(p.Payloads)
		hot, notes := bytes.Clone(p.Hot), bytes.Clone(p.Notes)
		st, _, err := pack.ReadState(hot)
		if err != nil || st.Rev != want.GetRev() || st.Status != want.GetStatus() || st.LastSeq != want.GetLastSeq() || st.Deadline != deadline {
			t.Fatalf("state %+v, %v", st, err)
		}
		got, err := pack.UnpackCheckpoint(hot, notes, src)
		if err != nil || !proto.Equal(want, got) {
			t.Fatalf("another checkpoint came back: %v", err)
		}
	})
}

// A field that this program does not know is kept.
func TestUnknownFieldsAreKept(t *testing.T) {
	c := &storagev1.Checkpoint{Rev: 7, ActiveSteps: []*storagev1.ActiveStep{{InputJson: "an input that a fact holds", InputSeq: 3}}}
	unknown := []byte{0xfa, 0x3e, 3, 'n', 'e', 'w'} // field 1007
	c.ProtoReflect().SetUnknown(unknown)
	c.ActiveSteps[0].ProtoReflect().SetUnknown(unknown)
	p := &pack.Checkpoint{}
	src := newSource()
	src.inputs[3] = "an input that a fact holds"
	if err := p.Pack(c, 0, src); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(p.Hot, []byte("an input")) {
		t.Error("the input is repeated")
	}
	got, err := pack.UnpackCheckpoint(p.Hot, p.Notes, src)
	if err != nil || !proto.Equal(c, got) {
		t.Errorf("%v, %v; want %v", got, err, c)
	}
}

// What stands twice in a record is stored once, and what is large not at all.
func TestRepetitionIsStoredOnce(t *testing.T) {
	text, large := strings.Repeat("text ", 100), strings.Repeat("l", pack.Large+1)
	r := &storagev1.Record{Facts: []*storagev1.Fact{
		{ToolId: "workspace/search_files", Kind: &storagev1.Fact_TextAdd{TextAdd: &storagev1.TextAdd{Text: text}}},
		{ToolId: "workspace/search_files", Kind: &storagev1.Fact_FlowSuccess{FlowSuccess: &storagev1.FlowSuccess{FullAnswer: text}}},
		{Kind: &storagev1.Fact_StepInput{StepInput: large}},
		{Kind: &storagev1.Fact_StepOutput{StepOutput: large}},
	}}
	wire, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	blob, payloads := pack.Blob(nil, pack.Record, wire)
	if bytes.Count(blob, []byte(text)) != 1 || bytes.Count(blob, []byte("search_files")) != 1 || len(blob) > len(text)+150 {
		t.Errorf("%d bytes for a text of %d", len(blob), len(text))
	}
	if len(payloads) != 1 || payloads[0].Sum != sha256.Sum256([]byte(large)) {
		t.Errorf("%d payloads, want the large string once", len(payloads))
	}
}

// Notes hold what hardly ever changes: a commit does not write them again.
func TestNotesAreApart(t *testing.T) {
	c := &storagev1.Checkpoint{Rev: 1, Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING, Name: "the flow's name",
		Risk: &storagev1.RiskNote{Reason: "the flow's risk"}, UnknownCalls: [][]byte{[]byte("the hash of an unknown call")}}
	var a, b pack.Checkpoint
	if err := a.Pack(c, 0, newSource()); err != nil {
		t.Fatal(err)
	}
	c.Rev, c.StepCount, c.LastSeq = 2, 1, 5
	if err := b.Pack(c, 0, newSource()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Notes, b.Notes) || len(a.Notes) == 0 || len(b.Hot) > 20 {
		t.Errorf("notes %q and %q, %d bytes change", a.Notes, b.Notes, len(b.Hot))
	}
}

func TestSeal(t *testing.T) {
	sealed := pack.Seal([]byte("key"), []byte("value"))
	if v, err := pack.Unseal([]byte("key"), sealed); err != nil || string(v) != "value" {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := pack.Unseal([]byte("kez"), sealed); err == nil {
		t.Error("a value of another key is taken")
	}
	for i := range sealed {
		for bit := range 8 {
			flipped := bytes.Clone(sealed)
			flipped[i] ^= 1 << bit
			if _, err := pack.Unseal([]byte("key"), flipped); err == nil {
				t.Errorf("bit %d of byte %d can be flipped", bit, i)
			}
		}
		if _, err := pack.Unseal([]byte("key"), sealed[:i]); err == nil {
			t.Errorf("%d bytes of it are taken", i)
		}
	}
}

// FuzzUnpack: whatever is on disk, reading it gives a message or an error.
func FuzzUnpack(f *testing.F) {
	p := &pack.Checkpoint{}
	c := &storagev1.Checkpoint{Name: "n", ActiveSteps: []*storagev1.ActiveStep{{InputJson: "an input that a fact holds", InputSeq: 3}},
		Waits: []*storagev1.Wait{{Message: "a message that stands here twice"}, {Message: "a message that stands here twice"}}}
	src := newSource()
	src.inputs[3] = "an input that a fact holds"
	if err := p.Pack(c, 5, src); err != nil {
		f.Fatal(err)
	}
	f.Add(p.Hot, p.Notes)
	f.Add([]byte{1, 2, 3, 4, 0, 1, 1, 0, 5, 5}, []byte{0, 1, 0, 0, 5})
	f.Add([]byte{1, 2, 3, 4, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, []byte{})
	f.Fuzz(func(t *testing.T, hot, notes []byte) {
		_, _, _ = pack.ReadState(hot)
		c, err := pack.UnpackCheckpoint(hot, notes, src)
		if err == nil && c == nil {
			t.Error("neither a checkpoint nor an error")
		}
		if err != nil {
			return
		}
		// What could be read can be stored again.
		again := &pack.Checkpoint{}
		if err := again.Pack(c, 0, newSource()); err != nil {
			t.Fatal(err)
		}
		src.keep(again.Payloads)
		back, err := pack.UnpackCheckpoint(again.Hot, again.Notes, src)
		if err != nil || !proto.Equal(c, back) {
			t.Errorf("it does not come back: %v", err)
		}
	})
}

func FuzzBlob(f *testing.F) {
	f.Add([]byte("plain"))
	f.Add([]byte{0, 2, 1, 3, 2, 2, 1, 0, 3, 3, 'a', 'b', 'c'})
	f.Fuzz(func(t *testing.T, data []byte) {
		// Read as a blob …
		_, _ = pack.Unblob(data, newSource())
		_ = pack.Sums(data, func(pack.Sum) {})
		// … and as a message of any kind, except that none begins with a zero byte.
		if len(data) > 0 && data[0] == 0 {
			return
		}
		for _, k := range []*pack.Kind{pack.Head, pack.Record, pack.Command} {
			src := newSource()
			blob, payloads := pack.Blob(nil, k, data)
			src.keep(payloads)
			if got, err := pack.Unblob(blob, src); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%q came back as %q, %v", data, got, err)
			}
		}
	})
}
