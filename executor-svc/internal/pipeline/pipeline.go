package pipeline

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// Processor does one part of the work on an exchange.
type Processor interface {
	Process(ctx context.Context, x *Exchange) error
}

// Exchange is a request on its way through the processors.
type Exchange struct {
	Request *pipelinev1.CompleteRequest
	// User is the caller; Session names the request to the MCP pool.
	User, Session string
	// Out gets the events of the answer.
	Out *Tee

	// System and Messages are the conversation with what was added to it.
	System   string
	Messages []*plannerv1.ModelMessage
	// Offered are the tools that the model may call, ByName those of servers, by the names that the model uses.
	Offered []*plannerv1.ModelTool
	ByName  map[string]*commonv1.Tool
	// Native reports that the model calls tools itself; otherwise it writes calls as markup.
	Native bool

	// Round counts the rounds of tool calls, ToolCalls the calls of tools of servers.
	Round, ToolCalls uint32
	// LastReply reports that the model must answer without calling tools, and Again that it is asked again.
	LastReply, Again bool

	// Reply is the model's reply while it arrives.
	Reply grpc.ServerStreamingClient[plannerv1.GenerateResponse]
	// Text is the reply's text without markup, Raw with it. Calls are its tool calls, Results their results, in the same order.
	Text, Raw string
	Calls     []*plannerv1.ModelToolCall
	Results   []*pipelinev1.CompletedToolCall

	// Response collects what the client gets.
	Response *pipelinev1.CompleteResponse
}

// The defaults of limits.
const (
	maxRounds    = 5
	maxToolCalls = 50
)

func (x *Exchange) maxRounds() uint32 { return cmp.Or(x.Request.GetLimits().GetMaxRounds(), maxRounds) }

func (x *Exchange) maxToolCalls() uint32 {
	return cmp.Or(x.Request.GetLimits().GetMaxToolCalls(), maxToolCalls)
}

// isClients reports whether a call is of one of the client's tools.
func (x *Exchange) isClients(c *plannerv1.ModelToolCall) bool {
	for _, t := range x.Request.GetTools() {
		if t.GetName() == c.GetName() {
			return true
		}
	}
	return false
}

// note tells the client of something that is not part of the answer.
func (x *Exchange) note(n *pipelinev1.CompletionNote) {
	x.Response.Notes = append(x.Response.Notes, n)
	x.Out.Send(&pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_Note{Note: n}})
}

// say adds to the text of the reply.
func (x *Exchange) say(text string) {
	x.Text += text
	x.Out.Send(&pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_Text{Text: text}})
}

// add adds a message to the conversation.
func (x *Exchange) add(m *plannerv1.ModelMessage) {
	x.Messages = append(x.Messages, m)
	x.Response.AddedMessages = append(x.Response.AddedMessages, m)
}

// spend adds what a call cost.
func (x *Exchange) spend(u *commonv1.Usage) {
	sum := x.Response.GetUsage()
	if u.GetModelCalls() > 0 {
		if u.CostNanoUsd == nil || sum.GetModelCalls() > 0 && sum.CostNanoUsd == nil {
			sum.CostNanoUsd = nil
		} else {
			cost := sum.GetCostNanoUsd() + u.GetCostNanoUsd()
			sum.CostNanoUsd = &cost
		}
	}
	sum.ModelCalls += u.GetModelCalls()
	sum.InputTokens += u.GetInputTokens()
	sum.OutputTokens += u.GetOutputTokens()
	sum.CachedInputTokens += u.GetCachedInputTokens()
}

// Pipeline is a chain of processors.
type Pipeline struct {
	once, repeated []Processor
}

// Run lets the processors work on an exchange: all of them, and then, until the model has answered, those that are repeated.
func (p *Pipeline) Run(ctx context.Context, x *Exchange) error {
	began := time.Now()
	defer func() { x.Response.Usage.Elapsed = durationpb.New(time.Since(began)) }()
	for _, next := range p.once {
		if err := next.Process(ctx, x); err != nil {
			return err
		}
	}
	for x.Again = true; x.Again; {
		for _, next := range p.repeated {
			if err := next.Process(ctx, x); err != nil {
				return err
			}
		}
	}
	return nil
}
