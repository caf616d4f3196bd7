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
