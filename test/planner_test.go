package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/serve"

	"pawl.dev/planner-svc/planner"
	"pawl.dev/test/modelserver/modeltest"
)

// planners runs a test with a planner alone and a scripted model, once for each provider's protocol. The model is as strict as the provider.
func planners(t *testing.T, play func(r *modeltest.Request) *modeltest.Turn, window int, test func(t *testing.T, c plannerv1.PlannerServiceClient, model *modeltest.Server)) {
	for _, provider := range []string{"openai", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			model := modeltest.New(&modeltest.Script{Play: play, Window: window}, nil)
			server := httptest.NewServer(model)
			t.Cleanup(server.Close)
			base := server.URL
			if provider == "openai" {
				base += "/v1"
			}
			file := filepath.Join(t.TempDir(), "models.yaml")
			text := fmt.Sprintf("models:\n- {name: m, provider: %s, model: m, baseUrl: %q, headers: {Authorization: Bearer k, X-Api-Key: k}, contextWindow: %d, maxTokens: 1000, retries: 0}\n", provider, base, max(window, 8000))
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := planner.New(t.Context(), planner.Config{Models: file, DefaultModel: "m"}, planner.Deps{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			test(t, plannerv1.NewPlannerServiceClient(grpctest.Serve(t, s.Register, serve.Options{MaxRecvBytes: planner.MaxRequestBytes})), model)
			for i, r := range model.Requests() {
				if r.Problem != "" {
					t.Errorf("request %d breaks the provider's rules: %s\n%s", i, r.Problem, r.Body)
				}
			}
		})
	}
}

func planned(goal string, tools int) *plannerv1.TaskContext {
	tc := &plannerv1.TaskContext{TaskId: "t", Goal: goal, Tools: []*commonv1.Tool{{Id: "fs/read", McpId: "fs", Name: "read", Description: "Reads a file.\n" + strings.Repeat("More. ", 300),
		Effect: commonv1.Effect_EFFECT_READ, InputSchemaJson: `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`}}}
	for i := range tools {
		tc.Tools = append(tc.Tools, &commonv1.Tool{Id: fmt.Sprintf("多.x/工具 %d", i), McpId: "多.x", Name: fmt.Sprintf("工具 %d", i), InputSchemaJson: `{"type":"object","anyOf":[{"required":["a"]}],"properties":{"a":{}}}`})
	}
	return tc
}

// carryOut plans and pretends to run steps until FINAL, and returns the answer and how many model calls all took.
func carryOut(t *testing.T, c plannerv1.PlannerServiceClient, tc *plannerv1.TaskContext, output string) (answer *plannerv1.PlanStepsResponse, calls uint32) {
	t.Helper()
	for {
		res, err := c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc, Begin: len(tc.GetHistory()) == 0})
		if err != nil {
			t.Fatal(err)
		}
		calls += res.GetUsage().GetModelCalls()
		for _, st := range res.GetSteps() {
			if st.GetToolId() == "FINAL" {
				return res, calls
			}
			text, err := json.Marshal(map[string]string{"message": output})
			if err != nil {
				t.Fatal(err)
			}
			tc.History = append(tc.History, &plannerv1.HistoryEntry{StepId: fmt.Sprintf("step-%d", len(tc.GetHistory())+1), ToolId: st.GetToolId(), Description: st.GetDescription(),
				InputJson: st.GetInputJson(), Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, OutputJson: string(text)})
		}
		if res.GetMemory() != nil {
			tc.Memory = res.GetMemory()
		}
	}
}

// reads calls the tool read n times and then answers.
func reads(n int) func(r *modeltest.Request) *modeltest.Turn {
	return func(r *modeltest.Request) *modeltest.Turn {
		if r.Results >= n {
			return &modeltest.Turn{Text: "I have read it all."}
		}
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "fs__read", Arguments: json.RawMessage(fmt.Sprintf(`{"pawl_why":"Look","pawl_risk":"LOW","path":"%d"}`, r.Results))}}}
	}
}

// Ten steps take eleven model calls, the answer included, and nearly all of each prompt is a repetition of the one before.
func TestTenStepsTakeElevenModelCalls(t *testing.T) {
	planners(t, reads(10), 0, func(t *testing.T, c plannerv1.PlannerServiceClient, model *modeltest.Server) {
		res, calls := carryOut(t, c, planned("Read ten files", 3), "some text of a file")
		if calls != 11 || res.GetAnswer() != "I have read it all." || res.GetGoalResult() != plannerv1.GoalResult_GOAL_RESULT_FULFILLED {
			t.Errorf("%d calls: %v", calls, res)
		}
		requests := model.Requests()
		for i := 1; i < len(requests); i++ {
			if before, r := requests[i-1], requests[i]; r.Prefix < before.Tokens*95/100 || r.Prefix*100 < r.Tokens*90 {
				t.Errorf("prompt %d: %d of %d tokens are those of an earlier one, which had %d", i, r.Prefix, r.Tokens, before.Tokens)
			}
		}
	})
}

// Beyond the window steps are summarized; with 500 tools the relevant ones are sent.
func TestLongTasksAndManyTools(t *testing.T) {
	play := func(r *modeltest.Request) *modeltest.Turn {
		if len(r.Tools) == 0 {
			return &modeltest.Turn{Text: "Files were read."}
		}
		if strings.Contains(r.Texts[len(r.Texts)-1], "file 24") {
			return &modeltest.Turn{Text: "Done."}
		}
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "fs__read", Arguments: json.RawMessage(`{"path":"x"}`)}}}
	}
	planners(t, play, 12_000, func(t *testing.T, c plannerv1.PlannerServiceClient, model *modeltest.Server) {
		tc := planned("Read files", 500)
		var summaries, calls int
		for n := 1; ; n++ {
			res, err := c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc})
			if err != nil {
				t.Fatal(err)
			}
			calls += int(res.GetUsage().GetModelCalls())
			if res.GetMemory() != nil {
				tc.Memory = res.GetMemory()
				summaries++
			}
			if res.Answer != nil {
				break
			}
			tc.History = append(tc.History, &plannerv1.HistoryEntry{StepId: fmt.Sprintf("step-%d", n), ToolId: "fs/read", InputJson: `{"path":"x"}`, Result: plannerv1.StepResult_STEP_RESULT_SUCCESS,
				OutputJson: fmt.Sprintf(`{"message":"file %d %s"}`, n, strings.Repeat("text ", 2000))})
		}
		if summaries == 0 || calls > 25+2*summaries || summaries > 6 {
			t.Errorf("%d summaries, %d calls", summaries, calls)
		}
		for i, r := range model.Requests() {
			if len(r.Tools) > 40 || r.Tokens > 11_000 {
				t.Errorf("request %d has %d tools and %d tokens", i, len(r.Tools), r.Tokens)
			}
		}
	})
}

// Wrong calls are corrected in the form that the providers demand.
func TestCorrectionsKeepToTheProvidersRules(t *testing.T) {
	wrong := []*modeltest.Turn{
		{Calls: []modeltest.Call{{Name: "fs__read", Raw: `{"path":`}, {Name: "fs__read", Arguments: json.RawMessage(`{"path":"b"}`)}}},
		{Text: "Let me see.", Calls: []modeltest.Call{{Name: "fs__read", Arguments: json.RawMessage(`{"path":"${step-9.message}"}`)}}},
		{Calls: []modeltest.Call{{Name: "fs__read", Arguments: json.RawMessage(`{"path":"a"}`)}, {Name: "fs__read", Arguments: json.RawMessage(`{"path":"${step-1.message}"}`)}}},
	}
	turn := 0
	planners(t, func(*modeltest.Request) *modeltest.Turn {
		turn++
		return wrong[(turn-1)%len(wrong)]
	}, 0, func(t *testing.T, c plannerv1.PlannerServiceClient, _ *modeltest.Server) {
		res, err := c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: planned("Read", 0), Begin: true})
		if err != nil || len(res.GetSteps()) != 2 || !res.GetSteps()[1].GetUnresolved() || res.GetUsage().GetModelCalls() != 3 {
			t.Errorf("%v %v", res, err)
		}
	})
}

// The requests of the other planner methods keep to the providers' rules too.
func TestQuestionsKeepToTheProvidersRules(t *testing.T) {
	answers := map[string]string{"input_params": `{"input":{"path":"a"}}`, "create_plan": `{"main_task":"m","risk":"LOW","subtasks":[{"id":"a","title":"t","description":"d","acceptance":"a","depends_on":[],"tool_ids":[]}]}`,
		"reflect": `{"done":true,"summary":"s","next":""}`, "decide": `{"decision":"REPLY","reason":"r"}`, "respond": `{"decision":"complete","text":"t"}`, "missing_params": `{"properties":["path"]}`, "output": `{"n":1}`}
	planners(t, func(r *modeltest.Request) *modeltest.Turn {
		if text, ok := answers[r.Format]; ok {
			return &modeltest.Turn{Text: text}
		}
		return &modeltest.Turn{Text: "It is so."}
	}, 0, func(t *testing.T, c plannerv1.PlannerServiceClient, _ *modeltest.Server) {
		ctx, tc := t.Context(), planned("Read", 2)
		tc.History = []*plannerv1.HistoryEntry{{StepId: "step-1", ToolId: "fs/read", InputJson: `{"path":"x"}`, Result: plannerv1.StepResult_STEP_RESULT_ERROR, Error: "gone"}}
		tc.AgentName, tc.Speaker, tc.Messages = "helper", "ada", []*plannerv1.ChatMessage{{Sender: "ada", Text: "Hello"}, {Sender: "helper", FromSelf: true, Text: "Hello"}}
		for name, ask := range map[string]func() error{
			"input": func() error {
				_, err := c.GetFirstInputParams(ctx, &plannerv1.GetFirstInputParamsRequest{Context: tc, ToolId: "fs/read"})
				return err
			},
			"missing": func() error {
				_, err := c.GetMissingParams(ctx, &plannerv1.GetMissingParamsRequest{Context: tc, ToolId: "fs/read", Error: "x"})
				return err
			},
			"plan":    func() error { _, err := c.CreatePlan(ctx, &plannerv1.CreatePlanRequest{Context: tc}); return err },
			"reflect": func() error { _, err := c.Reflect(ctx, &plannerv1.ReflectRequest{Context: tc}); return err },
			"decide":  func() error { _, err := c.Decide(ctx, &plannerv1.DecideRequest{Context: tc}); return err },
			"respond": func() error { _, err := c.Respond(ctx, &plannerv1.RespondRequest{Context: tc}); return err },
			"fit": func() error {
				_, err := c.SummarizeMemory(ctx, &plannerv1.SummarizeMemoryRequest{Context: tc, ContextShare: 1e-9})
				return err
			},
			"select": func() error { _, err := c.SelectTools(ctx, &plannerv1.SelectToolsRequest{Context: tc}); return err },
			"memory": func() error {
				_, err := c.SummarizeMemory(ctx, &plannerv1.SummarizeMemoryRequest{Context: tc})
				return err
			},
			"answer": func() error {
				stream, err := c.GenerateAnswer(ctx, &plannerv1.GenerateAnswerRequest{Context: tc, CutShort: "a limit"})
				for err == nil {
					_, err = stream.Recv()
				}
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			},
			"generate": func() error {
				stream, err := c.Generate(ctx, &plannerv1.GenerateRequest{OutputSchemaJson: `{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}`,
					Messages: []*plannerv1.ModelMessage{{Role: plannerv1.ModelRole_MODEL_ROLE_USER, Parts: []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_Text{Text: "n?"}}}}}})
				for err == nil {
					_, err = stream.Recv()
				}
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			},
		} {
			if err := ask(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// D3, D4: a subtask takes one model call for each turn, its last 5 to 9 calls are shown in full, and most of each prompt repeats the one before.
func TestASubtaskTakesOneModelCallForEachTurn(t *testing.T) {
	const turns = 14
	made := map[string]int{}
	reflection := func(done bool) modeltest.Call {
		return modeltest.Call{Name: "reflect", Arguments: json.RawMessage(fmt.Sprintf(`{"done":%v,"summary":"so far","next":"go on"}`, done))}
	}
	planners(t, func(r *modeltest.Request) *modeltest.Turn {
		n := made[t.Name()]
		made[t.Name()]++
		read := modeltest.Call{Name: "fs__read", Arguments: json.RawMessage(fmt.Sprintf(`{"pawl_why":"Look","path":"%d"}`, n))}
		switch {
		case n == 0: // is corrected
			return &modeltest.Turn{Text: "I look.", Calls: []modeltest.Call{read, reflection(true), {Name: "fs__read", Raw: `{"path":`}}}
		case n < turns:
			return &modeltest.Turn{Text: "I look.", Calls: []modeltest.Call{reflection(false), read}}
		}
		made[t.Name()] = 0
		return &modeltest.Turn{Text: "All is read.", Calls: []modeltest.Call{reflection(true)}}
	}, 0, func(t *testing.T, c plannerv1.PlannerServiceClient, model *modeltest.Server) {
		req := &plannerv1.ThinkRequest{Context: planned("Read files", 3), Current: &plannerv1.Subtask{Id: "a", Title: "Read", Description: "Read them all", Acceptance: "All are read"},
			Others: []*plannerv1.SubtaskState{{Id: "b", Title: "Write", Status: "BLOCKED"}}, Inputs: []string{"Be quick."}}
		calls, res := uint32(0), &plannerv1.ThinkResult{}
		for !res.GetReflection().GetDone() {
			stream, err := c.Think(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for res = nil; res == nil; {
				piece, err := stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				text += piece.GetText()
				res = piece.GetResult()
			}
			if calls += res.GetUsage().GetModelCalls(); text != res.GetThought() || !strings.HasPrefix(text, "I look.") && text != "All is read." || res.GetReflection() == nil {
				t.Fatalf("%q %v", text, res)
			}
			for _, st := range res.GetSteps() {
				req.Context.History = append(req.Context.History, &plannerv1.HistoryEntry{StepId: fmt.Sprintf("step-%d", len(req.Context.GetHistory())+1), ToolId: st.GetToolId(),
					Description: st.GetDescription(), InputJson: st.GetInputJson(), Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, OutputJson: `{"message":"` + strings.Repeat("text ", 100) + `"}`})
			}
		}
		if calls != turns+1 || len(req.Context.GetHistory()) != turns-1 {
			t.Errorf("%d model calls and %d steps in %d turns", calls, len(req.Context.GetHistory()), turns)
		}
		requests := model.Requests()
		for i := 3; i < len(requests); i++ {
			before, r := requests[i-1], requests[i]
			if r.Results < before.Results { // older calls became lines
				continue
			}
			if r.Results != before.Results+1 || r.Results > 9 || r.Prefix < before.Tokens*90/100 {
				t.Errorf("prompt %d has %d results, and %d tokens of those of an earlier one, which had %d", i, r.Results, r.Prefix, before.Tokens)
			}
		}
	})
}

// Generate passes tools and their results on.
func TestGenerateWithTools(t *testing.T) {
	planners(t, func(r *modeltest.Request) *modeltest.Turn {
		if r.Results > 0 {
			return &modeltest.Turn{Text: "It is sunny."}
		}
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "weather", Arguments: json.RawMessage(`{"city":"Paris"}`)}}}
	}, 0, func(t *testing.T, c plannerv1.PlannerServiceClient, _ *modeltest.Server) {
		req := &plannerv1.GenerateRequest{Tools: []*plannerv1.ModelTool{{Name: "weather", Description: "Tells the weather.", InputSchemaJson: `{"type":"object","properties":{"city":{"type":"string"}}}`}},
			Messages: []*plannerv1.ModelMessage{{Role: plannerv1.ModelRole_MODEL_ROLE_USER, Parts: []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_Text{Text: "Weather in Paris?"}}}}}}
		stream, err := c.Generate(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		first, err := stream.Recv()
		call := first.GetToolCall()
		if err != nil || call.GetName() != "weather" || call.GetInputJson() != `{"city":"Paris"}` {
			t.Fatalf("%v %v", first, err)
		}
		if end, err := stream.Recv(); err != nil || end.GetEnd().GetStopReason() != plannerv1.StopReason_STOP_REASON_TOOL_CALLS || end.GetEnd().GetUsage().GetModelCalls() != 1 {
			t.Errorf("%v %v", end, err)
		}
		req.Messages = append(req.Messages,
			&plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_ASSISTANT, Parts: []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_ToolCall{ToolCall: call}}}},
			&plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_USER, Parts: []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_ToolResult{ToolResult: &plannerv1.ModelToolResult{CallId: call.GetId(), Text: "sun"}}}}})
		if stream, err = c.Generate(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for piece, err := stream.Recv(); err == nil; piece, err = stream.Recv() {
			text.WriteString(piece.GetText())
		}
		if text.String() != "It is sunny." {
			t.Errorf("%q", text.String())
		}
	})
}

// The answer is streamed as it is written, and cancelling the call closes the connection to the provider.
func TestCancelInTheMiddleOfAnAnswer(t *testing.T) {
	planners(t, func(*modeltest.Request) *modeltest.Turn {
		return &modeltest.Turn{Text: strings.Repeat("A long answer. ", 200), Pause: modeltest.Seconds(50 * time.Millisecond)}
	}, 0, func(t *testing.T, c plannerv1.PlannerServiceClient, model *modeltest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := c.StreamPlanSteps(ctx, &plannerv1.StreamPlanStepsRequest{Context: planned("Tell me", 0), Begin: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if piece, err := stream.Recv(); err != nil || piece.GetAnswerText() == "" {
				t.Fatalf("%v %v", piece, err)
			}
		}
		cancel()
		for err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Canceled {
			t.Error(err)
		}
		limit, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if err := model.Wait(limit, func(all []modeltest.Request) bool { return len(all) == 1 && all[0].Left }); err != nil {
			t.Errorf("the provider's connection stays open: %v", err)
		}
	})
}
