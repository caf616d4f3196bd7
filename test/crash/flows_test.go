package crash

import (
	"fmt"
	"strings"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// tools by their effect; `put` is an idempotent WRITE.
var tools = []string{"read", "put", "write", "wipe"}

// repeatable reports whether a tool may be called again without a person's decision.
func repeatable(tool string) bool { return tool == "read" || tool == "put" }

// step is one step of a flow.
type step struct {
	mode string
	// expect has the planner look at the outcome first, so that outcome and next intent are two transitions.
	expect bool
	// lacks leaves out an input that the tool needs.
	lacks bool
}

// flow is a way through the states of a task.
type flow struct {
	name string
	// asks has a person confirm each step; else none is confirmed.
	asks  bool
	steps []step
	// unknown is a person's decision about an unknown outcome: skip, retry or output; empty means skip.
	unknown string
	// rejects has approvals refused.
	rejects bool
	// atInput is the command that arrives once the first attempt has begun: cancel or pause.
	atInput string
	// inquires: tools ask a person in the middle of their calls.
	inquires bool
	// loses: outcomes are unknown even if no process of Pawl dies, because the tool kills its server.
	loses bool
}

// flows are tried with every tool.
var flows = []flow{
	{name: "auto", steps: []step{{}, {expect: true}, {}}},
	{name: "confirm", asks: true, steps: []step{{}, {}}},
	{name: "params", asks: true, steps: []step{{lacks: true}}},
	{name: "error", steps: []step{{mode: "fail"}}},
	{name: "error-on", steps: []step{{mode: "fail"}, {}}},
	{name: "error-confirm", asks: true, steps: []step{{mode: "fail"}, {}}},
	{name: "reject", asks: true, rejects: true, steps: []step{{}}},
	{name: "cancel", atInput: "cancel", steps: []step{{mode: "slow"}, {}}},
	{name: "pause", atInput: "pause", steps: []step{{}, {expect: true}, {}}},
	{name: "ask", inquires: true, unknown: "retry", steps: []step{{mode: "ask"}}},
	{name: "unknown-skip", unknown: "skip", loses: true, steps: []step{{mode: "die"}, {}}},
	{name: "unknown-retry", unknown: "retry", loses: true, steps: []step{{mode: "die"}, {}}},
	{name: "unknown-output", unknown: "output", loses: true, steps: []step{{mode: "die"}, {}}},
}

// server returns the MCP server that a flow uses. Flows whose tools kill their server share one, so that no other flow's calls die with
// it. Flows whose tools ask have a connection for each task: over a shared one, nothing shows which call a question belongs to.
func (f flow) server() string {
	switch {
	case f.loses:
		return "mortal"
	case f.inquires:
		return "asking"
	}
	return "t"
}

func (f flow) playbook(tool, path string) string {
	var b strings.Builder
	b.WriteString("name: crash\nsteps:\n")
	for i, s := range f.steps {
		fmt.Fprintf(&b, "  - tool: %s/%s\n    on_error: continue\n    input: {path: %q, mode: %q", f.server(), tool, path, s.mode)
		if !s.lacks {
			fmt.Fprintf(&b, ", line: %s", line(i))
		}
		b.WriteString("}\n")
		if s.expect {
			b.WriteString("    expect: [{path: message, exists: true}]\n")
		}
	}
	return b.String()
}

// supplied is the input that a person gives to a step that lacks it.
const supplied = "supplied"

// line is the line that the i-th step writes.
func line(i int) string { return fmt.Sprintf("step-%d", i+1) }

// unasked is the agent whose steps run without confirmation.
const unasked = "unasked"

func (f flow) request(tool, path, requestID string) *executorv1.CreateTaskRequest {
	req := &executorv1.CreateTaskRequest{Playbook: f.playbook(tool, path), Model: "playbook", RequestId: requestID, McpIds: []string{f.server()}}
	if !f.asks {
		req.AgentId = unasked
	}
	return req
}
