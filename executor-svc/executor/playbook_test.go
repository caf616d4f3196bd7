package executor_test

import (
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/fake"
)

// A21: a playbook that has more steps than its task may take is refused before anything runs. The limit is the one that the task
// would get, even if the planner's answer is cached. If the planner reports no number of steps (0), nothing is refused.
func TestPlaybookLongerThanTheLimitOfSteps(t *testing.T) {
	p := fake.Script("read")
	p.CheckFn = func(req *plannerv1.CheckPlaybookRequest) *plannerv1.CheckPlaybookResponse {
		n, err := strconv.ParseUint(req.GetPlaybook(), 10, 32)
		if err != nil {
			t.Error(err)
		}
		return &plannerv1.CheckPlaybookResponse{Name: "long", StepCount: uint32(n)}
	}
	r := newRig(t, p)
	for id, steps := range map[string]uint32{"short": 3, "long": 40} {
		_, err := r.agents.CreateAgent(t.Context(), &executorv1.CreateAgentRequest{AgentId: id, Agent: &executorv1.Agent{MaxSteps: steps}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		steps, agent string
		says         []string // what the refusal says; nil: the task is created
	}{
		{"0", "", nil},
		{"25", "", nil},
		{"26", "", []string{"26 steps", "at most 25", "pawl up --max-steps 26", "pawl agents"}},
		{"26", "long", nil},
		{"40", "long", nil},
		{"41", "long", []string{"41 steps", "at most 40", "pawl agents update long --max-steps 41"}},
		{"3", "short", nil},
		{"25", "short", []string{"25 steps", "at most 3", "pawl agents update short --max-steps 25"}},
		{"25", "", nil},
	} {
		_, err := r.tasks.CreateTask(t.Context(), &executorv1.CreateTaskRequest{Playbook: tc.steps, AgentId: tc.agent})
		if tc.says == nil {
			if err != nil {
				t.Errorf("%s steps for %q: %v", tc.steps, tc.agent, err)
			}
			continue
		}
		if status.Code(err) != codes.InvalidArgument || errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
			t.Errorf("%s steps for %q: %v, want INVALID_ARGUMENT", tc.steps, tc.agent, err)
			continue
		}
		for _, s := range tc.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s steps for %q: %v, want %q in it", tc.steps, tc.agent, err, s)
			}
		}
	}
}
