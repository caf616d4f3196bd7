package task_test

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/cmd/internal/cli/task"
	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	search = "workspace-app-12ab34/search_code"
	write  = "files/write_file"
)

// stories are streams of events as tasks give them.
var stories = map[string][]*executorv1.ExecutorEvent{
	"success": { // A3, A12, A22, A26
		clitest.ToolsLoaded("github", "it is not activated; pawl mcp activate github"),
		clitest.FlowStart("Find TODOs", commonv1.RiskLevel_RISK_LEVEL_LOW),
		clitest.StepInit("s1", search),
		clitest.StepInput("s1", search, `{"query": "TODO", "path": "."}`, 1),
		clitest.Progress("s1", search, 1, 3, "a.go"),
		clitest.Progress("s1", search, 2.5, 3, ""),
		clitest.StepOutput("s1", search),
		clitest.StepInit("s2", "FINAL"),
		clitest.Text("a1", "Two files mention "), clitest.Text("a1", "TODO:\n- a.go\n- b.go"),
		clitest.Success("Two files mention TODO:\n- a.go\n- b.go"),
	},
	"failure": { // A13, A17, A19
		clitest.FlowStart("Write it", commonv1.RiskLevel_RISK_LEVEL_MEDIUM),
		clitest.StepInit("s1", write),
		clitest.StepInput("s1", write, `{"path":"a.txt"}`, 1),
		clitest.StepError("s1", write, "no such folder\ncheck the path", commonv1.Outcome_OUTCOME_KNOWN),
		clitest.StepInput("s1", write, `{"path":"b.txt"}`, 2),
		clitest.StepError("s1", write, "connection closed", commonv1.Outcome_OUTCOME_UNKNOWN),
		clitest.Failed("3 steps failed; the last one: connection closed"),
	},
	"retried": { // the same call as another step goes well: nothing failed
		clitest.StepInit("s1", write),
		clitest.StepInput("s1", write, `{"path":"a.txt"}`, 1),
		clitest.StepError("s1", write, "busy", commonv1.Outcome_OUTCOME_KNOWN),
		clitest.StepInit("s2", write),
		clitest.StepInput("s2", write, `{"path":"a.txt"}`, 1),
		clitest.StepOutput("s2", write),
		clitest.Success("Written."),
	},
	"failed step": { // an error is shown once
		clitest.StepInit("s1", write),
		clitest.StepInput("s1", write, `{"path":"a.txt"}`, 1),
		clitest.StepError("s1", write, "no such folder", commonv1.Outcome_OUTCOME_KNOWN),
		clitest.Failed("step 1 (files/write_file) of the playbook failed: no such folder"),
	},
	"refused": { // A8, A9
		clitest.FlowStart("Write it", commonv1.RiskLevel_RISK_LEVEL_HIGH),
		clitest.StepInit("s1", write),
		clitest.AskApproval("s1", write, `{"path":"a.txt","content":"x"}`, &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_HIGH, Reason: "overwrites a file"}),
		clitest.Stop("s1"),
		clitest.StepCancel("s1", write, "not today"),
		clitest.Cancelled("not today"),
	},
	"input": { // A5: a tool's server asks, twice, and the time that a person takes is not the step's
		clitest.StepInit("s1", write),
		clitest.StepInput("s1", write, `{}`, 1),
		clitest.AskInput("s1", write, "a", "which \x1b[31mcity?", ""),
		clitest.AskInput("s1", write, "b", "sign in", "https://example.com/sign-in"),
		clitest.Stop("a", "b"),
		clitest.Status("declined"),
		clitest.Continue("s1", write, "answered"),
		clitest.StepOutput("s1", write),
	},
	"params": { // A16
		clitest.StepInit("s1", write),
		clitest.StepInput("s1", write, `{}`, 1),
		clitest.StepError("s1", write, "path is missing", commonv1.Outcome_OUTCOME_NOT_EXECUTED),
		clitest.AskParams("s1", write, "which file?", `{}`),
		clitest.Stop("s1"),
	},
	"unknown": { // an unknown outcome, and a pause
		clitest.FlowStart("Write it", commonv1.RiskLevel_RISK_LEVEL_MEDIUM),
		clitest.StepInit("s1", write),
		clitest.StepInput("s1", write, `{"path":"a.txt"}`, 1),
		clitest.Status("pause requested: lunch"),
		clitest.AskOutcome("s1", write, `{"path":"a.txt"}`, "the connection closed\x1b[2J"),
		clitest.Stop("s1", "pause"),
		skipped("s1", write, "it is there; it is not known whether the tool ran: the connection closed"),
		clitest.Status("paused"),
		clitest.Stop("pause"),
		clitest.Status("unpaused"),
		clitest.Success("Done."),
	},
	"interrupted answer": { // a crash in the middle of an answer starts a new answer_id
		clitest.StepInit("s1", "FINAL"),
		clitest.Text("a1", "Half of"),
		clitest.Text("a2", "The whole."),
		clitest.Success("The whole."),
	},
	"hostile": { // what tools and models say must not reach the terminal as commands
		clitest.FlowStart("\x1b]0;owned\x07name", commonv1.RiskLevel_RISK_LEVEL_LOW),
		clitest.StepInit("s1", "evil/\x1b[2J"),
		clitest.StepInput("s1", "evil/\x1b[2J", "{\"a\":\"\u202egnp.exe \u009b31m\"}", 1),
		clitest.StepError("s1", "evil/\x1b[2J", "\x1b[31mred\x1b[0m\r\nnext\rover", commonv1.Outcome_OUTCOME_KNOWN),
		clitest.Text("a1", "plain \x1b[31mred\x1b]8;;http://x\x07link\u200b\ttab"),
		clitest.Success(""),
	},
	"only the end": {clitest.Success("The whole answer.\n")},
}

// skipped ends a step whose outcome stays unknown, as a person said.
func skipped(id, tool, message string) *executorv1.ExecutorEvent {
	ev := clitest.StepError(id, tool, message, commonv1.Outcome_OUTCOME_UNKNOWN)
	ev.GetStepError().Error.Reason = commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN
	return ev
}

func TestEventsOnATerminal(t *testing.T) {
	for name, events := range stories {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			show(task.NewEvents(task.EventsConfig{
				Log: &out, Out: &out, Live: true, SeparateAnswer: true, Style: ui.Style{Color: true},
				Columns: func() int { return 60 }, Alias: alias,
			}), events)
			clitest.Check(t, "tty "+name, out.String())
		})
	}
}

func TestEventsWithoutATerminal(t *testing.T) {
	for name, events := range stories {
		t.Run(name, func(t *testing.T) {
			var log, out bytes.Buffer
			show(task.NewEvents(task.EventsConfig{Log: &log, Out: &out, Alias: alias}), events)
			clitest.Check(t, "plain "+name, "-- log\n"+log.String()+"-- out\n"+out.String())
		})
	}
}

func alias(id string) string {
	if id == search {
		return "workspace/search_code"
	}
	return id
}

// show numbers the events and plays them.
func show(view *task.Events, events []*executorv1.ExecutorEvent) {
	for i, ev := range events {
		ev.TaskId, ev.Seq = clitest.ID(1), uint64(i+1)
		ev.Time = timestamppb.New(clitest.Epoch.Add(time.Duration(i) * clitest.Beat))
		view.Event(ev)
	}
	view.Suspend()
}

// On a terminal, the time of a long step goes on counting; other outputs show the step once.
func TestTick(t *testing.T) {
	for _, live := range []bool{true, false} {
		var out bytes.Buffer
		view := task.NewEvents(task.EventsConfig{Log: &out, Out: &out, Live: live, Columns: func() int { return 60 }})
		events := stories["success"][1:4]
		show(view, events)
		for n := range 5 {
			view.Tick(clitest.Epoch.Add(time.Duration(n) * 1200 * time.Millisecond))
		}
		name := map[bool]string{true: "tick tty", false: "tick plain"}[live]
		clitest.Check(t, name, out.String())
	}
}

func TestWatchFromTheMiddle(t *testing.T) {
	var out bytes.Buffer
	view := task.NewEvents(task.EventsConfig{Log: &out, Out: &out})
	for i, ev := range stories["success"] {
		ev.TaskId, ev.Seq, ev.Time = clitest.ID(1), uint64(i+1), timestamppb.New(clitest.Epoch)
		if i > 4 {
			view.Event(ev)
		}
	}
	clitest.Check(t, "from the middle", out.String())
}
