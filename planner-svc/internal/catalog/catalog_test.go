package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/services/strictjson"
)

func tool(id, schema string) *commonv1.Tool {
	name := id
	if i := len("srv/"); len(id) > i && id[:i] == "srv/" {
		name = id[i:]
	}
	return &commonv1.Tool{Id: id, McpId: "srv", Name: name, InputSchemaJson: schema}
}

func TestRoles(t *testing.T) {
	for prop, want := range map[string][]Role{
		`"path":{"type":"string"}`:                                             {Path},
		`"filePath":{"type":"string"}`:                                         {Path},
		`"destination":{"type":"string"}`:                                      {Target, Path},
		`"target_path":{"type":"string"}`:                                      {Target, Path},
		`"file_pattern":{"type":"string"}`:                                     {Pattern, Query},
		`"glob":{"type":"string"}`:                                             {Pattern},
		`"excludePatterns":{"type":"array"}`:                                   nil,
		`"query":{"type":"string"}`:                                            {Query, Pattern},
		`"start_line":{"type":"integer"}`:                                      {FromLine},
		`"endLine":{"type":"integer"}`:                                         {ToLine},
		`"max_results":{"type":"integer"}`:                                     {Limit},
		`"regex":{"type":"boolean"}`:                                           {Regex},
		`"regex":{"type":"string"}`:                                            {Query, Pattern},
		`"whole_word":{"type":"boolean"}`:                                      {WholeWord},
		`"recursive":{"type":"boolean"}`:                                       {Recursive},
		`"url":{"type":"string"}`:                                              {URL},
		`"x":{"type":"string","description":"The URL to load"}`:                {URL},
		`"x":{"type":"string","description":"Path to the thing"}`:              {Path},
		`"x":{"type":"string","enum":["a"],"description":"Path to the thing"}`: nil,
		`"a":{"type":"number"}`:                                                nil,
	} {
		got := NewTool(tool("srv/x", `{"type":"object","properties":{`+prop+`}}`)).Props[0].Roles
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:\n%s", prop, d)
		}
	}
}

func TestTool(t *testing.T) {
	x := NewTool(tool("srv/x", `{"type":"object","properties":{"startLine":{"type":["integer","null"]},"b":{}},"required":["b","startLine"],"additionalProperties":false}`))
	if !x.Closed() || x.PropLike("start-line") == nil || x.PropLike("start") != nil || x.Prop("start_line") != nil {
		t.Errorf("%+v", x)
	}
	if !x.Props[0].Takes("null") || x.Props[0].Takes("string") || !x.Props[1].Takes("string") {
		t.Errorf("types: %+v", x.Props)
	}
	in, err := strictjson.ParseObject(`{"b":1}`)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"startLine"}, x.Missing(in)); d != "" {
		t.Error(d)
	}
	if broken := NewTool(tool("srv/y", `{"type":"object","properties":{"a":{"pattern":"(?=x)"}}}`)); broken.Schema != nil || broken.Props != nil {
		t.Errorf("a schema that cannot be used: %+v", broken)
	}
}

// A29: the floors of READ, WRITE and DESTRUCTIVE are LOW, MEDIUM and HIGH, or the operator's word.
func TestFloor(t *testing.T) {
	for effect, want := range map[commonv1.Effect]commonv1.RiskLevel{
		commonv1.Effect_EFFECT_UNSPECIFIED: commonv1.RiskLevel_RISK_LEVEL_MEDIUM,
		commonv1.Effect_EFFECT_READ:        commonv1.RiskLevel_RISK_LEVEL_LOW,
		commonv1.Effect_EFFECT_WRITE:       commonv1.RiskLevel_RISK_LEVEL_MEDIUM,
		commonv1.Effect_EFFECT_DESTRUCTIVE: commonv1.RiskLevel_RISK_LEVEL_HIGH,
	} {
		if got := NewTool(&commonv1.Tool{Effect: effect}).Floor(); got != want {
			t.Errorf("%v: %v", effect, got)
		}
	}
	high := NewTool(&commonv1.Tool{Effect: commonv1.Effect_EFFECT_READ, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_HIGH})
	if high.Floor() != commonv1.RiskLevel_RISK_LEVEL_HIGH {
		t.Errorf("the operator's word does not count: %v", high.Floor())
	}
}

func TestNames(t *testing.T) {
	c := New([]*commonv1.Tool{tool("srv/get-sum", "{}"), tool("srv/echo", "{}"), {Id: "other/echo", McpId: "other", Name: "echo"}, tool("srv/readGraph", "{}")})
	for token, want := range map[string]bool{"srv/echo": true, "echo": false, "get-sum": true, "GET-SUM": true, "readGraph": true, "none/echo": false, "a-b": false} {
		if got := c.Distinct(token); got != want {
			t.Errorf("Distinct(%q) = %v", token, got)
		}
	}
	if got := len(c.Named("echo")); got != 2 {
		t.Errorf("%d tools are called echo", got)
	}
	if got := c.Named("SRV/ECHO"); len(got) != 1 || got[0].GetId() != "srv/echo" {
		t.Errorf("by id: %v", got)
	}
	if !c.Verb("echo") || !c.Verb("read") || c.Verb("sum") {
		t.Error("verbs are the first words of names")
	}
	if c.Tool("srv/echo") == nil || c.Tool("echo") != nil {
		t.Error("Tool takes ids alone")
	}
}

func TestWords(t *testing.T) {
	if d := cmp.Diff([]string{"read", "text", "file", "http", "2"}, NameParts("readTextFile-http_2")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Words{"read": true, "file": true, "folder": true, "entity": true}, WordsOf("Show the documents, directories and entities")); d != "" {
		t.Error(d)
	}
	if w := WordsOf("获取环境变量"); !w["get"] || !w["env"] || !w["取环"] {
		t.Errorf("%v", w)
	}
	if !WordsOf("add two numbers").Has("sum") || WordsOf("adder").Has("sum") {
		t.Error("add means sum, adder does not")
	}
}
