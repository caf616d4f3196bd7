package offline

import (
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

const (
	signedEN = "(Written by the offline planner, without a language model.)"
	signedZH = "（由离线规划器生成，未使用语言模型。）"
)

func everywhere(t testing.TB) []*commonv1.Tool {
	all := tools(t, "workspace", "workspace", commonv1.Effect_EFFECT_READ)
	for _, server := range []string{"everything", "memory", "other"} {
		all = append(all, tools(t, server, server, commonv1.Effect_EFFECT_WRITE)...)
	}
	return all
}
