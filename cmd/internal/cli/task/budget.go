package task

import (
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// BudgetFlags bound what a task may cost.
type BudgetFlags struct {
	MaxToolCalls  *uint32        `placeholder:"N" help:"Calls of tools that a task may make."`
	MaxModelCalls *uint32        `placeholder:"N" help:"Calls of models that a task may make."`
	MaxTokens     *uint64        `placeholder:"N" help:"Tokens that a task may use, in and out."`
	MaxCost       *float64       `placeholder:"USD" help:"US dollars that a task may spend on models whose price is configured, such as 0.25."`
	MaxTime       *time.Duration `placeholder:"TIME" help:"How long a task may run, such as 90s or 10m; waiting for people does not count."`
	WaitTimeout   *time.Duration `placeholder:"TIME" help:"How long a question stays open, such as 24h, before the task ends."`
}

// given says that one of the budgets was named.
func (f *BudgetFlags) given() bool {
	return f.MaxToolCalls != nil || f.MaxModelCalls != nil || f.MaxTokens != nil || f.MaxCost != nil || f.MaxTime != nil
}

// over is the budget with what was named in place of what it says; nil where it bounds nothing and nothing was named.
func (f *BudgetFlags) over(old *executorv1.Budget) *executorv1.Budget {
	if !f.given() {
		return old
	}
	b := &executorv1.Budget{}
	proto.Merge(b, old)
	if f.MaxToolCalls != nil {
		b.MaxToolCalls = *f.MaxToolCalls
	}
	if f.MaxModelCalls != nil {
		b.MaxModelCalls = *f.MaxModelCalls
	}
	if f.MaxTokens != nil {
		b.MaxTokens = *f.MaxTokens
	}
	if f.MaxCost != nil {
		b.MaxCostNanoUsd = uint64(math.Round(*f.MaxCost * 1e9))
	}
	if f.MaxTime != nil {
		b.MaxRunTime = durationpb.New(*f.MaxTime)
	}
	return b
}

func (f *BudgetFlags) waitTimeout() *durationpb.Duration {
	if f.WaitTimeout == nil {
		return nil
	}
	return durationpb.New(*f.WaitTimeout)
}

// check refuses bounds of 0, which would bound nothing.
func (f *BudgetFlags) check() error {
	refuse := func(flag string, value any) error {
		return ui.Usagef("--%s %v: it must be more than 0", flag, value).Then("leave --%s out for no bound", flag)
	}
	switch {
	case f.MaxToolCalls != nil && *f.MaxToolCalls == 0:
		return refuse("max-tool-calls", 0)
	case f.MaxModelCalls != nil && *f.MaxModelCalls == 0:
		return refuse("max-model-calls", 0)
	case f.MaxTokens != nil && *f.MaxTokens == 0:
		return refuse("max-tokens", 0)
	case f.MaxCost != nil && !(*f.MaxCost >= 1e-9 && *f.MaxCost <= 1e9):
		return refuse("max-cost", *f.MaxCost)
	case f.MaxTime != nil && *f.MaxTime <= 0:
		return refuse("max-time", *f.MaxTime)
	case f.WaitTimeout != nil && *f.WaitTimeout <= 0:
		return refuse("wait-timeout", *f.WaitTimeout)
	}
	return nil
}
