package runner

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// derive makes the input of a failed attempt anew, with the error in view (A11).
func (s *Session) derive(c *plannerv1.TaskContext, st *storagev1.ActiveStep) Run {
	return s.input(c, st, func(ctx context.Context) (string, *commonv1.Usage, error) {
		res, err := told(ctx, s, c, func(ctx context.Context, c *plannerv1.TaskContext) (*plannerv1.GetFirstInputParamsResponse, error) {
			return s.r.planner.GetFirstInputParams(ctx, &plannerv1.GetFirstInputParamsRequest{
				Context: c, ToolId: st.GetToolId(), Description: st.GetDescription(),
				FailedInputJson: st.GetInputJson(), Error: st.GetError().GetErrMsg(),
			}, patient)
		})
		return res.GetInputJson(), res.GetUsage(), err
	})
}

// fill mends an input with what a person supplied (A10).
func (s *Session) fill(c *plannerv1.TaskContext, st *storagev1.ActiveStep) Run {
	return s.input(c, st, func(ctx context.Context) (string, *commonv1.Usage, error) {
		res, err := told(ctx, s, c, func(ctx context.Context, c *plannerv1.TaskContext) (*plannerv1.FillParamsResponse, error) {
			return s.r.planner.FillParams(ctx, &plannerv1.FillParamsRequest{
				Context: c, ToolId: st.GetToolId(), InputJson: st.GetInputJson(), Error: st.GetError().GetErrMsg(),
				ContentJson: st.GetSupplied().GetContentJson(), Description: st.GetSupplied().GetDescription(),
			}, patient)
		})
		return res.GetInputJson(), res.GetUsage(), err
	})
}

func (s *Session) input(c *plannerv1.TaskContext, st *storagev1.ActiveStep, make func(context.Context) (string, *commonv1.Usage, error)) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.Derived{Ordinal: st.GetOrdinal()}
		tool, err := s.tool(ctx, c, st.GetToolId())
		if err == nil {
			var usage *commonv1.Usage
			out.Input, usage, err = make(ctx)
			out.Usage = add(nil, usage)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			out.Err = note(fmt.Errorf("making the input of %s: %w", st.GetToolId(), err))
		default:
			out.Input = valid(out.Input)
			out.Problem, out.Tool = problem(tool, out.Input), s.asListed(tool)
		}
		emit(out)
	}
}

// tool loads the task's tools into the context and returns one of them; its absence is an explicit error (A25).
func (s *Session) tool(ctx context.Context, c *plannerv1.TaskContext, id string) (*commonv1.Tool, error) {
	tools, err := s.with(ctx, id)
	if err != nil {
		return nil, err
	}
	c.Tools = tools.tools
	tool := tools.byID[id]
	if tool == nil {
		return nil, gone(id)
	}
	return tool, nil
}

// judge asks whether an error is about parameters and what a person would have to supply (A15, A16). A planner that
// cannot say is taken for a no.
func (s *Session) judge(c *plannerv1.TaskContext, st *storagev1.ActiveStep, known bool) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.Judged{Ordinal: st.GetOrdinal()}
		err := s.judged(ctx, c, st, known, &out)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.WarnContext(ctx, "judging an error; the step is given up", "error", err)
			out.IsParamError = false
		}
		emit(out)
	}
}

func (s *Session) judged(ctx context.Context, c *plannerv1.TaskContext, st *storagev1.ActiveStep, known bool, out *flow.Judged) error {
	if _, err := s.tool(ctx, c, st.GetToolId()); err != nil {
		return err
	}
	input, problem := st.GetInputJson(), st.GetError().GetErrMsg()
	if out.IsParamError = known; !known {
		res, err := told(ctx, s, c, func(ctx context.Context, c *plannerv1.TaskContext) (*plannerv1.IsParamErrorResponse, error) {
			return s.r.planner.IsParamError(ctx, &plannerv1.IsParamErrorRequest{Context: c, ToolId: st.GetToolId(), InputJson: input, Error: problem}, patient)
		})
		if err != nil {
			return err
		}
		out.Usage = add(out.Usage, res.GetUsage())
		if out.IsParamError = res.GetIsParamError(); !out.IsParamError {
			return nil
		}
	}
	var described, missing *commonv1.Usage
	var g errgroup.Group
	g.Go(func() error {
		res, err := told(ctx, s, c, func(ctx context.Context, c *plannerv1.TaskContext) (*plannerv1.DescribeErrorResponse, error) {
			return s.r.planner.DescribeError(ctx, &plannerv1.DescribeErrorRequest{Context: c, ToolId: st.GetToolId(), InputJson: input, Error: problem}, patient)
		})
		out.Message, described = res.GetMessage(), res.GetUsage()
		return err
	})
	g.Go(func() error {
		res, err := told(ctx, s, c, func(ctx context.Context, c *plannerv1.TaskContext) (*plannerv1.GetMissingParamsResponse, error) {
			return s.r.planner.GetMissingParams(ctx, &plannerv1.GetMissingParamsRequest{Context: c, ToolId: st.GetToolId(), InputJson: input, Error: problem}, patient)
		})
		out.SchemaJSON, missing = res.GetSchemaJson(), res.GetUsage()
		return err
	})
	err := g.Wait()
	out.Message, out.SchemaJSON = valid(out.Message), valid(out.SchemaJSON)
	out.Usage = add(add(out.Usage, described), missing)
	return err
}
