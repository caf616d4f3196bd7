package runner

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// derive returns the Run that asks the planner for another input after a failed attempt.
func (s *Session) derive(c *plannerv1.TaskContext, st *storagev1.ActiveStep) Run {
	return s.makeInput(c, st, func(ctx context.Context, usage **storagev1.Usage) (string, error) {
		res, err := askPlanner(ctx, s, c, usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.GetFirstInputParamsResponse, error) {
			return s.r.planner.GetFirstInputParams(ctx, &plannerv1.GetFirstInputParamsRequest{
				Context: c, ToolId: st.GetToolId(), Description: st.GetDescription(),
				FailedInputJson: st.GetInputJson(), Error: st.GetError().GetErrMsg(),
			}, o...)
		})
		return res.GetInputJson(), err
	})
}

// fill returns the Run that asks the planner to complete an input with the values that a person supplied.
func (s *Session) fill(c *plannerv1.TaskContext, st *storagev1.ActiveStep) Run {
	return s.makeInput(c, st, func(ctx context.Context, usage **storagev1.Usage) (string, error) {
		res, err := askPlanner(ctx, s, c, usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.FillParamsResponse, error) {
			return s.r.planner.FillParams(ctx, &plannerv1.FillParamsRequest{
				Context: c, ToolId: st.GetToolId(), InputJson: st.GetInputJson(), Error: st.GetError().GetErrMsg(),
				ContentJson: st.GetSupplied().GetContentJson(), Description: st.GetSupplied().GetDescription(),
			}, o...)
		})
		return res.GetInputJson(), err
	})
}

// makeInput returns the Run that makes a step's input with ask and checks the input against the tool's schema.
func (s *Session) makeInput(c *plannerv1.TaskContext, st *storagev1.ActiveStep, ask func(context.Context, **storagev1.Usage) (string, error)) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.Derived{Ordinal: st.GetOrdinal()}
		tools, tool, err := s.findTool(ctx, c, st.GetToolId())
		if err == nil {
			out.Input, err = ask(ctx, &out.Usage)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			out.Err = errorNote(fmt.Errorf("making the input of %s: %w", st.GetToolId(), err))
		default:
			out.Input, out.Problem = toolcall.CheckInput(tool, out.Input)
			current := tools.describe(tool)
			out.Tool = &current
		}
		emit(out)
	}
}

// findTool puts the task's tools into c, and returns them and the tool with this id.
func (s *Session) findTool(ctx context.Context, c *plannerv1.TaskContext, id string) (*toolset, *commonv1.Tool, error) {
	tools, err := s.toolsetWith(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	tools.giveTo(c)
	tool := tools.find(id)
	if tool == nil {
		return nil, nil, toolGone(id)
	}
	return tools, tool, nil
}

// diagnose returns the Run that asks the planner whether an error is about parameters, and which ones a person has to supply. If known is true,
// it only asks which ones. If the planner fails, the error counts as not about parameters.
func (s *Session) diagnose(c *plannerv1.TaskContext, st *storagev1.ActiveStep, known bool) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.Diagnosed{Ordinal: st.GetOrdinal()}
		err := s.diagnoseError(ctx, c, st, known, &out)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.WarnContext(ctx, "the planner could not diagnose an error; the step fails", "error", err)
			out.IsParamError, out.Err = false, errorNote(err)
		}
		emit(out)
	}
}

func (s *Session) diagnoseError(ctx context.Context, c *plannerv1.TaskContext, st *storagev1.ActiveStep, known bool, out *flow.Diagnosed) error {
	if _, _, err := s.findTool(ctx, c, st.GetToolId()); err != nil {
		return err
	}
	input, problem := st.GetInputJson(), st.GetError().GetErrMsg()
	if out.IsParamError = known; !known {
		res, err := askPlanner(ctx, s, c, &out.Usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.IsParamErrorResponse, error) {
			return s.r.planner.IsParamError(ctx, &plannerv1.IsParamErrorRequest{Context: c, ToolId: st.GetToolId(), InputJson: input, Error: problem}, o...)
		})
		if err != nil {
			return err
		}
		if out.IsParamError = res.GetIsParamError(); !out.IsParamError {
			return nil
		}
	}
	described, err := askPlanner(ctx, s, c, &out.Usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.DescribeErrorResponse, error) {
		return s.r.planner.DescribeError(ctx, &plannerv1.DescribeErrorRequest{Context: c, ToolId: st.GetToolId(), InputJson: input, Error: problem}, o...)
	})
	if err != nil {
		return err
	}
	missing, err := askPlanner(ctx, s, c, &out.Usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.GetMissingParamsResponse, error) {
		return s.r.planner.GetMissingParams(ctx, &plannerv1.GetMissingParamsRequest{Context: c, ToolId: st.GetToolId(), InputJson: input, Error: problem}, o...)
	})
	out.Message, out.SchemaJSON = validUTF8(described.GetMessage()), validUTF8(missing.GetSchemaJson())
	return err
}
