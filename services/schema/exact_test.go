package schema_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
)

func object(t testing.TB, m map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestExactObject(t *testing.T) {
	cases := []struct {
		name string
		s    *structpb.Struct
		text string
		want string
	}{
		{"neither", nil, "", "{}"},
		{"numbers stay", nil, `{"a": 9007199254740993, "b": 1e400, "c": 1.50, "d": -0, "e": 0.1e1}`, `{"a":9007199254740993,"b":1e400,"c":1.50,"d":-0,"e":0.1e1}`},
		{"order and strings stay", nil, " {\"z\" : \"a\\u0041 <b> \\/\", \"a\":[ 1 , {} ]}\n", `{"z":"a\u0041 <b> \/","a":[1,{}]}`},
		{"empty struct", &structpb.Struct{}, "", "{}"},
		{"struct", object(t, map[string]any{"b": 1, "a": []any{"x y", nil, true, 0.5}, "c": map[string]any{"big": 1e21}}), "", `{"a":["x y",null,true,0.5],"b":1,"c":{"big":1e+21}}`},
		{"largest exact integer", object(t, map[string]any{"n": float64(1 << 53)}), "", `{"n":9007199254740992}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := schema.ExactObject(c.s, c.text)
			if err != nil || got != c.want {
				t.Errorf("ExactObject = %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestExactObjectRefuses(t *testing.T) {
	cases := []struct {
		name string
		s    *structpb.Struct
		text string
		want string
	}{
		{"both", &structpb.Struct{}, "{}", "twice"},
		{"array", nil, "[]", "must be a JSON object, is an array"},
		{"string", nil, `"a"`, "is a string"},
		{"null", nil, "null", "is null"},
		{"space", nil, "  ", "not valid JSON"},
		{"bad JSON", nil, `{"a":}`, `in "/a"`},
		{"key twice", nil, `{"a":1,"a":1}`, `"a" comes twice`},
		{"inner key twice", nil, `{"x":[{"a":1,"a":1}]}`, `in "/x/0": the key "a" comes twice`},
		{"two values", nil, "{} {}", "after the end"},
		{"no number", object(t, map[string]any{"n": math.NaN()}), "", "NaN"},
		{"too deep", nil, `{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + "}", "nested"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := schema.ExactObject(c.s, c.text)
			if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want INVALID_REQUEST with %q", err, c.want)
			}
		})
	}
}

func FuzzExactObject(f *testing.F) {
	for _, seed := range []string{`{"a":9007199254740993}`, `{"a":1e400,"b":[{"c":null}]}`, `{"a":1,"\u0061":2}`, `{"\ud800":"\udfff"}`, `[]`, `{`, `{"a":"b` + "\n" + `"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := schema.ExactObject(nil, text)
		if err != nil {
			return
		}
		if text == "" {
			return
		}
		again, err := schema.ExactObject(nil, got)
		if err != nil || again != got {
			t.Fatalf("once more: %q, %v", again, err)
		}
		if diff := cmp.Diff(decode(t, text), decode(t, got)); diff != "" {
			t.Fatalf("the content changed (-want +got):\n%s", diff)
		}
	})
}

// decode keeps numbers as they are written.
func decode(t *testing.T, text string) any {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func FuzzValidate(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}`, `{"a":0}`)
	f.Add(`{"$ref":"#"}`, `1`)
	f.Add(`{"anyOf":[{"type":"string"},{"$ref":"#/$defs/x"}],"$defs":{"x":{"multipleOf":0.1}}}`, `0.30001`)
	f.Add(`{"pattern":"(?!a)"}`, `"a"`)
	f.Add(`{"$dynamicRef":"#a","$defs":{"b":{"$dynamicAnchor":"a"}}}`, `{}`)
	f.Add(`{"contentEncoding":"base64","contentMediaType":"application/json"}`, `"e30="`)
	f.Add(`{"format":"regex","unevaluatedItems":false,"prefixItems":[true],"contains":{"const":1e-400}}`, `[1,1e400]`)
	f.Fuzz(func(t *testing.T, raw, doc string) {
		s, err := schema.Compile(raw)
		if err != nil {
			if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
				t.Fatalf("Compile: %v", err)
			}
			return
		}
		s.Properties()
		if err := s.Validate(doc); err != nil && err.Error() == "" {
			t.Fatal("an error without a message")
		}
	})
}
