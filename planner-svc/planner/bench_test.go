package planner_test

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

// tenSteps is a task of a playbook of ten steps, with that many tools and that many steps done.
func tenSteps(tools, done int) *plannerv1.TaskContext {
	var book strings.Builder
	book.WriteString("name: Ten steps\nsteps:\n- {tool: echo/echo, input: {text: \"${goal}\", n: 1}}\n")
	for i := 2; i <= 10; i++ {
		fmt.Fprintf(&book, "- {tool: echo/echo, input: {text: \"after ${step%d.message}\", n: %d}}\n", i-1, i)
	}
	book.WriteString("answer: \"The last step said: ${step10.message}\"\n")
	tc := &plannerv1.TaskContext{TaskId: "t", Goal: "Say it ten times", Playbook: book.String()}
	for i := range tools {
		name := "echo"
		if i > 0 {
			name = fmt.Sprintf("echo_%d", i)
		}
		tc.Tools = append(tc.Tools, &commonv1.Tool{Id: "echo/" + name, McpId: "echo", Name: name, Title: "Echo", Effect: commonv1.Effect_EFFECT_READ,
			Description: strings.Repeat("Says what it is told. ", 10),
			InputSchemaJson: `{"type":"object","properties":{"text":{"type":"string","description":"What to say"},"n":{"type":"integer","minimum":0},` +
				`"options":{"type":"object","properties":{"loud":{"type":"boolean"},"lang":{"enum":["en","zh"]}}}},"required":["text"],"additionalProperties":false}`})
	}
	for i := range done {
		tc.History = append(tc.History, &plannerv1.HistoryEntry{StepId: fmt.Sprintf("step-%d", i+1), ToolId: "echo/echo", Description: fmt.Sprintf("Step %d of 10", i+1),
			InputJson: fmt.Sprintf(`{"text":"after x","n":%d}`, i+1), Result: plannerv1.StepResult_STEP_RESULT_SUCCESS,
			OutputJson: fmt.Sprintf(`{"message":"x%d","structured":{"said":"x%d","n":%d}}`, i, i, i), Outcome: commonv1.Outcome_OUTCOME_KNOWN})
	}
	return tc
}

// inside is a client over direct calls, with all interceptors.
func inside(tb testing.TB) plannerv1.PlannerServiceClient {
	tb.Helper()
	unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local(), Local: true, MaxRecvBytes: 64 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	conn := inproc.New(unary, stream)
	service(tb).Register(conn)
	return plannerv1.NewPlannerServiceClient(conn)
}

func BenchmarkPlanSteps(b *testing.B) {
	c := inside(b)
	for _, tools := range []int{1, 50} {
		for _, done := range []int{0, 9} {
			b.Run(fmt.Sprintf("tools=%d/done=%d", tools, done), func(b *testing.B) {
				req := &plannerv1.PlanStepsRequest{Context: tenSteps(tools, done)}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.PlanSteps(b.Context(), req); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkGenerateAnswer(b *testing.B) {
	c := inside(b)
	for _, tools := range []int{1, 50} {
		b.Run(fmt.Sprintf("tools=%d", tools), func(b *testing.B) {
			tc := tenSteps(tools, 10)
			b.ReportAllocs()
			for b.Loop() {
				readAnswer(b, c, tc)
			}
		})
	}
}

// BenchmarkTask is all that a task of ten steps asks, as long as everything succeeds.
func BenchmarkTask(b *testing.B) {
	c := inside(b)
	for _, tools := range []int{1, 50} {
		begin, done := tenSteps(tools, 0), tenSteps(tools, 10).GetHistory()
		b.Run(fmt.Sprintf("tools=%d", tools), func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				begin.TaskId = strconv.Itoa(n)
				p, err := c.PlanSteps(b.Context(), &plannerv1.PlanStepsRequest{Context: begin, Begin: true})
				if err != nil || len(p.GetSteps()) != 11 {
					b.Fatal(p, err)
				}
				readAnswer(b, c, &plannerv1.TaskContext{Base: p.GetContextName(), History: done})
			}
		})
	}
}

func readAnswer(b *testing.B, c plannerv1.PlannerServiceClient, tc *plannerv1.TaskContext) {
	b.Helper()
	stream, err := c.GenerateAnswer(b.Context(), &plannerv1.GenerateAnswerRequest{Context: tc})
	if err != nil {
		b.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		b.Fatal(err)
	}
}

// BenchmarkListModels is what a call costs that does nothing.
func BenchmarkListModels(b *testing.B) {
	c := inside(b)
	for b.Loop() {
		if _, err := c.ListModels(b.Context(), &plannerv1.ListModelsRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}
