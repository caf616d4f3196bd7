package pack

import (
	"errors"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// errText says that a string is none.
var errText = errors.New("a string is not valid UTF-8")

// wire writes what each commit writes, to the byte as proto.Marshal does, at a fraction of its cost; all else is left to
// that. TestWire compares them over all fields, so that one that is added to a message is not forgotten here.
type wire struct {
	b   []byte
	err error
}

func (w *wire) number(num protowire.Number, v uint64) {
	if v != 0 {
		w.b = protowire.AppendVarint(protowire.AppendTag(w.b, num, protowire.VarintType), v)
	}
}

func (w *wire) flag(num protowire.Number, v bool) {
	w.number(num, protowire.EncodeBool(v))
}

// text leaves an empty string out.
func (w *wire) text(num protowire.Number, s string) {
	if s != "" {
		w.present(num, s)
	}
}

func (w *wire) present(num protowire.Number, s string) {
	if !utf8.ValidString(s) {
		w.err = errText
	}
	w.b = protowire.AppendString(protowire.AppendTag(w.b, num, protowire.BytesType), s)
}

func (w *wire) bytes(num protowire.Number, b []byte) {
	if len(b) > 0 {
		w.b = protowire.AppendBytes(protowire.AppendTag(w.b, num, protowire.BytesType), b)
	}
}

// begin begins a message, whose size end writes. It returns where, and end by how much that moved what stands behind.
func (w *wire) begin(num protowire.Number) (at int) {
	w.b = append(protowire.AppendTag(w.b, num, protowire.BytesType), 0)
	return len(w.b)
}

func (w *wire) end(at int) (moved int) {
	size := uint64(len(w.b) - at)
	moved = protowire.SizeVarint(size) - 1
	w.b = slices.Grow(w.b, moved)[:len(w.b)+moved]
	copy(w.b[at+moved:], w.b[at:])
	protowire.AppendVarint(w.b[:at-1], size)
	return moved
}

// message writes one in the common way.
func (w *wire) message(num protowire.Number, m proto.Message) {
	at := w.begin(num)
	b, err := (proto.MarshalOptions{}).MarshalAppend(w.b, m)
	if err != nil {
		w.err = err
		return
	}
	w.b = b
	w.end(at)
}

func messages[M proto.Message](w *wire, num protowire.Number, all []M) {
	for _, m := range all {
		w.message(num, m)
	}
}

// rest writes the fields that this program does not know.
func (w *wire) rest(m proto.Message) { w.b = append(w.b, m.ProtoReflect().GetUnknown()...) }

// AppendRecord appends a record in wire form.
func AppendRecord(dst []byte, r *storagev1.Record) ([]byte, error) {
	w := wire{b: dst}
	w.number(1, uint64(r.GetTime()))
	w.usage(2, r.GetUsage())
	for _, f := range r.GetFacts() {
		w.fact(f)
	}
	w.rest(r)
	return w.b, w.err
}

func (w *wire) usage(num protowire.Number, u *storagev1.Usage) {
	if u == nil {
		return
	}
	at := w.begin(num)
	w.number(1, u.GetInputTokens())
	w.number(2, u.GetOutputTokens())
	w.number(3, uint64(u.GetModelCalls()))
	w.number(4, uint64(u.GetToolCalls()))
	w.rest(u)
	w.end(at)
}

func (w *wire) fact(f *storagev1.Fact) {
	var num protowire.Number
	var text string
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_StepInit:
		num, text = 15, k.StepInit
	case *storagev1.Fact_StepInput:
		num, text = 16, k.StepInput
	case *storagev1.Fact_StepOutput:
		num, text = 17, k.StepOutput
	default:
		w.message(3, f)
		return
	}
	at := w.begin(3)
	w.number(1, uint64(f.GetOrdinal()))
	w.text(2, f.GetToolId())
	w.number(3, uint64(f.GetStepStatus()))
	w.number(4, uint64(f.GetAttempt()))
	w.text(5, f.GetWaitId())
	w.text(6, f.GetSubtaskId())
	w.number(7, uint64(f.GetStatus()))
	w.present(num, text)
	w.rest(f)
	w.end(at)
}

func (w *wire) risk(num protowire.Number, r *storagev1.RiskNote) {
	if r == nil {
		return
	}
	at := w.begin(num)
	w.number(1, uint64(r.GetLevel()))
	w.text(2, r.GetReason())
	w.rest(r)
	w.end(at)
}

func (w *wire) errorNote(num protowire.Number, e *storagev1.ErrorNote) {
	if e != nil {
		w.message(num, e)
	}
}
