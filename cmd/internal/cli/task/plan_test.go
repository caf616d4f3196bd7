package task_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"pawl.dev/cmd/internal/cli/task"
	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	code      = "workspace-app-12ab34-code-56cd78/"
	started   = executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS
	completed = executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED
	failed    = executorv1.SubtaskStatus_SUBTASK_STATUS_FAILED
	cancelled = executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED
)

// ran ends a step with an output.
func ran(subtask, id, tool, output string) *executorv1.ExecutorEvent {
	ev := clitest.Of(subtask, clitest.StepOutput(id, tool))
	ev.GetStepOutput().OutputJson = output
	return ev
}

// planStories are streams of events of tasks with plans.
func planStories() map[string][]*executorv1.ExecutorEvent {
	recovered := clitest.Of("parser", clitest.StepError("s2", code+"apply_patch", "hunk 1 does not match", commonv1.Outcome_OUTCOME_KNOWN))
	recovered.GetStepError().ErrorClass = executorv1.ErrorClass_ERROR_CLASS_RECOVERABLE
	recovered.GetStepError().Recovery = executorv1.Recovery_RECOVERY_CORRECT_INPUT
	paid := clitest.Success("The tests pass.")
	paid.Usage = &commonv1.Usage{InputTokens: 1200, OutputTokens: 34, CostNanoUsd: new(uint64(12_340_000))}
	stories := map[string][]*executorv1.ExecutorEvent{
		"lanes": { // D1, D3, D6, D7, D10, D11: two subtasks at once, and one that depends on both
			clitest.FlowStart("Make the tests pass", commonv1.RiskLevel_RISK_LEVEL_MEDIUM),
			clitest.PlanCreated("Make the tests pass", clitest.Subtask("parser", "Fix the parser"), clitest.Subtask("printer", "Fix the printer"),
				clitest.Subtask("tests", "Run all tests", "parser", "printer")),
			clitest.SubtaskChanged("parser", started, ""), clitest.SubtaskChanged("printer", started, ""),
			clitest.Thought("parser", "t1", "The parser drops the last token.\n"), clitest.Thought("printer", "t2", "Half a thou"),
			clitest.Thought("parser", "t1", "I read it first."), clitest.Thought("printer", "t3", "The printer looks right."),
			clitest.Of("parser", clitest.StepInit("s1", code+"read_file")),
			clitest.Of("parser", clitest.StepInput("s1", code+"read_file", `{"path":"parser.go"}`, 1)),
			clitest.Of("printer", clitest.StepInit("s3", code+"run_tests")),
			clitest.Of("printer", clitest.StepInput("s3", code+"run_tests", `{"path":"printer"}`, 1)),
			clitest.Of("parser", clitest.StepOutput("s1", code+"read_file")),
			ran("printer", "s3", code+"run_tests", `{"structured":{"runner":"go","passed":12,"failed":1,"skipped":2,"failures":[{"name":"TestX"}]}}`),
			clitest.Of("parser", clitest.StepInit("s2", code+"apply_patch")),
			clitest.Of("parser", clitest.StepInput("s2", code+"apply_patch", `{"patch":"--- a/parser.go"}`, 1)),
			recovered,
			clitest.Of("parser", clitest.StepInput("s2", code+"apply_patch", `{"patch":"--- a/parser.go\n"}`, 2)),
			clitest.Of("parser", clitest.StepOutput("s2", code+"apply_patch")),
			clitest.FileChanged("parser", &executorv1.FileChange{Path: "parser.go", Type: executorv1.FileChangeType_FILE_CHANGE_TYPE_MODIFIED, Sha256: "b"}),
			clitest.FileChanged("parser", &executorv1.FileChange{Path: "lexer.go", Type: executorv1.FileChangeType_FILE_CHANGE_TYPE_CREATED, FromPath: "lex.go", Sha256: "c"}),
			clitest.FileChanged("parser", &executorv1.FileChange{Path: "lex.go", Type: executorv1.FileChangeType_FILE_CHANGE_TYPE_DELETED, BackupPath: "x"}),
			clitest.Reflection("printer", "one test fails", "look at TestX"),
			clitest.Reflection("parser", "it parses all tokens", ""),
			clitest.SubtaskChanged("parser", completed, "it parses all tokens"),
			clitest.PlanChanged("TestX needs data", []string{"data", "tests"}, clitest.Subtask("data", "Add test data")),
			clitest.SubtaskChanged("printer", completed, "nothing to do"),
			clitest.SubtaskChanged("data", started, ""), clitest.SubtaskChanged("data", completed, ""),
			clitest.SubtaskChanged("tests", executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING, ""), clitest.SubtaskChanged("tests", started, ""),
			clitest.Of("tests", clitest.StepInit("s5", code+"execute_command")),
			clitest.Of("tests", clitest.StepInput("s5", code+"execute_command", `{"argv":["go","vet"]}`, 1)),
			ran("tests", "s5", code+"execute_command", `{"structured":{"exit_code":1}}`),
			clitest.SubtaskChanged("tests", completed, "all pass"),
			clitest.Text("a1", "The tests pass."), paid,
		},
		"failed lane": { // D1, D7: what depends on a failed subtask is cancelled
			clitest.PlanCreated("Ship it", clitest.Subtask("build", "Build it"), clitest.Subtask("ship", "Ship it", "build")),
			clitest.SubtaskChanged("build", started, ""),
			clitest.SubtaskChanged("build", failed, "the loop limit of 30 is reached"),
			clitest.SubtaskChanged("ship", cancelled, "build failed"),
			clitest.Failed("1 of 2 subtasks failed"),
		},
		"zh": {
			clitest.PlanCreated("让测试通过", clitest.Subtask("解析", "修复解析器中丢失最后一个标记的错误并补充相应的单元测试用例"), clitest.Subtask("测试", "运行全部测试", "解析")),
			clitest.SubtaskChanged("解析", started, ""),
			clitest.Thought("解析", "t1", "解析器丢失了最后一个标记，因为循环在到达文件末尾之前就已经结束了，所以我先阅读源代码。"),
			clitest.Reflection("解析", "已找到原因", "修改循环条件，然后运行测试并确认没有其他问题出现在别的文件中"),
			clitest.SubtaskChanged("解析", completed, "解析器已修复"),
			clitest.Success("完成。"),
		},
		"hostile plan": {
			clitest.PlanCreated("x", clitest.Subtask("\x1b[2J", "\x1b]0;owned\x07title\nsecond line")),
			clitest.SubtaskChanged("\x1b[2J", started, ""), clitest.Thought("\x1b[2J", "t", "\x1b[31mred"),
			clitest.FileChanged("\x1b[2J", &executorv1.FileChange{Path: "\u202egnp.exe", Sha256: "d"}),
			clitest.SubtaskChanged("\x1b[2J", failed, "\x1b[31mred"), clitest.Failed("no"),
		},
		"branches": { // a playbook's branches are labelled, and make no plan
			clitest.Of("p2.1", clitest.StepInit("s1", write)), clitest.Of("p2.1", clitest.StepInput("s1", write, `{}`, 1)),
			clitest.Of("p2.1", clitest.StepOutput("s1", write)), clitest.Success("Done."),
		},
	}
	var many []*executorv1.Subtask
	for i := range 40 {
		many = append(many, clitest.Subtask(fmt.Sprint("t", i+1), "Subtask number "+fmt.Sprint(i+1)))
	}
	stories["many"] = []*executorv1.ExecutorEvent{
		clitest.PlanCreated("Much", many...), clitest.SubtaskChanged("t1", started, ""), clitest.SubtaskChanged("t1", completed, ""),
		clitest.SubtaskChanged("t2", started, ""), clitest.SubtaskChanged("t30", started, ""),
	}
	return stories
}

func TestPlans(t *testing.T) {
	for name, events := range planStories() {
		t.Run(name, func(t *testing.T) {
			var out, log, plain bytes.Buffer
			show(task.NewEvents(task.EventsConfig{
				Log: &out, Out: &out, Live: true, SeparateAnswer: true, Style: ui.Style{Color: true},
				Columns: func() int { return 60 }, Rows: func() int { return 12 },
			}), events)
			clitest.Check(t, "plan tty "+name, out.String())
			show(task.NewEvents(task.EventsConfig{Log: &log, Out: &plain}), events)
			clitest.Check(t, "plan plain "+name, "-- log\n"+log.String()+"-- out\n"+plain.String())
		})
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// Whatever the plan and the terminal, no line of the display is as wide as the terminal, and the display is at most half as high.
func TestPlanFitsTheTerminal(t *testing.T) {
	texts := rapid.StringOfN(rapid.RuneFrom([]rune("ab 界é\u0301\t\n\x1b🙂")), 0, 60, -1)
	statuses := []executorv1.SubtaskStatus{executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING, executorv1.SubtaskStatus_SUBTASK_STATUS_BLOCKED, started, completed, failed, cancelled}
	rapid.Check(t, func(t *rapid.T) {
		columns, rows := rapid.IntRange(2, 90).Draw(t, "columns"), rapid.IntRange(0, 40).Draw(t, "rows")
		var out bytes.Buffer
		view := task.NewEvents(task.EventsConfig{
			Log: &out, Out: &out, Live: true, Style: ui.Style{Color: true}, Columns: func() int { return columns }, Rows: func() int { return rows },
		})
		var plan []*executorv1.Subtask
		for i := range rapid.IntRange(1, 60).Draw(t, "subtasks") {
			s := clitest.Subtask(fmt.Sprint(i, texts.Draw(t, "id")), texts.Draw(t, "title"))
			s.Status, s.Summary, s.DependsOn = rapid.SampledFrom(statuses).Draw(t, "status"), texts.Draw(t, "summary"), []string{texts.Draw(t, "dependency")}
			plan = append(plan, s)
		}
		ev := clitest.PlanCreated("x", plan...)
		ev.Seq, ev.Time = 1, timestamppb.New(clitest.Epoch)
		view.Event(ev)
		lines := strings.Split(escapes.ReplaceAllString(out.String(), ""), "\n")
		for _, line := range lines {
			if w := ui.Width(strings.TrimPrefix(line, "\r")); w >= columns {
				t.Fatalf("a line of %d columns in a terminal of %d: %q", w, columns, line)
			}
		}
		if len(lines) > max(rows/2, 4) {
			t.Fatalf("%d lines in a terminal of %d", len(lines), rows)
		}
	})
}
