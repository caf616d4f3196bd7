// Package risk assesses the risk of a call without a model: the tool's floor, raised if a deleting call's input names a root or
// everything in a folder. It depends on the tool and the input, not on the goal.
package risk

import (
	"path"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/rank"
	"pawl.dev/services/strictjson"
)

const prefix = "RISK_LEVEL_"

// Name writes a level as models do: LOW, MEDIUM, HIGH.
func Name(level commonv1.RiskLevel) string { return strings.TrimPrefix(level.String(), prefix) }

// Parse reads a level as models write it; unspecified for anything else.
func Parse(name string) commonv1.RiskLevel {
	return commonv1.RiskLevel(commonv1.RiskLevel_value[prefix+strings.ToUpper(name)])
}

// ByInput reports whether the risk of a tool's calls depends on their inputs: the tool does not only read, and its name has a word for deleting.
func ByInput(t *catalog.Tool) bool {
	return !t.Reads() && slices.ContainsFunc(rank.Terms(t.GetName()), func(term string) bool { return rank.Means(term, rank.Stem("delete")) })
}

// Raise returns the assessed risk, or a risk of that level and reason if the level is higher.
func Raise(assessed *commonv1.Risk, level commonv1.RiskLevel, reason string) *commonv1.Risk {
	if level <= assessed.GetLevel() {
		return assessed
	}
	return &commonv1.Risk{Level: level, Reason: reason}
}

// Assess returns the risk of a call.
func Assess(l lang.Lang, t *catalog.Tool, in *strictjson.Object) *commonv1.Risk {
	if ByInput(t) && namesAll(in) {
		return &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_HIGH, Reason: l.Say("%s would delete everything in a folder.", "%s 将删除整个目录的内容。", t.GetName())}
	}
	return &commonv1.Risk{Level: t.Floor(), Reason: reason(l, t)}
}

func reason(l lang.Lang, t *catalog.Tool) string {
	switch t.GetEffect() {
	case commonv1.Effect_EFFECT_READ:
		return l.Say("%s only reads.", "%s 只读取，不做更改。", t.GetName())
	case commonv1.Effect_EFFECT_DESTRUCTIVE:
		return l.Say("%s may destroy something that does not come back.", "%s 可能造成不可恢复的更改。", t.GetName())
	}
	return l.Say("%s may change something.", "%s 可能会做出更改。", t.GetName())
}

// OfTools returns the risk of a flow that uses these tools: the highest of their floors.
func OfTools(l lang.Lang, tools []*catalog.Tool) *commonv1.Risk {
	highest := &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: l.Pick("It only reads.", "只读取，不做更改。")}
	if len(tools) == 0 {
		highest.Reason = l.Pick("No tool is called.", "不调用任何工具。")
	}
	for _, t := range tools {
		if highest.GetLevel() == commonv1.RiskLevel_RISK_LEVEL_LOW && !t.Reads() {
			highest.Reason = reason(l, t) // an operator may have set the floor of a tool that writes to LOW
		}
		highest = Raise(highest, t.Floor(), reason(l, t))
	}
	return highest
}

// namesAll reports whether an input names a root, or everything in a folder.
func namesAll(in *strictjson.Object) bool {
	for _, k := range in.Keys() {
		raw, _ := in.Get(k)
		if strictjson.Kind(raw) != "string" {
			continue
		}
		switch v := path.Clean(strings.TrimSpace(strictjson.Content(raw))); {
		case v == "/", v == ".", v == "*", v == "~", v == "**", strings.HasSuffix(v, "/*"), strings.HasSuffix(v, "/**"):
			return true
		}
	}
	return false
}
