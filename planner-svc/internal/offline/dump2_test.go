package offline

import (
	"fmt"
	"os"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

func TestDump2(t *testing.T) {
	data, err := os.ReadFile("/tmp/goals3.txt")
	if err != nil {
		t.Skip()
	}
	var all []*commonv1.Tool
	all = append(all, tools(t, "workspace", "workspace", commonv1.Effect_EFFECT_READ)...)
	for _, n := range []string{"everything", "memory", "other"} {
		all = append(all, tools(t, n, n, commonv1.Effect_EFFECT_WRITE)...)
	}
	for _, g := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		set := all
		if after, ok := strings.CutPrefix(g, "fs:"); ok {
			set, g = tools(t, "filesystem", "filesystem", commonv1.Effect_EFFECT_WRITE), after
		}
		tc := &plannerv1.TaskContext{Goal: g, Tools: set}
		calls, answer := run(t, tc, func(tool, in string) (string, error) {
			if strings.HasSuffix(tool, "allowed_directories") {
				return `{"message":"Allowed directories:\n/tmp/x"}`, nil
			}
			if strings.HasPrefix(tool, "workspace") {
				return sample().call(tool, in)
			}
			return `{"message":"ok"}`, nil
		})
		if len(calls) > 0 {
			answer = ""
		} else {
			answer = answer[:60]
		}
		fmt.Printf("=> %s\n   %s\n%s\n", g, strings.Join(calls, "\n   "), answer)
	}
}
