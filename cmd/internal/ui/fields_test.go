package ui_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/cmd/internal/ui"
)

const schemaJSON = `{"type":"object","properties":{
	"path":{"type":["string","null"],"description":"the file"},
	"depth":{"type":["integer","null"]},
	"ratio":{"anyOf":[{"type":"number"},{"type":"null"}]},
	"deep":{"type":"boolean"},
	"tags":{"type":"array"},
	"opts":{"type":"object"},
	"mode":{"enum":["fast","slow",3,null]},
	"any":{}
}}`

func TestFieldsKeepTheSchemasOrder(t *testing.T) {
	fields, err := ui.Fields(schemaJSON)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range fields {
		got = append(got, f.Name+"="+f.Kind())
	}
	want := []string{"path=string", "depth=integer", "ratio=number", "deep=boolean", "tags=array", "opts=object", "mode=fast | slow | 3", "any="}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestObject(t *testing.T) {
	for _, tc := range []struct {
		name  string
		pairs []string
		raw   bool
		want  string
	}{
		{"nothing", nil, false, `{}`},
		{"text with = and quotes", []string{`path=a="b"&c`}, false, `{"path":"a=\"b\"&c"}`},
		{"a number as text where text is wanted", []string{"path=12"}, false, `{"path":"12"}`},
		{"an integer beyond 2^53 stays exact", []string{"depth=9007199254740993"}, false, `{"depth":9007199254740993}`},
		{"number", []string{"ratio=-1.50"}, false, `{"ratio":-1.50}`},
		{"yes", []string{"deep=yes"}, false, `{"deep":true}`},
		{"array", []string{`tags=[1, "a"]`}, false, `{"tags":[1,"a"]}`},
		{"object", []string{`opts={"a": {}}`}, false, `{"opts":{"a":{}}}`},
		{"member that is a string", []string{"mode=slow"}, false, `{"mode":"slow"}`},
		{"member that is a number", []string{"mode=3"}, false, `{"mode":3}`},
		{"any value that is JSON", []string{"any=[true]"}, false, `{"any":[true]}`},
		{"any value that is none", []string{"any=hello"}, false, `{"any":"hello"}`},
		{"JSON values", []string{"path=null", "depth=2"}, true, `{"depth":2,"path":null}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ui.ObjectOfPairs(schemaJSON, tc.pairs, tc.raw, true)
			if err != nil || got != tc.want {
				t.Errorf("got %s, %v; want %s", got, err, tc.want)
			}
		})
	}
}

func TestObjectSaysWhatIsWrong(t *testing.T) {
	for pairs, want := range map[string]string{
		"path":           "not NAME=VALUE",
		"=x":             "not NAME=VALUE",
		"depth=2.5":      "depth: a whole number is wanted",
		"depth=":         "a whole number is wanted",
		"ratio=many":     "ratio: a number is wanted",
		"deep=perhaps":   "deep: yes or no is wanted",
		"tags=a,b":       "a JSON array is wanted",
		"opts=[1]":       "a JSON object is wanted",
		"mode=medium":    "is none of fast | slow | 3",
		"pth=x":          "pth is not asked for; the names are: path, depth",
		"path=a path=b":  "path is given twice",
		"depth=1 depth=": "depth is given twice",
	} {
		_, err := ui.ObjectOfPairs(schemaJSON, strings.Fields(pairs), false, true)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", pairs, err, want)
		}
	}
	if _, err := ui.ObjectOfPairs(schemaJSON, []string{"path=plain"}, true, true); err == nil || !strings.Contains(err.Error(), "double quotes") {
		t.Errorf("a bare word as JSON: %v", err)
	}
}

func TestUnknownNamesWhereTheyAreAllowed(t *testing.T) {
	got, err := ui.ObjectOfPairs(schemaJSON, []string{"other=1"}, false, false)
	if err != nil || got != `{"other":1}` {
		t.Errorf("got %s, %v", got, err)
	}
}
