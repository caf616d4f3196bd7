package risk

import (
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/services/strictjson"
)

func tool(name string, e commonv1.Effect) *catalog.Tool {
	return catalog.NewTool(&commonv1.Tool{Id: "s/" + name, Name: name, Effect: e})
}

// A8, A29: the risk of a call is the tool's floor at least.
func TestAssess(t *testing.T) {
	for _, tc := range []struct {
		tool  *catalog.Tool
		input string
		want  string
	}{
		{tool("read_file", commonv1.Effect_EFFECT_READ), `{"path":"/"}`, "LOW"},
		{tool("write_file", commonv1.Effect_EFFECT_WRITE), `{"path":"/"}`, "MEDIUM"},
		{tool("delete_file", commonv1.Effect_EFFECT_WRITE), `{"path":"a.txt"}`, "MEDIUM"},
		{tool("delete_file", commonv1.Effect_EFFECT_WRITE), `{"path":"/"}`, "HIGH"},
		{tool("remove", commonv1.Effect_EFFECT_WRITE), `{"glob":"docs/**"}`, "HIGH"},
		{tool("remove", commonv1.Effect_EFFECT_WRITE), `{"glob":"docs/*"}`, "HIGH"},
		{tool("remove", commonv1.Effect_EFFECT_WRITE), `{"glob":"docs/*.tmp"}`, "MEDIUM"},
		{tool("format", commonv1.Effect_EFFECT_DESTRUCTIVE), `{}`, "HIGH"},
		{tool("anything", commonv1.Effect_EFFECT_UNSPECIFIED), `{}`, "MEDIUM"},
	} {
		in, err := strictjson.ParseObject(tc.input)
		if err != nil {
			t.Fatal(err)
		}
		if got := Assess(lang.EN, tc.tool, in); Name(got.GetLevel()) != tc.want || got.GetReason() == "" {
			t.Errorf("%s %s: %v", tc.tool.GetName(), tc.input, got)
		}
	}
}

// A3: the risk of the flow is the highest of its tools'.
func TestOfTools(t *testing.T) {
	read, write := tool("read", commonv1.Effect_EFFECT_READ), tool("write", commonv1.Effect_EFFECT_WRITE)
	for want, tools := range map[string][]*catalog.Tool{"LOW": {read, read}, "MEDIUM": {read, write}} {
		if got := OfTools(lang.ZH, tools); Name(got.GetLevel()) != want || got.GetReason() == "" {
			t.Errorf("%v: %v", tools, got)
		}
	}
	if got := OfTools(lang.EN, nil); got.GetLevel() != commonv1.RiskLevel_RISK_LEVEL_LOW {
		t.Errorf("no tools: %v", got)
	}
	lowered := catalog.NewTool(&commonv1.Tool{Id: "s/write", Name: "write", Effect: commonv1.Effect_EFFECT_WRITE, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_LOW})
	if got := OfTools(lang.EN, []*catalog.Tool{read, lowered}); Name(got.GetLevel()) != "LOW" || got.GetReason() != "write may change something." {
		t.Errorf("a writing tool of low risk: %v", got)
	}
	if Parse("high") != commonv1.RiskLevel_RISK_LEVEL_HIGH || Parse("?") != commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED {
		t.Error("levels by name")
	}
}
