package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// Options configure a run.
type Options struct {
	Model  string       // "": the planner's default
	Beside int          // how many other tools of the file are offered with each case
	Each   func(Result) // called after each case; may be nil
}

// Result is the result of one case.
type Result struct {
	Goal        string          `json:"goal"`
	Answerable  bool            `json:"answerable"` // calls are expected
	RightTool   bool            `json:"right_tool"`
	RightInput  bool            `json:"right_input"`    // everything is right: tools, inputs, whether a person is asked, and the answer
	Refused     bool            `json:"refused"`        // no tool was called
	SilentWrong bool            `json:"silently_wrong"` // a wrong call, and no question to a person
	RightAnswer bool            `json:"right_answer"`   // the answer matches, and no forbidden tool was called
	Calls       []string        `json:"calls,omitempty"`
	Problem     string          `json:"problem,omitempty"`
	Usage       *commonv1.Usage `json:"-"`
	decisions   []time.Duration // how long each decision of the planner took
}

// Run gives the cases of a file to the planner. A failed call of the planner is an error; a wrong plan is only a wrong result.
func Run(ctx context.Context, client plannerv1.PlannerServiceClient, f *File, o Options) (*Report, error) {
	r := &Report{Model: o.Model}
	for i := range f.Cases {
		c := &f.Cases[i]
		tools, err := f.toolsOf(c)
		if err != nil {
			return nil, err
		}
		run := caseRun{client: client, c: c, tools: f.withOthers(tools, o.Beside, i)}
		run.context = &plannerv1.TaskContext{TaskId: fmt.Sprintf("eval-%d", i+1), Goal: c.Goal, Model: o.Model, Tools: run.tools,
			Language: commonv1.Language(commonv1.Language_value["LANGUAGE_"+map[string]string{"zh": "ZH", "en": "EN"}[c.Language]])}
		result, err := run.play(ctx)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", c.Goal, err)
		}
		r.add(result)
		if o.Each != nil {
			o.Each(result)
		}
	}
	return r, nil
}

// withOthers returns the case's tools in the middle of at most count other tools of the file, which depend on seed.
func (f *File) withOthers(tools []*commonv1.Tool, count, seed int) []*commonv1.Tool {
	var all []*commonv1.Tool
	for _, server := range slices.Sorted(maps.Keys(f.offered)) {
		for _, t := range f.offered[server] {
			if find(tools, t.GetId()) == nil {
				all = append(all, t)
			}
		}
	}
	var others []*commonv1.Tool
	for i := range min(count, len(all)) {
		others = append(others, all[(seed+i)%len(all)])
	}
	return slices.Insert(others, len(others)/2, tools...)
}

// caseRun plays one case.
type caseRun struct {
	client  plannerv1.PlannerServiceClient
	c       *Case
	tools   []*commonv1.Tool
	context *plannerv1.TaskContext
	calls   []*plannerv1.PlannedStep
	answer  *string
	result  Result
}

func (r *caseRun) play(ctx context.Context) (Result, error) {
	r.result = Result{Goal: r.c.Goal, Answerable: !r.c.Nothing, Usage: &commonv1.Usage{}}
	for len(r.calls) <= len(r.c.Calls) {
		more, err := r.decide(ctx)
		if err != nil {
			return r.result, err
		}
		if !more {
			break
		}
	}
	if len(r.c.answer) > 0 {
		if err := r.writeAnswer(ctx); err != nil {
			return r.result, err
		}
	}
	r.judge()
	return r.result, nil
}

// decide asks for the next steps and records them as done. It reports whether more steps follow. A plan without a step to take is an error.
func (r *caseRun) decide(ctx context.Context) (bool, error) {
	start := time.Now()
	plan, err := r.client.PlanSteps(ctx, &plannerv1.PlanStepsRequest{Context: r.context})
	if err != nil {
		return false, err
	}
	r.result.decisions = append(r.result.decisions, time.Since(start))
	r.spend(plan.GetUsage())
	if steps := plan.GetSteps(); len(steps) == 0 || steps[0].GetUnresolved() {
		return false, errors.New("the planner returned a plan without a step that can be taken now")
	}
	for _, s := range plan.GetSteps() {
		switch {
		case s.GetToolId() == "FINAL":
			r.answer = plan.Answer
			return false, nil
		case s.GetUnresolved():
			return true, nil // the planner plans this step again once the steps before it are done
		}
		r.calls = append(r.calls, s)
		r.result.Calls = append(r.result.Calls, s.GetToolId()+" "+s.GetInputJson())
		if len(s.GetMissing()) > 0 || len(r.calls) > len(r.c.Calls) {
			return false, nil
		}
		output, err := r.output(s.GetToolId())
		if err != nil {
			return false, err
		}
		r.context.History = append(r.context.History, &plannerv1.HistoryEntry{StepId: fmt.Sprintf("step-%d", len(r.calls)), ToolId: s.GetToolId(),
			Description: s.GetDescription(), InputJson: s.GetInputJson(), Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, OutputJson: output})
	}
	return true, nil
}

// output returns the output that the case gives a tool.
func (r *caseRun) output(tool string) (string, error) {
	out := map[string]any{"message": "ok"}
	if output, ok := r.c.Outputs[tool]; ok {
		if text, isText := output.(string); isText {
			out["message"] = text
		} else {
			raw, err := json.Marshal(output)
			if err != nil {
				return "", err
			}
			out["message"], out["structured"] = string(raw), output
		}
	}
	raw, err := json.Marshal(out)
	return string(raw), err
}

// writeAnswer requests the answer, unless the plan contained it.
func (r *caseRun) writeAnswer(ctx context.Context) error {
	if r.answer != nil {
		return nil
	}
	stream, err := r.client.GenerateAnswer(ctx, &plannerv1.GenerateAnswerRequest{Context: r.context})
	if err != nil {
		return err
	}
	text := ""
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			r.answer = &text
			return nil
		}
		if err != nil {
			return err
		}
		text += piece.GetText()
		r.spend(piece.GetUsage())
	}
}

func (r *caseRun) spend(u *commonv1.Usage) {
	sum := r.result.Usage
	sum.InputTokens += u.GetInputTokens()
	sum.OutputTokens += u.GetOutputTokens()
	sum.CachedInputTokens += u.GetCachedInputTokens()
	sum.CostNanoUsd = addCost(sum.CostNanoUsd, uint64(sum.GetModelCalls()), u)
	sum.ModelCalls += u.GetModelCalls()
}
