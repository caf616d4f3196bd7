package jsonref_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/services/jsonref"
)

var values = map[string]string{
	"goal":  `"count \"it\""`,
	"list":  ` {"files": [ {"name":"a.go","size":9007199254740993}, {"name":"b.go","size":1e400} ], "total" : 2, "done":true, "none":null, "0": "zero"} `,
	"n":     `1.50`,
	"empty": `{}`,
	"arr":   `[]`,
	"bad":   `{"a":`,
	"a-b_C": `"dashed"`,
}

func lookup(name string) (string, bool) {
	v, ok := values[name]
	return v, ok
}

func TestResolve(t *testing.T) {
	cases := []struct{ name, template, want string }{
		{"nothing to do", ` {"a" : [1.0, "x\u0041/\/", true], "b":{} , "c":[]} `, `{"a":[1.0,"x\u0041/\/",true],"b":{},"c":[]}`},
		{"whole string", `{"q":"${goal}"}`, `{"q":"count \"it\""}`},
		{"typed number", `{"n":"${n}","big":"${list.files.0.size}","huge":"${list.files.1.size}"}`, `{"n":1.50,"big":9007199254740993,"huge":1e400}`},
		{"typed others", `["${list.done}","${list.none}","${list.files.1}","${arr}"]`, `[true,null,{"name":"b.go","size":1e400},[]]`},
		{"the template is one reference", `"${list.files}"`, `[{"name":"a.go","size":9007199254740993},{"name":"b.go","size":1e400}]`},
		{"digits are a member of an object", `"${list.0}"`, `"zero"`},
		{"within text", `"The ${list.files.0.name} has ${list.files.0.size} of ${list.total}; ${list.none}, ${list.done}"`, `"The a.go has 9007199254740993 of 2; null, true"`},
		{"quotes within text", `"say ${goal}!"`, `"say count \"it\"!"`},
		{"objects within text", `"all: ${list.files}"`, `"all: [{\"name\":\"a.go\",\"size\":9007199254740993},{\"name\":\"b.go\",\"size\":1e400}]"`},
		{"two in a row", `"${n}${n}"`, `"1.501.50"`},
		{"an escape", `"$${goal} and ${n} and $$ and $ and {n}"`, `"${goal} and 1.50 and $$ and $ and {n}"`},
		{"an escape alone", `"$${goal}"`, `"${goal}"`},
		{"names", `"${a-b_C}"`, `"dashed"`},
		{"keys are not templates", `{"${goal}":1}`, `{"${goal}":1}`},
		{"escaped in the template's JSON", `"\u0024{n}"`, `1.50`},
		{"values are not templates", `"${self}"`, `"${goal}"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := jsonref.Resolve(c.template, func(name string) (string, bool) {
				if name == "self" {
					return `"${goal}"`, true
				}
				return lookup(name)
			})
			if err != nil || got != c.want {
				t.Errorf("Resolve = %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestResolveText(t *testing.T) {
	for template, want := range map[string]string{
		"": "", "${goal}": `count "it"`, "for ${goal}": `for count "it"`, "${list.files.1}": `{"name":"b.go","size":1e400}`, "${n}": "1.50", "$${n} \"": `${n} "`,
	} {
		if got, err := jsonref.ResolveText(template, lookup); err != nil || got != want {
			t.Errorf("ResolveText(%q) = %q, %v; want %q", template, got, err, want)
		}
	}
	if got, err := jsonref.ResolveText("${nope}", lookup); err == nil || got != "" {
		t.Errorf("a name that is not there: %q", got)
	}
}

func TestResolveErrorsSayWhatThereIs(t *testing.T) {
	cases := []struct {
		template string
		want     []string
	}{
		{`{"a":"${nope.x}"}`, []string{"${nope.x}", `no value named "nope"`}},
		{`"${list.file}"`, []string{"${list.file}", `list has no member "file"`, `"files", "total", "done", "none", "0"`}},
		{`"${list.files.2.name}"`, []string{"${list.files.2.name}", "list.files is an array and has no item 2", "0 to 1"}},
		{`"${list.files.first}"`, []string{`"first" is not one of its indexes 0 to 1`}},
		{`"${list.files.-1}"`, []string{`"-1"`, "0 to 1"}},
		{`"${list.total.x}"`, []string{`list.total is a number and has no members`}},
		{`"${list.none.x}"`, []string{`list.none is null`}},
		{`"${empty.x}"`, []string{"it has none"}},
		{`"${arr.0}"`, []string{"empty array"}},
		{`"${bad.a}"`, []string{`the value of "bad" is not valid JSON`}},
		{`"x ${goal"`, []string{"no closing brace", "$${"}},
		{`"${}"`, []string{"${}", "letters, digits", "$${"}},
		{`"${a b}"`, []string{"${a b}"}},
		{`"${a..b}"`, []string{"${a..b}"}},
		{`"${goal.}"`, []string{"${goal.}"}},
		{`{"a":1,"a":2}`, []string{"template is not valid JSON", "twice"}},
		{`{`, []string{"template is not valid JSON"}},
	}
	for _, c := range cases {
		_, err := jsonref.Resolve(c.template, lookup)
		if err == nil {
			t.Errorf("Resolve(%s): no error", c.template)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Resolve(%s): %q lacks %q", c.template, err, want)
			}
		}
	}
}

func TestRefs(t *testing.T) {
	got, err := jsonref.Refs(`{"a":"${b.0.x} and ${a}","c":["${a}","$${no}",{"d":"${b.0.x}","${key}":"${b}"}]}`)
	want := []jsonref.Ref{{Name: "b", Path: []string{"0", "x"}}, {Name: "a", Path: []string{}}, {Name: "b", Path: []string{}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Refs: %v (-want +got):\n%s", err, diff)
	}
	if s := want[0].String(); s != "${b.0.x}" {
		t.Errorf("String = %s", s)
	}
	if refs, err := jsonref.Refs(`{"a":1}`); refs != nil || err != nil {
		t.Errorf("Refs = %v, %v", refs, err)
	}
	for _, bad := range []string{`"${"`, `{`} {
		if _, err := jsonref.Refs(bad); err == nil {
			t.Errorf("Refs(%s): no error", bad)
		}
	}
}

func FuzzResolve(f *testing.F) {
	for _, seed := range []string{`{"a":"${goal} ${list.files.0}"}`, `["$${x}","$$${n}","${n}"]`, `"${${n}}"`, `"\u0024{n}"`, `{"a":"$"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, template string) {
		got, err := jsonref.Resolve(template, lookup)
		refs, refsErr := jsonref.Refs(template)
		if err != nil {
			return
		}
		if refsErr != nil {
			t.Fatalf("resolved, but Refs says %v", refsErr)
		}
		if !json.Valid([]byte(got)) {
			t.Fatalf("the result is not JSON: %s", got)
		}
		for _, r := range refs {
			if _, ok := lookup(r.Name); !ok {
				t.Fatalf("resolved without a value for %v", r)
			}
		}
	})
}
