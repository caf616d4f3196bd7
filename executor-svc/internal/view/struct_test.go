package view

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"pawl.dev/services/schema"
)

func TestTwin(t *testing.T) {
	got := toStruct(`{"a":{"b":[1,"x",true,null,[]]},"big":9007199254740993,"huge":1e400}`)
	want, err := structpb.NewStruct(map[string]any{"a": map[string]any{"b": []any{1, "x", true, nil, []any{}}}, "big": float64(1 << 53), "huge": "1e400"})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(want, got) {
		t.Errorf("twin: %v", got)
	}
	for _, text := range []string{"", "[]", "1", `{"a":`, `{"a":1,"a":2}`, "null"} {
		if s := toStruct(text); s != nil {
			t.Errorf("toStruct(%s): %v", text, s)
		}
	}
	deep := strings.Repeat(`{"a":`, 499) + "{}" + strings.Repeat("}", 499)
	wire, err := proto.Marshal(toStruct(deep))
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(wire, &structpb.Struct{}); err != nil {
		t.Errorf("the deepest document does not travel: %v", err)
	}
}

// What is accepted as an exact object has a twin that travels and is accepted too.
func FuzzTwin(f *testing.F) {
	for _, seed := range []string{`{"a":9007199254740993}`, `{"a":1e400,"b":[{"c":null}]}`, `{"a":1,"\u0061":2}`, `{"\ud800":"\udfff"}`, `[]`, `{`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := schema.ExactObject(nil, text)
		s := toStruct(text)
		if err != nil && s != nil {
			t.Fatalf("refused (%v), but there is a twin %v", err, s)
		}
		if err != nil || text == "" || len(text) > maxStructBytes {
			return
		}
		wire, err := proto.Marshal(s)
		if err != nil || s == nil {
			t.Fatalf("the twin %v cannot be sent: %v", s, err)
		}
		if err := proto.Unmarshal(wire, &structpb.Struct{}); err != nil {
			t.Fatalf("the twin cannot be received: %v", err)
		}
		if _, err := schema.ExactObject(s, ""); err != nil {
			t.Fatalf("the twin is not accepted: %v", err)
		}
	})
}
