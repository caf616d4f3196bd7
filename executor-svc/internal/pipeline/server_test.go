package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// C5: the seven processors, in order.
func TestProcessors(t *testing.T) {
	s := NewServer(Deps{})
	var names []string
	for _, p := range append(s.pipeline.once, s.pipeline.repeated...) {
		names = append(names, strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", p), "*"), "pipeline."))
	}
	if got := strings.Join(names, " "); got != "ToolPreparation ConversationEntry SideBand ToolCallExtractor ToolExecution ResultFormatting Recursion" {
		t.Error(got)
	}
}

// looping is a service whose model calls a tool in each reply; native or by markup.
func looping(native bool) (*Server, *planner, *pool) {
	model := &planner{native: native}
	model.reply = func(req *plannerv1.GenerateRequest) *replies[plannerv1.GenerateResponse] {
		if !native {
			return said(nil, "So. <function_calls><invoke name=\"fs__read\"><parameter name=\"path\">a</parameter></invoke></function_calls>")
		}
		return said([]*plannerv1.ModelToolCall{modelCall(fmt.Sprint("c", len(req.GetMessages())), "fs__read", `{"path":"a"}`)}, "So.")
	}
	p := &pool{
		list: func(string) ([]*commonv1.Tool, error) { return tools(), nil },
		call: func(context.Context, *mcppoolv1.CallToolRequest) *replies[mcppoolv1.CallToolResponse] {
			return returned("text of a", false)
		},
	}
	return NewServer(Deps{Planner: model, Pool: p, Log: slog.New(slog.DiscardHandler)}), model, p
}

func request() *pipelinev1.CompleteRequest {
	return &pipelinev1.CompleteRequest{McpIds: []string{"fs"}, Messages: []*plannerv1.ModelMessage{user(textPart("Read a"))}}
}

func as(ctx context.Context, sub string) context.Context {
	return identity.NewContext(ctx, identity.Principal{Sub: sub})
}

// C10: the depth belongs to the request, also if several run at once; the conversation of the client is not changed.
func TestDepthIsPerRequest(t *testing.T) {
	for _, native := range []bool{true, false} {
		s, model, p := looping(native)
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				req := request()
				res, err := s.Complete(as(t.Context(), "ann"), req)
				if err != nil || len(res.GetToolCalls()) != 5 || !res.GetLimitReached() || res.GetUsage().GetModelCalls() != 6 || len(req.GetMessages()) != 1 || len(res.GetAddedMessages()) != 11 {
					t.Errorf("native %v: %v, %v", native, res, err)
				}
			})
		}
		running.Wait()
		if len(model.asked) != 8*6 || len(p.released) != 8 || len(s.busy) != 0 {
			t.Errorf("%d requests to the model, %d sessions released, busy %v", len(model.asked), len(p.released), s.busy)
		}
		// C6: the description of the tools is in each prompt once.
		for _, r := range model.asked {
			if n := strings.Count(r.GetSystem(), describedTools); native && n != 0 || !native && n != 1 {
				t.Errorf("native %v: described %d times", native, n)
			}
		}
	}
}

// stream is a client of StreamComplete.
type stream struct {
	grpc.ServerStream
	ctx  context.Context
	send func(*pipelinev1.StreamCompleteResponse) error
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) Send(e *pipelinev1.StreamCompleteResponse) error { return s.send(e) }

// C12: a reader that stops after the first event disturbs nothing: the model and the tools are done before it reads on.
func TestSlowReader(t *testing.T) {
	s, model, p := looping(true)
	finished := make(chan struct{})
	model.reply = func(req *plannerv1.GenerateRequest) *replies[plannerv1.GenerateResponse] {
		if req.GetToolChoice() == plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE {
			defer close(finished)
			return said(nil, "The end.")
		}
		return said([]*plannerv1.ModelToolCall{modelCall(fmt.Sprint("c", len(req.GetMessages())), "fs__read", `{"path":"a"}`)}, "So.")
	}
	var events []*pipelinev1.StreamCompleteResponse
	err := s.StreamComplete(&pipelinev1.StreamCompleteRequest{Completion: request()}, &stream{ctx: as(t.Context(), "ann"), send: func(e *pipelinev1.StreamCompleteResponse) error {
		<-finished
		events = append(events, e)
		return nil
	}})
	last := events[len(events)-1].GetResponse()
	if err != nil || len(last.GetToolCalls()) != 5 || !strings.HasPrefix(last.GetMessage().GetParts()[0].GetText(), "The end.") || len(p.released) != 1 {
		t.Error(events, err)
	}
}

// C12: a client that goes away interrupts the request.
func TestInterrupt(t *testing.T) {
	s, _, p := looping(true)
	ctx, cancel := context.WithCancel(as(t.Context(), "ann"))
	p.call = func(ctx context.Context, _ *mcppoolv1.CallToolRequest) *replies[mcppoolv1.CallToolResponse] {
		cancel()
		<-ctx.Done()
		return &replies[mcppoolv1.CallToolResponse]{err: ctx.Err()}
	}
	err := s.StreamComplete(&pipelinev1.StreamCompleteRequest{Completion: request()}, &stream{ctx: ctx, send: func(*pipelinev1.StreamCompleteResponse) error { return nil }})
	if err == nil || len(p.released) != 1 || len(s.busy) != 0 {
		t.Error(err, p.released, s.busy)
	}
}

func TestRequestsOfOneUser(t *testing.T) {
	s, _, _ := looping(true)
	s.MaxPerUser = 2
	for range s.MaxPerUser {
		if _, _, err := s.enter(as(t.Context(), "ann")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Complete(as(t.Context(), "ann"), request()); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED {
		t.Error(err)
	}
	if _, err := s.Complete(as(t.Context(), "bob"), request()); err != nil {
		t.Error(err)
	}
}

// TestSpan: a completion is one span, a child of the request's, with the model and what it has cost, also if it fails.
func TestSpan(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	s, model, _ := looping(true)
	ctx, parent := provider.Tracer("test").Start(as(t.Context(), "ann"), "request")
	req := request()
	req.Model = "m"
	if _, err := s.Complete(ctx, req); err != nil {
		t.Fatal(err)
	}
	model.reply = func(*plannerv1.GenerateRequest) *replies[plannerv1.GenerateResponse] {
		return &replies[plannerv1.GenerateResponse]{err: errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "it is down")}
	}
	if _, err := s.Complete(ctx, req); err == nil {
		t.Fatal("it did not fail")
	}
	want := []string{
		"chat m gen_ai.operation.name=chat gen_ai.provider.name=pawl gen_ai.request.model=m gen_ai.response.model=provider-m gen_ai.usage.input_tokens=60 " +
			"gen_ai.usage.output_tokens=12 pawl.model_calls=6 pawl.tool_calls=5",
		"chat m gen_ai.operation.name=chat gen_ai.provider.name=pawl gen_ai.request.model=m gen_ai.response.model= gen_ai.usage.input_tokens=0 " +
			"gen_ai.usage.output_tokens=0 pawl.model_calls=0 pawl.tool_calls=0 error.type=MODEL_ERROR",
	}
	var got []string
	for _, s := range spans.Ended() {
		line := s.Name()
		for _, a := range s.Attributes() {
			line += fmt.Sprintf(" %s=%s", a.Key, a.Value)
		}
		if got = append(got, line); s.Parent().SpanID() != parent.SpanContext().SpanID() {
			t.Errorf("%s is no child of the request's span", line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
