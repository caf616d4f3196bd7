package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/services/strictjson"
)

func TestCheck(t *testing.T) {
	for _, good := range []string{`{}`, ` [ ] `, `null`, `-0`, `1e400`, `9007199254740993`, `-1.5E+3`, `"\u00e9\"\\\/\b\f\n\r\t"`,
		`{"a":{"b":[1,2,{"c":null}]},"d":true}`, `{"a":1,"A":2}`, "\t\r\n1", `"字"`, nested(strictjson.MaxDepth)} {
		if err := strictjson.Check(good, strictjson.Rules{}); err != nil {
			t.Errorf("%.40s: %v", good, err)
		}
	}
	bad := map[string]string{
		``:                               "unexpected end of JSON input",
		`{"a":1`:                         "unexpected end of JSON input",
		`{"a" 1}`:                        "expecting ':'",
		`{a:1}`:                          "start of string",
		`{"a":1,}`:                       "start of string",
		`[1,]`:                           "start of value",
		`[1 2]`:                          "expecting ',' or ']'",
		`tru`:                            "unexpected end of JSON input",
		`trux`:                           "in literal true",
		`truex`:                          "more after the end",
		`1 2`:                            "at byte 2: there is more after the end",
		`01`:                             "more after the end",
		`-`:                              "unexpected end of JSON input",
		`1.`:                             "unexpected end of JSON input",
		`1.x`:                            "in number",
		`+1`:                             "start of value",
		`NaN`:                            "start of value",
		`"a`:                             "unexpected end of JSON input",
		"\"a\nb\"":                       "in string",
		`"\x"`:                           "escape",
		`"\u12g4"`:                       "escape",
		`"\u12`:                          "unexpected end of JSON input",
		"\"\xff\"":                       "UTF-8",
		`{"a":1,"a":2}`:                  `key "a" comes twice`,
		`{"a":1,"\u0061":2}`:             `key "a" comes twice`,
		`{"x":[{},{"y":{"k":1,"k":2}}]}`: `in "/x/1/y": the key "k" comes twice`,
		`{"a/b":{"c":}}`:                 `in "/a~1b/c": invalid character '}'`,
		nested(strictjson.MaxDepth + 1):  "nested deeper",
	}
	for text, want := range bad {
		err := strictjson.Check(text, strictjson.Rules{})
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
	if err := strictjson.Check("{"+b.String()+`"last":0}`, strictjson.Rules{}); err != nil {
		t.Error(err)
	}
	if err := strictjson.Check("{"+b.String()+`"kkk":0}`, strictjson.Rules{}); err == nil {
		t.Error("a duplicate was overlooked")
	}
}

func TestCheckNumbers(t *testing.T) {
	check := func(text string) error {
		doc, err := strictjson.Parse(text, strictjson.Rules{})
		if err != nil {
			t.Fatal(err)
		}
		return doc.CheckNumbers()
	}
	for _, good := range []string{"0", "1e400", "-1.5E-400", strings.Repeat("9", 2000)} {
		if err := check(good); err != nil {
			t.Errorf("%.20s: %v", good, err)
		}
	}
	for _, bad := range []string{"1e999999999", "1E-2001", "1e99999999999999999999", strings.Repeat("9", 2001)} {
		var at *strictjson.Error
		if err := check("[0, " + bad + "]"); !errors.As(err, &at) || at.Pointer != "/1" || at.Offset != 3 {
			t.Errorf("%.20s: %v", bad, err)
		}
	}
}

func TestMembersAndItems(t *testing.T) {
	const doc = ` { "a" : 1.50 , "b\u0021":{"x":[1, 2]} ,"c": "}]," , "d" : [ ] } `
	var keys, values []string
	for k, v := range strictjson.Members(doc) {
		keys, values = append(keys, k), append(values, v)
	}
	if diff := cmp.Diff([]string{"a", "b!", "c", "d"}, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1.50", `{"x":[1, 2]}`, `"}],"`, "[ ]"}, values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	items := slices.Collect(strictjson.Items(` [ 1 ,{"a":"]"}, "x,y" ,[ [] ] ] `))
	if diff := cmp.Diff([]string{"1", `{"a":"]"}`, `"x,y"`, "[ [] ]"}, items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if v, ok := strictjson.Member(doc, "a"); v != "1.50" || !ok {
		t.Errorf("Member = %q, %v", v, ok)
	}
	if _, ok := strictjson.Member(`[1]`, "a"); ok {
		t.Error("an array has a member")
	}
	for range strictjson.Members(doc) {
		break
	}
	for range strictjson.Items(`[1,2]`) {
		break
	}
}

func TestKind(t *testing.T) {
	for text, want := range map[string]string{` {}`: "object", `[]`: "array", `"a"`: "string", `-1`: "number", `true`: "boolean",
		`false`: "boolean", `null`: "null", ``: "", `x`: ""} {
		if got := strictjson.Kind(text); got != want {
			t.Errorf("Kind(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestContentAndQuote(t *testing.T) {
	for raw, want := range map[string]string{` "a\nb" `: "a\nb", `1.50`: "1.50", ` [1, 2]`: "[1, 2]"} {
		if got := strictjson.Content(raw); got != want {
			t.Errorf("Content(%q) = %q, want %q", raw, got, want)
		}
	}
	for text, want := range map[string]string{
		"": `""`, "plain ~": `"plain ~"`, "a<b>&\"\n字": `"a<b>&\"\n字"`, `\`: `"\\"`, "\x1f": `"\u001f"`, "\u2028": "\"\u2028\"", "\xff": "\"\ufffd\"", "\b\t\r": `"\b\t\r"`,
	} {
		if got := strictjson.Quote(text); got != want {
			t.Errorf("Quote(%q) = %s, want %s", text, got, want)
		}
	}
}

// Escapes are read as encoding/json reads them.
func TestUnquote(t *testing.T) {
	for _, raw := range []string{`""`, `"a"`, `"\\\"\/\b\f\n\r\t"`, `"字\u5b57"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\u0041"`, `"\ud83d\n"`, "\"\\n\xff\xfe\""} {
		var want string
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Fatal(err)
		}
		if got := strictjson.UnquoteString([]byte(raw)); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
		if got := strictjson.Unquote(raw); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// A large text is read and written with one allocation of about its size.
func TestLargeStringsAreCopiedOnce(t *testing.T) {
	text := strings.Repeat("a \"line\"\tof 字\r\n", 1<<16)
	quoted := strictjson.Quote(text)
	raw := []byte(quoted)
	var read, written string
	for name, do := range map[string]func(){
		"reading": func() { read = strictjson.UnquoteString(raw) }, "writing": func() { written = strictjson.Quote(text) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		if used := int(after.TotalAlloc - before.TotalAlloc); used > len(raw)*9/8 {
			t.Errorf("%s %d bytes allocates %d", name, len(raw), used)
		}
	}
	if read != text || written != quoted || !json.Valid(raw) {
		t.Error("the text has changed")
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"x\u0041",null,true],"b":{}}`, `{"a":1,"a":2}`, ` [ 1 , 2 ] `, `"\ud800"`, `{"a`, "1e5", `{"":{"":[]}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := strictjson.Check(text, strictjson.Rules{})
		if err != nil {
			stricter := !utf8.ValidString(text) || strings.Contains(err.Error(), "twice") || strings.Contains(err.Error(), "nested deeper")
			if !stricter && json.Valid([]byte(text)) {
				t.Fatalf("refused what is valid: %v", err)
			}
			for range strictjson.Members(text) { // must end without a panic
			}
			for range strictjson.Items(text) {
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
		if got := strictjson.Compact(text); got != want.String() {
			t.Fatalf("Compact = %q, want %q", got, &want)
		}
		compareParts(t, text)
	})
}

// compareParts checks the one-level readers against encoding/json.
func compareParts(t *testing.T, text string) {
	switch strictjson.Kind(text) {
	case "object":
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got := map[string]json.RawMessage{}
		for k, v := range maps.Collect(strictjson.Members(text)) {
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
		for v := range strictjson.Items(text) {
			got = append(got, json.RawMessage(v))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("items (-want +got):\n%s", diff)
		}
	case "string":
		var want string
		if err := json.Unmarshal([]byte(text), &want); err != nil || strictjson.Content(text) != want {
			t.Fatalf("Content = %q, want %q, %v", strictjson.Content(text), want, err)
		}
	}
}
