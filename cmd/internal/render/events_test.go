package render_test

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/cmd/internal/fake"
	"pawl.dev/cmd/internal/golden"
	"pawl.dev/cmd/internal/render"
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
		fake.ToolsLoaded("github", "it is not activated; pawl mcp activate github"),
		fake.FlowStart("Find TODOs", commonv1.RiskLevel_RISK_LEVEL_LOW),
		fake.StepInit("s1", search),
		fake.StepInput("s1", search, `{"query": "TODO", "path": "."}`, 1),
		fake.Progress("s1", search, 1, 3, "a.go"),
		fake.Progress("s1", search, 2.5, 3, ""),
		fake.StepOutput("s1", search),
		fake.StepInit("s2", "FINAL"),
		fake.Text("a1", "Two files mention "), fake.Text("a1", "TODO:\n- a.go\n- b.go"),
		fake.Success("Two files mention TODO:\n- a.go\n- b.go"),
	},
	"failure": { // A13, A17, A19
		fake.FlowStart("Write it", commonv1.RiskLevel_RISK_LEVEL_MEDIUM),
		fake.StepInit("s1", write),
		fake.StepInput("s1", write, `{"path":"a.txt"}`, 1),
		fake.StepError("s1", write, "no such folder\ncheck the path", commonv1.Outcome_OUTCOME_KNOWN),
		fake.StepInput("s1", write, `{"path":"b.txt"}`, 2),
		fake.StepError("s1", write, "connection closed", commonv1.Outcome_OUTCOME_UNKNOWN),
		fake.Failed("3 steps failed; the last one: connection closed"),
	},
	"refused": { // A8, A9
		fake.FlowStart("Write it", commonv1.RiskLevel_RISK_LEVEL_HIGH),
		fake.StepInit("s1", write),
		fake.AskApproval("s1", write, `{"path":"a.txt","content":"x"}`, &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_HIGH, Reason: "overwrites a file"}),
		fake.Stop("s1"),
		fake.StepCancel("s1", write, "not today"),
		fake.Cancelled("not today"),
	},
	"input": { // A5: a tool's server asks, twice, and the time that a person takes is not the step's
		fake.StepInit("s1", write),
		fake.StepInput("s1", write, `{}`, 1),
		fake.AskInput("s1", write, "a", "which \x1b[31mcity?", ""),
		fake.AskInput("s1", write, "b", "sign in", "https://example.com/sign-in"),
		fake.Stop("a", "b"),
		fake.Status("declined"),
		fake.GoesOn("s1", write, "answered"),
		fake.StepOutput("s1", write),
	},
	"params": { // A16
		fake.StepInit("s1", write),
		fake.StepInput("s1", write, `{}`, 1),
		fake.StepError("s1", write, "path is missing", commonv1.Outcome_OUTCOME_NOT_EXECUTED),
		fake.AskParams("s1", write, "which file?", `{}`),
		fake.Stop("s1"),
	},
	"unknown": { // an outcome that nobody knows, and a pause
		fake.FlowStart("Write it", commonv1.RiskLevel_RISK_LEVEL_MEDIUM),
		fake.StepInit("s1", write),
		fake.StepInput("s1", write, `{"path":"a.txt"}`, 1),
		fake.Status("pause requested: lunch"),
		fake.AskOutcome("s1", write, `{"path":"a.txt"}`, "the connection closed\x1b[2J"),
		fake.Stop("s1", "pause"),
		skipped("s1", write, "it is there; it is not known whether the tool ran: the connection closed"),
		fake.Status("paused"),
		fake.Stop("pause"),
		fake.Status("unpaused"),
		fake.Success("Done."),
	},
	"interrupted answer": { // a crash in the middle of an answer starts a new answer_id
		fake.StepInit("s1", "FINAL"),
		fake.Text("a1", "Half of"),
		fake.Text("a2", "The whole."),
		fake.Success("The whole."),
	},
	"hostile": { // what tools and models say must not reach the terminal as commands
		fake.FlowStart("\x1b]0;owned\x07name", commonv1.RiskLevel_RISK_LEVEL_LOW),
		fake.StepInit("s1", "evil/\x1b[2J"),
		fake.StepInput("s1", "evil/\x1b[2J", "{\"a\":\"\u202egnp.exe \u009b31m\"}", 1),
		fake.StepError("s1", "evil/\x1b[2J", "\x1b[31mred\x1b[0m\r\nnext\rover", commonv1.Outcome_OUTCOME_KNOWN),
		fake.Text("a1", "plain \x1b[31mred\x1b]8;;http://x\x07link\u200b\ttab"),
		fake.Success(""),
	},
	"only the end": {fake.Success("The whole answer.\n")},
}

// skipped ends a step whose outcome stays unknown, as a person said.
func skipped(id, tool, message string) *executorv1.ExecutorEvent {
	ev := fake.StepError(id, tool, message, commonv1.Outcome_OUTCOME_UNKNOWN)
	ev.GetStepError().Error.Reason = commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN
	return ev
}

func TestEventsOnATerminal(t *testing.T) {
	for name, events := range stories {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			show(render.NewEvents(render.EventsConfig{
				Log: &out, Out: &out, Live: true, Clean: true, Style: render.Style{Color: true},
				Columns: func() int { return 60 }, Alias: alias,
			}), events)
			golden.Check(t, "tty "+name, out.String())
		})
	}
}

func TestEventsWithoutATerminal(t *testing.T) {
	for name, events := range stories {
		t.Run(name, func(t *testing.T) {
			var log, out bytes.Buffer
			show(render.NewEvents(render.EventsConfig{Log: &log, Out: &out, Alias: alias}), events)
			golden.Check(t, "plain "+name, "-- log\n"+log.String()+"-- out\n"+out.String())
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
func show(view *render.Events, events []*executorv1.ExecutorEvent) {
	for i, ev := range events {
		ev.TaskId, ev.Seq = fake.ID(1), uint64(i+1)
		ev.Time = timestamppb.New(fake.Epoch.Add(time.Duration(i) * fake.Beat))
		view.Event(ev)
	}
	view.Suspend()
}

// A step that takes long is shown once where lines cannot be written over, and goes on counting where they can.
func TestTick(t *testing.T) {
	for _, live := range []bool{true, false} {
		var out bytes.Buffer
		view := render.NewEvents(render.EventsConfig{Log: &out, Out: &out, Live: live, Columns: func() int { return 60 }})
		events := stories["success"][1:4]
		show(view, events)
		for n := range 5 {
			view.Tick(fake.Epoch.Add(time.Duration(n) * 1200 * time.Millisecond))
		}
		name := map[bool]string{true: "tick tty", false: "tick plain"}[live]
		golden.Check(t, name, out.String())
	}
}

func TestWatchFromTheMiddle(t *testing.T) {
	var out bytes.Buffer
	view := render.NewEvents(render.EventsConfig{Log: &out, Out: &out})
	for i, ev := range stories["success"] {
		ev.TaskId, ev.Seq, ev.Time = fake.ID(1), uint64(i+1), timestamppb.New(fake.Epoch)
		if i > 4 {
			view.Event(ev)
		}
	}
	golden.Check(t, "from the middle", out.String())
}
