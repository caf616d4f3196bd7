package strictjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pawl.dev/services/strictjson"
)

func checkMessage(text string) error { return strictjson.Check([]byte(text), strictjson.Wire) }

func TestCheckOfMessages(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`"k%d":{"a":1}`, i))
	}
	nested := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	for _, tt := range []struct {
		text string
		want error
	}{
		{`{"a":1,"b":{"a":2},"c":[{"a":1},{"a":1}]}`, nil},
		{`{"a":"a","b":["a","a","\"a\""]}`, nil},
		{`{"a":1,"A":2}`, nil}, // EachMember is stricter
		{`{` + strings.Join(many, ",") + `}`, nil},
		{`"\\"`, nil},
		{`{"a":1,"b":2,"a":3}`, strictjson.ErrDuplicate},
		{`{"x":{"y":[{"a":1,"a":2}]}}`, strictjson.ErrDuplicate},
		{`{"a":{"b":1},"a":2}`, strictjson.ErrDuplicate},
		{`{"a":1,"\u0061":2}`, strictjson.ErrDuplicate},
		{`{` + strings.Join(many, ",") + `,"k3":1}`, strictjson.ErrDuplicate},
		{nested(strictjson.Wire.MaxDepth), nil},
		{nested(strictjson.Wire.MaxDepth + 1), strictjson.ErrDepth},
		{nested(1_000_000), strictjson.ErrDepth},
		{strings.Repeat(`{"a":`, 1000), strictjson.ErrDepth},
		{`{"a":1`, strictjson.ErrInvalid},
		{`]}{[`, strictjson.ErrInvalid},
		{`"`, strictjson.ErrInvalid},
		{``, strictjson.ErrInvalid},
	} {
		if err := checkMessage(tt.text); !errors.Is(err, tt.want) {
			t.Errorf("%.60s: %v, want %v", tt.text, err, tt.want)
		}
	}
}

// Whatever the changes to a text, it is accepted if and only if encoding/json finds it valid.
func TestCheckAgreesWithEncodingJSON(t *testing.T) {
	seeds := []string{
		`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"a\"\\\u00e9\/é"}],"isError":false},"x":null}`,
		`[0,-1,1.5,10e3,2E-7,-0.0e+0,true,false,null,"",{},[],[[]],{"a":{}}]`, ` {"a" : [ 1 , 2 ] } `, `"\ud800"`, `-`, `01`, `1.`, `.5`, `1e`, `+1`, `truex`, `"\x"`, `"\u12g4"`, "\"\t\"", `[1 2]`, `{"a"}`, `{1:2}`, `1 2`,
	}
	const letters = "{}[]\",:\\ue0-+.1 9tfn\n\x01\xffaE/b"
	random := rand.New(rand.NewPCG(1, 2))
	for _, seed := range seeds {
		for n := range 4_000 {
			text := []byte(seed)
			for range n % 4 {
				i, c := random.IntN(len(text)+1), letters[random.IntN(len(letters))]
				switch random.IntN(3) {
				case 0:
					text = slices.Insert(text, i, c)
				case 1:
					text = slices.Delete(text, min(i, max(len(text)-1, 0)), min(i+1, len(text)))
				default:
					text = append(text[:i:i], append([]byte{c}, text[min(i+1, len(text)):]...)...)
				}
			}
			valid := json.Valid(text)
			if err := checkMessage(string(text)); !valid && err == nil || valid && errors.Is(err, strictjson.ErrInvalid) {
				t.Fatalf("%q: %v, and it is valid: %v", text, err, valid)
			}
		}
	}
}

func FuzzCheckOfMessages(f *testing.F) {
	for _, text := range []string{`{"a":{"b":[1,"x"]},"c":null}`, `{"a":1,"a":2}`, `{"a\"":1,"b\\":"{"}`, `[{"a":1},{"a":1}]`, `{"":{},"":1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := checkMessage(text)
		valid := json.Valid([]byte(text))
		if !valid && err == nil || valid && errors.Is(err, strictjson.ErrInvalid) {
			t.Errorf("%q: %v, and it is valid: %v", text, err, valid)
		}
		if !valid || errors.Is(err, strictjson.ErrDepth) {
			return
		}
		if twice := hasTwice(json.NewDecoder(strings.NewReader(text))); twice != errors.Is(err, strictjson.ErrDuplicate) {
			t.Errorf("%q: %v, but twice is %v", text, err, twice)
		}
	})
}

// hasTwice reads one value of valid JSON by tokens.
func hasTwice(dec *json.Decoder) bool {
	tok, err := dec.Token()
	if err != nil {
		return false
	}
	twice := false
	switch tok {
	case json.Delim('{'):
		keys := make(map[any]bool)
		for dec.More() {
			key, _ := dec.Token()
			twice = twice || keys[key]
			keys[key] = true
			twice = hasTwice(dec) || twice
		}
		_, _ = dec.Token()
	case json.Delim('['):
		for dec.More() {
			twice = hasTwice(dec) || twice
		}
		_, _ = dec.Token()
	}
	return twice
}

// Scan passes the members of valid text that encoding/json finds, and those of broken text as far as they can be told apart.
func TestScan(t *testing.T) {
	for text, want := range map[string]string{
		`{"a" : {"a":1}, "b\u0021":[2 , 3],"c":"}"}`: `a={"a":1};b!=[2 , 3];c="}";`,
		`[{"a":1}]`:                              ``,
		`{}`:                                     ``,
		`{"a":1,"a":2,"b":3}`:                    `a=1;a=2;b=3; a key comes twice in one object`,
		`{"a":{"x":1,"x":2},"b":3}`:              `a={"x":1,"x":2};b=3; a key comes twice in one object`,
		`{"a":1,"b":[[[`:                         `a=1;b=[[[; it is not valid JSON`,
		`{"a":1,"b":"cut`:                        `a=1;b="cut; it is not valid JSON`,
		`{"a":1,"b":`:                            `a=1;b=; it is not valid JSON`,
		`{"a":1 "b":2}`:                          `a=1; it is not valid JSON`,
		`{"a":1} x`:                              `a=1; it is not valid JSON`,
		`{"a":1,"b":` + strings.Repeat("[", 300): `a=1;b=` + strings.Repeat("[", 300) + `; it is nested too deep`,
		``:                                       ` it is not valid JSON`,
	} {
		var got strings.Builder
		err := strictjson.Scan([]byte(text), strictjson.Wire, func(key, value []byte) { fmt.Fprintf(&got, "%s=%s;", key, value) })
		if err != nil {
			fmt.Fprintf(&got, " %v", errors.Unwrap(err))
		}
		if got.String() != want {
			t.Errorf("%s: %s, want %s", text, &got, want)
		}
	}
}

// A text of nothing but escapes costs no more than its length.
func TestScanOfEscapes(t *testing.T) {
	text := `{"a":"` + strings.Repeat(`\"`, 1<<20) + `","b":1`
	n := 0
	if err := strictjson.Scan([]byte(text), strictjson.Wire, func(_, _ []byte) { n++ }); err == nil || n != 2 {
		t.Errorf("%d members, %v", n, err)
	}
}

func FuzzScan(f *testing.F) {
	for _, text := range []string{`{"a":{"b":[1,"x"]},"c":null}`, `{"a":1,"a":2}`, `{"a\"":1,"b\\":"{"`, `{"a":[`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := map[string]string{}
		if err := strictjson.Scan([]byte(text), strictjson.Wire, func(k, v []byte) { got[string(k)] = string(v) }); err != nil {
			return
		}
		want := map[string]string{}
		for k, v := range strictjson.Members(text) {
			want[k] = v
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	text := []byte(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"` + strings.Repeat("some text and more ", 50) + `"}],"isError":false}}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_ = strictjson.Scan(text, strictjson.Wire, func(_, _ []byte) {})
	}
}
