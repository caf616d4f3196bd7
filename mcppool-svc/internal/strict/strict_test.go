package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
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
		{`{"a":1,"A":2}`, nil}, // data may be so; Object is stricter
		{`{` + strings.Join(many, ",") + `}`, nil},
		{`"\\"`, nil},
		{`{"a":1,"b":2,"a":3}`, ErrTwice},
		{`{"x":{"y":[{"a":1,"a":2}]}}`, ErrTwice},
		{`{"a":{"b":1},"a":2}`, ErrTwice},
		{`{"a":1,"\u0061":2}`, ErrTwice},
		{`{` + strings.Join(many, ",") + `,"k3":1}`, ErrTwice},
		{nested(MaxDepth), nil},
		{nested(MaxDepth + 1), ErrDeep},
		{nested(1_000_000), ErrDeep},
		{strings.Repeat(`{"a":`, 1000), ErrDeep},
		{`{"a":1`, ErrInvalid},
		{`]}{[`, ErrInvalid},
		{`"`, ErrInvalid},
		{``, ErrInvalid},
	} {
		if err := Check([]byte(tt.text)); !errors.Is(err, tt.want) {
			t.Errorf("%.60s: %v, want %v", tt.text, err, tt.want)
		}
	}
}

func TestScanFindsTheID(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"id":8}}`:        "7",
		`{"result":{"id":8,"x":[{"id":9}]},"id": 7 }`:       "7",
		`{"id":7,"result":` + strings.Repeat("[", 1000):     "7",
		`{"id":7,"result":"` + strings.Repeat("x", 1000):    "7",
		`{"id":"a,}b","result":1}`:                          `"a,}b"`,
		`{"result":{"id":8}`:                                "",
		`{"method":"m","params":{"id":8}}`:                  "",
		`{"id":{"id":8},"result":1}`:                        "",
		`{"a":1,"a":2,"id":7}`:                              "7",
		strings.Repeat(`{"a":`, 300) + `{"id":8}`:           "",
		`{"id":7,"id":8}`:                                   "7",
		`[{"id":7}]`:                                        "",
		`{"x":"\"id\":8","id":7}`:                           "7",
		`{"x":"` + strings.Repeat(`\\\"`, 50) + `","id":7}`: "7",
	} {
		if got := string(Scan([]byte(text)).ID); got != want {
			t.Errorf("%.60s: id %q, want %q", text, got, want)
		}
	}
	if m := Scan([]byte(`{"method":"m","params":{"result":1}}`)); !m.Method || m.Answer || m.Err != nil {
		t.Errorf("a notification: %+v", m)
	}
	for _, text := range []string{`{"id":7,"result":1,"Result":2}`, `{"ID":7,"result":1}`, `{"id":7,"re\u017Fult":1}`} {
		if m := Scan([]byte(text)); !errors.Is(m.Err, ErrCase) {
			t.Errorf("%s: %v", text, m.Err)
		}
	}
	if m := Scan([]byte(`{"result":1}`)); m.Method || !m.Answer {
		t.Errorf("an answer: %+v", m)
	}
}

// What passes has each key once, by the account of another reader.
// The values of result and error are those that encoding/json finds.
func TestScanFindsTheValues(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":[1,{"result":2}],"error":3}}`, `{"result" : "a\"}" , "id":1}`, `{"error":{"code":1,"message":"]}"},"id":1}`,
		`{"id":1,"result":null,"error":  [ 1 ] }`, `{"id":1,"result":-1.5e3}`, `{"id":1,"method":"m","params":{"result":1}}`, `[{"result":1}]`,
		`{"re\u0073ult":true}`, `{"result":{},"id":{"result":1}}`, `{}`,
	} {
		m := Scan([]byte(text))
		var want struct{ Result, Error json.RawMessage }
		if text[0] == '{' {
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
		}
		if string(m.Result) != string(want.Result) || string(m.Error) != string(want.Error) || m.Err != nil {
			t.Errorf("%s: %s, %s, %v", text, m.Result, m.Error, m.Err)
		}
	}
}

// Whatever happens to a text, it passes where encoding/json finds it valid, and is refused where not.
func TestValidity(t *testing.T) {
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
			if err := Check(text); !valid && err == nil || valid && errors.Is(err, ErrInvalid) {
				t.Fatalf("%q: %v, and it is valid: %v", text, err, valid)
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, text := range []string{`{"a":{"b":[1,"x"]},"c":null}`, `{"a":1,"a":2}`, `{"a\"":1,"b\\":"{"}`, `[{"a":1},{"a":1}]`, `{"":{},"":1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := Check([]byte(text))
		valid := json.Valid([]byte(text))
		if !valid && err == nil || valid && errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, and it is valid: %v", text, err, valid)
		}
		if !valid || errors.Is(err, ErrDeep) {
			return
		}
		if twice := hasTwice(json.NewDecoder(strings.NewReader(text))); twice != errors.Is(err, ErrTwice) {
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

func BenchmarkScan(b *testing.B) {
	text := []byte(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"` + strings.Repeat("some text and more ", 50) + `"}],"isError":false}}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Scan(text)
	}
}
