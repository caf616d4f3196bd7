package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
)

// modelNames are the models of the file that models writes, one for each provider.
var modelNames = []string{"gpt", "claude"}

// models starts a scripted model and returns it and a file that names it for both providers. more is added to each model.
func models(t *testing.T, script *modeltest.Script, more string) (*modeltest.Server, string) {
	t.Helper()
	model := modeltest.New(script, nil)
	return model, modelsAt(t, model, max(script.Window, 8000), more)
}

// modelsAt serves a model and returns a file that names it for both providers.
func modelsAt(t *testing.T, model http.Handler, window int, more string) string {
	t.Helper()
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "models.yaml")
	write(t, path, fmt.Appendf(nil, `models:
- {name: gpt, provider: openai, model: m, baseUrl: "%[1]s/v1", headers: {Authorization: Bearer test}, contextWindow: %[2]d, retries: 0, price: {input: 1, output: 4, cachedInput: 0.1}%[3]s}
- {name: claude, provider: anthropic, model: m, baseUrl: "%[1]s", headers: {X-Api-Key: test}, contextWindow: %[2]d, retries: 0, price: {input: 1, output: 4, cachedInput: 0.1}%[3]s}
`, server.URL, window, more))
	return path
}

// rejected fails the test if the model rejected a request, which then broke the provider's rules. It returns all requests.
func rejected(t testing.TB, model *modeltest.Server) []modeltest.Request {
	t.Helper()
	all := model.Requests()
	for i, r := range all {
		if r.Problem != "" {
			t.Errorf("request %d: %s\n%s", i, r.Problem, r.Body)
		}
	}
	return all
}

// finished is a task that ended, or that waits and gets no further answer.
type finished struct {
	*executorv1.Task
	steps  []*executorv1.Step
	events []*executorv1.ExecutorEvent
}

// carry creates a task and follows it to its end. answer may answer waits; it gets the event of the wait.
func carry(t testing.TB, c rig.Client, req *executorv1.CreateTaskRequest, answer func(wait executorv1.EventType) *executorv1.ResumeTaskRequest) finished {
	t.Helper()
	ctx := t.Context()
	task, err := c.Create(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	out := finished{}
	for last := uint64(0); ; {
		var stop *executorv1.ExecutorEvent
		var wait executorv1.EventType
		err := c.Watch(ctx, task.GetId(), last, func(e *executorv1.ExecutorEvent) bool {
			out.events, last = append(out.events, e), e.GetSeq()
			switch e.GetType() {
			case executorv1.EventType_EVENT_TYPE_FLOW_STOP:
				stop = e
			case executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START, executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_PARAM:
				wait = e.GetType()
			}
			return stop == nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if stop == nil || answer == nil {
			break
		}
		resume := answer(wait)
		if resume == nil {
			break
		}
		resume.Id, resume.WaitId = task.GetId(), stop.GetFlowStop().GetWaitIds()[0]
		if _, err := c.Resume(ctx, resume); err != nil {
			t.Fatal(err)
		}
	}
	if out.Task, err = c.Get(ctx, task.GetId()); err != nil {
		t.Fatal(err)
	}
	if out.steps, err = c.Steps(ctx, task.GetId()); err != nil {
		t.Fatal(err)
	}
	return out
}

func (f finished) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q %v", f.GetStatus(), f.GetFullAnswer(), f.GetError())
	for _, s := range f.steps {
		fmt.Fprintf(&b, "\n%s %s %s: %s", s.GetId(), s.GetToolId(), s.GetInputJson(), s.GetStatus())
	}
	return b.String()
}

func done(t testing.TB, f finished, steps int, answer string) {
	t.Helper()
	if f.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS || len(f.steps) != steps || f.GetFullAnswer() != answer {
		t.Errorf("%v\nwant %d steps and the answer %q", f, steps, answer)
	}
}

// goal is a task for a model that needs no approval.
func goal(model string) *executorv1.CreateTaskRequest {
	auto := true
	return &executorv1.CreateTaskRequest{Goal: "Count and say so", Model: model, McpIds: []string{"t"}, AutoExecute: &auto}
}

// counting calls echo n times, one call for each request, and then answers.
func counting(n int) func(r *modeltest.Request) *modeltest.Turn {
	return func(r *modeltest.Request) *modeltest.Turn {
		if r.Results >= n {
			return &modeltest.Turn{Text: fmt.Sprintf("Counted to %d.", n)}
		}
		return &modeltest.Turn{Calls: []modeltest.Call{echoCall(fmt.Sprint(r.Results + 1))}}
	}
}

func echoCall(text string) modeltest.Call {
	args, err := json.Marshal(map[string]any{"text": text, "pawl_why": "to count", "pawl_risk": "LOW", "pawl_task": map[string]any{"name": "Counting", "risk": "LOW"}})
	if err != nil {
		panic(err) // it is nothing but texts
	}
	return modeltest.Call{Name: "echo", Arguments: args}
}

// everywhere runs a test for both providers, over gRPC and REST.
func everywhere(t *testing.T, o rig.Options, test func(t *testing.T, c rig.Client, model string)) {
	t.Helper()
	target := rig.InProcess(t, o)
	for _, name := range modelNames {
		t.Run(name+"/grpc", func(t *testing.T) { test(t, rig.NewGRPC(target.Executor), name) })
		t.Run(name+"/rest", func(t *testing.T) { test(t, rig.REST{Base: target.HTTP}, name) })
	}
}

// TestModelPlans carries out ten steps in at most eleven model calls, the answer included. Each prompt begins with the one before.
func TestModelPlans(t *testing.T) {
	model, file := models(t, &modeltest.Script{Play: counting(10)}, "")
	everywhere(t, rig.Options{Models: file}, func(t *testing.T, c rig.Client, name string) {
		before := len(model.Requests())
		f := carry(t, c, goal(name), nil)
		done(t, f, 10, "Counted to 10.")
		asked := rejected(t, model)[before:]
		if len(asked) > 11 || f.GetUsage().GetModelCalls() != uint32(len(asked)) {
			t.Errorf("%d model calls, %v", len(asked), f.GetUsage())
		}
		var sent, cached, cost uint64
		for i, r := range asked {
			if i > 0 && r.Prefix < asked[i-1].Tokens*9/10 {
				t.Errorf("prompt %d has %d tokens, of which %d began an earlier one; the one before has %d", i, r.Tokens, r.Prefix, asked[i-1].Tokens)
			}
			sent, cached = sent+uint64(r.Tokens), cached+uint64(r.Cached)
			cost += uint64(r.Tokens-r.Cached)*1000 + uint64(r.Cached)*100
		}
		u := f.GetUsage()
		if u.GetInputTokens() != sent || u.GetCachedInputTokens() != cached || name == "gpt" && u.GetCostNanoUsd() != cost+u.GetOutputTokens()*4000 {
			t.Errorf("usage %v; want %d tokens, %d cached, %d nano-dollars and output", u, sent, cached, cost)
		}
	})
}

// TestModelCallsInParallel makes steps of all calls of one reply; later inputs refer to earlier outputs.
func TestModelCallsInParallel(t *testing.T) {
	model, file := models(t, &modeltest.Script{Play: func(r *modeltest.Request) *modeltest.Turn {
		if r.Results > 0 {
			return &modeltest.Turn{Text: "Three."}
		}
		return &modeltest.Turn{Calls: []modeltest.Call{echoCall("one"), echoCall("two"), echoCall("${step-1.message} and ${step-2.message}")}}
	}}, "")
	everywhere(t, rig.Options{Models: file}, func(t *testing.T, c rig.Client, name string) {
		before := len(model.Requests())
		f := carry(t, c, goal(name), nil)
		done(t, f, 3, "Three.")
		if n := len(rejected(t, model)) - before; n != 2 || !strings.Contains(f.steps[2].GetInputJson(), "one and two") {
			t.Errorf("%d model calls, %v", n, f)
		}
	})
}

// TestModelCorrectsItself sends wrong answers back: arguments that are no JSON, an unknown tool, a reference to nothing.
func TestModelCorrectsItself(t *testing.T) {
	wrong := map[string]struct {
		call modeltest.Call
		says string
	}{
		"json":      {modeltest.Call{Name: "echo", Raw: `{"text": `}, "JSON"},
		"tool":      {modeltest.Call{Name: "t__ecko", Arguments: json.RawMessage(`{"text":"x"}`)}, "t__echo"},
		"reference": {echoCall("${step-7.message}"), "step-7"},
		"schema":    {modeltest.Call{Name: "echo", Arguments: json.RawMessage(`{"text":7}`)}, "string"},
	}
	for kind, w := range wrong {
		t.Run(kind, func(t *testing.T) {
			tried := map[string]bool{}
			model, file := models(t, &modeltest.Script{Play: func(r *modeltest.Request) *modeltest.Turn {
				last := r.Texts[len(r.Texts)-1]
				switch {
				case r.Results == 0:
					return &modeltest.Turn{Calls: []modeltest.Call{w.call}}
				case strings.Contains(last, w.says) && !strings.Contains(last, "right"):
					tried[r.Provider] = true
					return &modeltest.Turn{Calls: []modeltest.Call{echoCall("right")}}
				}
				return &modeltest.Turn{Text: "Right."}
			}}, "")
			target := rig.InProcess(t, rig.Options{Models: file})
			for _, name := range modelNames {
				f := carry(t, rig.NewGRPC(target.Executor), goal(name), nil)
				done(t, f, 1, "Right.")
			}
			if all := rejected(t, model); len(tried) != 2 || len(all) != 6 {
				t.Errorf("corrected with %v in %d calls", tried, len(all))
			}
		})
	}
}

// manyTools starts an MCP server of n tools that return their number, and `big` and `long`, which return long texts.
func manyTools(t testing.TB, n int) map[string]any {
	t.Helper()
	s := server.NewMCPServer("many", "1.0.0", server.WithToolCapabilities(false))
	for i := range n {
		s.AddTool(mcpgo.NewTool(fmt.Sprintf("number_%d", i), mcpgo.WithDescription(fmt.Sprintf("Returns the number %d of the inventory.", i)), mcpgo.WithReadOnlyHintAnnotation(true)),
			func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
				return mcpgo.NewToolResultText(fmt.Sprintf("It is %d.", i)), nil
			})
	}
	s.AddTool(mcpgo.NewTool("big", mcpgo.WithDescription("Returns a long text."), mcpgo.WithNumber("page", mcpgo.Required())),
		func(_ context.Context, req mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			page := req.GetInt("page", 0)
			return mcpgo.NewToolResultText(fmt.Sprintf("Page %d. %sEnd of page %d.", page, strings.Repeat("All work and no play. ", 1000), page)), nil
		})
	s.AddTool(mcpgo.NewTool("long", mcpgo.WithDescription("Returns a text that is too long for one prompt.")),
		func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(strings.Repeat("It goes on and on. ", 500) + "This is the end."), nil
		})
	server := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(server.Close)
	return map[string]any{"many": map[string]any{"url": server.URL + "/mcp", "trusted": true, "tools": map[string]any{"*": map[string]any{"effect": "read"}}}}
}

// findsTool searches for a tool that it is not shown, and calls it.
func findsTool(r *modeltest.Request) *modeltest.Turn {
	const wanted = "number_347"
	switch {
	case strings.Contains(strings.Join(r.Texts, "\n"), "It is 347."):
		return &modeltest.Turn{Text: "347."}
	case r.Tool(wanted) != "":
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: wanted}}}
	}
	return &modeltest.Turn{Calls: []modeltest.Call{{Name: "find_tools", Arguments: json.RawMessage(`{"query":"inventory number 347"}`)}}}
}

// TestModelFindsTools shows some of 500 tools, and finds another by a search.
func TestModelFindsTools(t *testing.T) {
	model, file := models(t, &modeltest.Script{Play: findsTool}, "")
	everywhere(t, rig.Options{Models: file, Servers: manyTools(t, 500)}, func(t *testing.T, c rig.Client, name string) {
		before := len(model.Requests())
		req := goal(name)
		req.McpIds = []string{"many"}
		f := carry(t, c, req, nil)
		done(t, f, 1, "347.")
		asked := rejected(t, model)[before:]
		for _, r := range asked {
			if len(r.Tools) > 50 {
				t.Errorf("%d tools in a prompt", len(r.Tools))
			}
		}
		if len(asked) > 3 {
			t.Errorf("%d model calls", len(asked))
		}
	})
}

// turnsPages reads long pages one after the other, and summarizes them when asked to.
func turnsPages(pages int) func(*modeltest.Request) *modeltest.Turn {
	return func(r *modeltest.Request) *modeltest.Turn {
		if len(r.Tools) == 0 {
			return &modeltest.Turn{Text: "The pages so far say that there is no play."}
		}
		all := strings.Join(r.Texts, "\n")
		for page := pages; page > 0; page-- {
			if !strings.Contains(all, fmt.Sprintf("Page %d.", page)) {
				continue
			}
			if page == pages {
				return &modeltest.Turn{Text: "All pages are read."}
			}
			return &modeltest.Turn{Calls: []modeltest.Call{{Name: "big", Arguments: fmt.Appendf(nil, `{"page":%d}`, page+1)}}}
		}
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "big", Arguments: json.RawMessage(`{"page":1}`)}}}
	}
}

// TestModelsWindow keeps prompts within the window: old steps are summarized, and long outputs are cut.
func TestModelsWindow(t *testing.T) {
	const pages = 14
	model, file := models(t, &modeltest.Script{Window: 16_000, Play: turnsPages(pages)}, ", maxTokens: 1000")
	everywhere(t, rig.Options{Models: file, Servers: manyTools(t, 3)}, func(t *testing.T, c rig.Client, name string) {
		before := len(model.Requests())
		req := goal(name)
		req.McpIds = []string{"many"}
		f := carry(t, c, req, nil)
		done(t, f, pages, "All pages are read.")
		summaries := 0
		for _, r := range rejected(t, model)[before:] {
			if len(r.Tools) == 0 {
				summaries++
			}
		}
		if summaries == 0 {
			t.Error("nothing was summarized")
		}
	})
}

// readsOn reads a text, and continues at the offset in the mark of a cut, until it has seen the end.
func readsOn(r *modeltest.Request) *modeltest.Turn {
	all := strings.Join(r.Texts, "\n")
	marks := regexp.MustCompile(`read_output \{\\?"step\\?": \\?"(step-\d+)\\?", \\?"offset\\?": (\d+)\}`).FindAllStringSubmatch(all, -1)
	switch {
	case strings.Contains(all, "This is the end."):
		return &modeltest.Turn{Text: "I have read the end."}
	case strings.Contains(all, "next_offset"):
		further := regexp.MustCompile(`next_offset\\*":(\d+)`).FindAllStringSubmatch(all, -1)
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "read_output", Arguments: fmt.Appendf(nil, `{"step":"step-1","offset":%s}`, further[len(further)-1][1])}}}
	case len(marks) > 0:
		last := marks[len(marks)-1]
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "read_output", Arguments: fmt.Appendf(nil, `{"step":%q,"offset":%s}`, last[1], last[2])}}}
	}
	return &modeltest.Turn{Calls: []modeltest.Call{{Name: "long"}}}
}

// TestModelReadsOn cuts a large output with a mark, and gives the model the rest that it asks for, without calling the tool again.
func TestModelReadsOn(t *testing.T) {
	model, file := models(t, &modeltest.Script{Window: 16_000, Play: readsOn}, ", maxTokens: 1000")
	everywhere(t, rig.Options{Models: file, Servers: manyTools(t, 3)}, func(t *testing.T, c rig.Client, name string) {
		req := goal(name)
		req.McpIds = []string{"many"}
		f := carry(t, c, req, func(executorv1.EventType) *executorv1.ResumeTaskRequest {
			t.Error("reading on waits for a person")
			return nil
		})
		done(t, f, 5, "I have read the end.") // 2,400 bytes are shown, then 2,200 at a time
		for i, s := range f.steps {
			if want := map[bool]string{true: "many/long", false: "pawl/read_output"}[i == 0]; s.GetToolId() != want {
				t.Errorf("step %d calls %s, not %s", i+1, s.GetToolId(), want)
			}
		}
	})
	rejected(t, model)
}

// TestModelAsksForApproval waits before a destructive call, at risk HIGH although the model rates it LOW.
func TestModelAsksForApproval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects")
	_, file := models(t, &modeltest.Script{Play: func(r *modeltest.Request) *modeltest.Turn {
		if r.Results > 0 {
			return &modeltest.Turn{Text: "Wiped."}
		}
		args, err := json.Marshal(map[string]any{"path": path, "pawl_why": "to be clean", "pawl_risk": "LOW"})
		if err != nil {
			return nil
		}
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "wipe", Arguments: args}}}
	}}, "")
	everywhere(t, rig.Options{Models: file}, func(t *testing.T, c rig.Client, name string) {
		waits := 0
		f := carry(t, c, goal(name), func(executorv1.EventType) *executorv1.ResumeTaskRequest {
			waits++
			return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}}
		})
		done(t, f, 1, "Wiped.")
		if waits != 1 || f.steps[0].GetRisk().GetLevel().String() != "RISK_LEVEL_HIGH" {
			t.Errorf("%d waits, %v", waits, f.steps[0].GetRisk())
		}
	})
}

// lacksParams leaves out a number, and answers the questions about that.
func lacksParams(r *modeltest.Request) *modeltest.Turn {
	forms := map[string]string{
		"is_param_error": `{"is_param_error":true}`, "describe_error": `{"message":"The second number is missing."}`,
		"input_params": `{"input":{"a":1},"missing":["b"]}`, "missing_params": `{"properties":["b"]}`, "fill_params": `{"input":{"a":1,"b":2}}`,
	}
	switch {
	case r.Format != "":
		return &modeltest.Turn{JSON: json.RawMessage(forms[r.Format])}
	case r.Results > 0:
		return &modeltest.Turn{Text: "Added."}
	}
	return &modeltest.Turn{Calls: []modeltest.Call{{Name: "add", Arguments: json.RawMessage(`{"a":1}`)}}}
}

// TestModelLacksParams asks a person for the parameters that the model leaves out.
func TestModelLacksParams(t *testing.T) {
	model, file := models(t, &modeltest.Script{Play: lacksParams}, "")
	everywhere(t, rig.Options{Models: file}, func(t *testing.T, c rig.Client, name string) {
		req, manual := goal(name), false
		req.AutoExecute = &manual
		asked := 0
		f := carry(t, c, req, func(wait executorv1.EventType) *executorv1.ResumeTaskRequest {
			if wait == executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START {
				return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}}
			}
			asked++
			return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Params{Params: &executorv1.Params{ContentJson: `{"b":2}`}}}
		})
		done(t, f, 1, "Added.")
		if asked != 1 || !strings.Contains(f.steps[0].GetInputJson(), `"b":2`) {
			t.Errorf("asked %d times, %v", asked, f)
		}
	})
	rejected(t, model)
}

// TestModelBudget ends a task whose budget is reached, with an answer or without, and never exceeds it.
func TestModelBudget(t *testing.T) {
	model, file := models(t, &modeltest.Script{Play: counting(10)}, "")
	everywhere(t, rig.Options{Models: file}, func(t *testing.T, c rig.Client, name string) {
		for _, budget := range []*executorv1.Budget{{MaxModelCalls: 3}, {MaxTokens: 4000}} {
			before := len(model.Requests())
			req := goal(name)
			req.Budget = budget
			f := carry(t, c, req, nil)
			asked := rejected(t, model)[before:]
			u := f.GetUsage()
			if f.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS || len(f.steps) >= 10 || int(u.GetModelCalls()) != len(asked) {
				t.Errorf("%v with %v after %d calls", f, u, len(asked))
			}
			if budget.GetMaxModelCalls() > 0 && len(asked) > 3 || budget.GetMaxTokens() > 0 && u.GetInputTokens()+u.GetOutputTokens() > budget.GetMaxTokens() {
				t.Errorf("%v exceeds %v", u, budget)
			}
		}
	})
}

// TestModelAnswerWithSpaces takes an answer that begins and ends with empty lines, and one that the limit of tokens cut off, as they are streamed.
func TestModelAnswerWithSpaces(t *testing.T) {
	text := strings.TrimSpace(strings.Repeat("A long answer. ", 20))
	var cut atomic.Bool
	model, file := models(t, &modeltest.Script{Play: func(*modeltest.Request) *modeltest.Turn {
		turn := &modeltest.Turn{Text: "\n" + text + "\n\n"}
		if cut.Load() {
			turn.Stop = "length"
		}
		return turn
	}}, "")
	everywhere(t, rig.Options{Models: file}, func(t *testing.T, c rig.Client, name string) {
		before := len(model.Requests())
		cut.Store(false)
		done(t, carry(t, c, goal(name), nil), 0, text)
		cut.Store(true)
		f := carry(t, c, goal(name), nil)
		if f.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR || f.GetFullAnswer() != text+"\n\n[The answer was cut off at the token limit.]" {
			t.Errorf("cut off: %v", f)
		}
		if n := len(rejected(t, model)) - before; n != 2 {
			t.Errorf("%d model calls", n)
		}
	})
}

// TestModelFallback asks the fallback of a model that is overloaded, and counts the requests to both.
func TestModelFallback(t *testing.T) {
	model := modeltest.New(&modeltest.Script{Play: func(r *modeltest.Request) *modeltest.Turn {
		if r.Provider == "openai" {
			return &modeltest.Turn{Error: 529}
		}
		return counting(2)(r)
	}}, nil)
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "models.yaml")
	write(t, file, fmt.Appendf(nil, `models:
- {name: gpt, provider: openai, model: m, baseUrl: "%[1]s/v1", headers: {Authorization: Bearer test}, retries: 0, fallback: claude}
- {name: claude, provider: anthropic, model: m, baseUrl: "%[1]s", headers: {X-Api-Key: test}, retries: 0}
`, server.URL))
	target := rig.InProcess(t, rig.Options{Models: file})
	f := carry(t, rig.NewGRPC(target.Executor), goal("gpt"), nil)
	done(t, f, 2, "Counted to 2.")
	if n := len(rejected(t, model)); n != 6 || f.GetUsage().GetModelCalls() != 6 || f.GetUsage().CostNanoUsd != nil {
		t.Errorf("%d requests, %v", n, f.GetUsage())
	}
}

// TestModelCancel ends the request to the provider when a task is cancelled in the middle of an answer.
func TestModelCancel(t *testing.T) {
	const hour = modeltest.Seconds(3600e9)
	model, file := models(t, &modeltest.Script{Play: func(*modeltest.Request) *modeltest.Turn {
		return &modeltest.Turn{Text: strings.Repeat("A long answer. ", 20), Pause: hour}
	}}, "")
	everywhere(t, rig.Options{Models: file}, func(t *testing.T, c rig.Client, name string) {
		before := len(model.Requests())
		task, err := c.Create(t.Context(), goal(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := model.Wait(t.Context(), func(r []modeltest.Request) bool { return len(r) > before }); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Cancel(t.Context(), &executorv1.CancelTaskRequest{Id: task.GetId()}); err != nil {
			t.Fatal(err)
		}
		if err := model.Wait(t.Context(), func(r []modeltest.Request) bool { return r[before].Left }); err != nil {
			t.Error(err)
		}
	})
}
