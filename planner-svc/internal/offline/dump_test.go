package offline

import (
	"fmt"
	"os"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

func TestDump(t *testing.T) {
	data, err := os.ReadFile("/tmp/goals2.txt")
	if err != nil {
		t.Skip()
	}
	for _, g := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		tc := &plannerv1.TaskContext{Goal: g, Tools: tools(t, "workspace", "workspace", commonv1.Effect_EFFECT_READ)}
		calls, answer := run(t, tc, sample().call)
		fmt.Printf("=> %s\n   %s\n%s\n\n", g, strings.Join(calls, "\n   "), answer)
	}
}
