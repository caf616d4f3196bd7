package rawjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/services/internal/rawjson"
)

func TestCheck(t *testing.T) {
	for _, good := range []string{`{}`, ` [ ] `, `null`, `-0`, `1e400`, `9007199254740993`, `-1.5E+3`, `"\u00e9\"\\\/\b\f\n\r\t"`,
		`{"a":{"b":[1,2,{"c":null}]},"d":true}`, `{"a":1,"A":2}`, "\t\r\n1", `"字"`, nested(rawjson.MaxDepth)} {
		if err := rawjson.Check(good, nil); err != nil {
			t.Errorf("%.40s: %v", good, err)
		}
	}
	bad := map[string]string{
		``:                               "the text ends where a value should be",
		`{"a":1`:                         "comma or }",
		`{"a" 1}`:                        "colon",
		`{a:1}`:                          "key",
		`{"a":1,}`:                       "key",
		`[1,]`:                           "value",
		`[1 2]`:                          "comma or ]",
		`tru`:                            "value",
		`truex`:                          "after the end",
		`1 2`:                            "after the end",
		`01`:                             "after the end",
		`-`:                              "digit",
		`1.`:                             "digit",
		`1e`:                             "digit",
		`+1`:                             "value",
		`NaN`:                            "value",
		`"a`:                             "no end",
		"\"a\nb\"":                       "control character",
		`"\x"`:                           "escape",
		`"\u12g4"`:                       "four hex digits",
		`"\u12`:                          "text ends",
		`"\`:                             "text ends",
		"\"\xff\"":                       "UTF-8",
		`{"a":1,"a":2}`:                  `key "a" is there twice`,
		`{"a":1,"\u0061":2}`:             `key "a" is there twice`,
		`{"x":[{},{"y":{"k":1,"k":2}}]}`: `in "/x/1/y": the key "k" is there twice`,
		`{"a/b":{"c":}}`:                 `in "/a~1b/c": unexpected '}'`,
		nested(rawjson.MaxDepth + 1):     "nested deeper",
	}
	for text, want := range bad {
		err := rawjson.Check(text, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%.60s) = %v, want %q", text, err, want)
		}
	}
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestCheckFindsDuplicatesAmongMany(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		b.WriteString(`"` + strings.Repeat("k", i+1) + `":0,`)
	}
	if err := rawjson.Check("{"+b.String()+`"last":0}`, nil); err != nil {
		t.Error(err)
	}
	if err := rawjson.Check("{"+b.String()+`"kkk":0}`, nil); err == nil {
		t.Error("a duplicate was overlooked")
	}
}

func TestComputable(t *testing.T) {
	for _, good := range []string{"0", "1e400", "-1.5E-400", strings.Repeat("9", 2000)} {
		if err := rawjson.Check(good, rawjson.Computable); err != nil {
			t.Errorf("%.20s: %v", good, err)
		}
	}
	for _, bad := range []string{"1e999999999", "1E-2001", "1e99999999999999999999", strings.Repeat("9", 2001)} {
		var at *rawjson.Error
		if err := rawjson.Check("[0, "+bad+"]", rawjson.Computable); !errors.As(err, &at) || at.Pointer != "/1" || at.Offset != 4 {
			t.Errorf("%.20s: %v", bad, err)
		}
	}
}

func TestMembersAndItems(t *testing.T) {
	const doc = ` { "a" : 1.50 , "b\u0021":{"x":[1, 2]} ,"c": "}]," , "d" : [ ] } `
	var keys, values []string
	for k, v := range rawjson.Members(doc) {
		keys, values = append(keys, k), append(values, v)
	}
	if diff := cmp.Diff([]string{"a", "b!", "c", "d"}, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1.50", `{"x":[1, 2]}`, `"}],"`, "[ ]"}, values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	items := slices.Collect(rawjson.Items(` [ 1 ,{"a":"]"}, "x,y" ,[ [] ] ] `))
	if diff := cmp.Diff([]string{"1", `{"a":"]"}`, `"x,y"`, "[ [] ]"}, items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if v, ok := rawjson.Member(doc, "a"); v != "1.50" || !ok {
		t.Errorf("Member = %q, %v", v, ok)
	}
	if _, ok := rawjson.Member(`[1]`, "a"); ok {
		t.Error("an array has a member")
	}
	for range rawjson.Members(doc) {
		break
	}
	for range rawjson.Items(`[1,2]`) {
		break
	}
}

func TestKind(t *testing.T) {
	for text, want := range map[string]string{` {}`: "object", `[]`: "array", `"a"`: "string", `-1`: "number", `true`: "boolean",
		`false`: "boolean", `null`: "null", ``: "", `x`: ""} {
		if got := rawjson.Kind(text); got != want {
			t.Errorf("Kind(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestTextAndQuote(t *testing.T) {
	for raw, want := range map[string]string{` "a\nb" `: "a\nb", `1.50`: "1.50", ` [1, 2]`: "[1, 2]"} {
		if got := rawjson.Text(raw); got != want {
			t.Errorf("Text(%q) = %q, want %q", raw, got, want)
		}
	}
	for text, want := range map[string]string{
		"": `""`, "plain ~": `"plain ~"`, "a<b>&\"\n字": `"a<b>&\"\n字"`, `\`: `"\\"`, "\x1f": `"\u001f"`, "\u2028": `"\u2028"`, "\xff": `"\ufffd"`,
	} {
		if got := rawjson.Quote(text); got != want {
			t.Errorf("Quote(%q) = %s, want %s", text, got, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"x\u0041",null,true],"b":{}}`, `{"a":1,"a":2}`, ` [ 1 , 2 ] `, `"\ud800"`, `{"a`, "1e5", `{"":{"":[]}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := rawjson.Check(text, nil)
		if err != nil {
			stricter := !utf8.ValidString(text) || strings.Contains(err.Error(), "twice") || strings.Contains(err.Error(), "nested deeper")
			if !stricter && json.Valid([]byte(text)) {
				t.Fatalf("refused what is valid: %v", err)
			}
			for range rawjson.Members(text) { // must end without a panic
			}
			for range rawjson.Items(text) {
			}
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatal("accepted what is not valid")
		}
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := rawjson.Compact(text); got != want.String() {
			t.Fatalf("Compact = %q, want %q", got, &want)
		}
		compareParts(t, text)
	})
}

// compareParts checks the one-level readers against encoding/json.
func compareParts(t *testing.T, text string) {
	switch rawjson.Kind(text) {
	case "object":
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got := map[string]json.RawMessage{}
		for k, v := range maps.Collect(rawjson.Members(text)) {
			got[k] = json.RawMessage(v)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("members (-want +got):\n%s", diff)
		}
	case "array":
		var want []json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got := []json.RawMessage{}
		for v := range rawjson.Items(text) {
			got = append(got, json.RawMessage(v))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("items (-want +got):\n%s", diff)
		}
	case "string":
		var want string
		if err := json.Unmarshal([]byte(text), &want); err != nil || rawjson.Text(text) != want {
			t.Fatalf("Text = %q, want %q, %v", rawjson.Text(text), want, err)
		}
	}
}
