package task

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
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
	ui.Set(&b.MaxToolCalls, f.MaxToolCalls)
	ui.Set(&b.MaxModelCalls, f.MaxModelCalls)
	ui.Set(&b.MaxTokens, f.MaxTokens)
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
	return cmp.Or(
		bounded("max-tool-calls", f.MaxToolCalls, 1, math.MaxUint32), bounded("max-model-calls", f.MaxModelCalls, 1, math.MaxUint32),
		bounded("max-tokens", f.MaxTokens, 1, math.MaxUint64), bounded("max-cost", f.MaxCost, 1e-9, 1e9),
		bounded("max-time", f.MaxTime, 1, math.MaxInt64), bounded("wait-timeout", f.WaitTimeout, 1, math.MaxInt64))
}

func bounded[T cmp.Ordered](flag string, value *T, least, most T) error {
	if value != nil && (*value < least || *value > most || *value != *value) { // the last one: not a number
		return ui.Usagef("--%s %v: it must be more than 0", flag, *value).Then("leave --%s out for no bound", flag)
	}
	return nil
}

// costText is what a task has cost: 3 tool calls, 4 model calls, 512 tokens; "" if it was nothing.
func costText(u *commonv1.Usage) string {
	text := amounts(uint64(u.GetToolCalls()), uint64(u.GetModelCalls()), u.GetInputTokens()+u.GetOutputTokens())
	if u.GetCostNanoUsd() > 0 {
		text += ", " + dollars(u.GetCostNanoUsd())
	}
	return text
}

// dollars shows a price with at most four significant digits.
func dollars(nanoUSD uint64) string {
	return "$" + strconv.FormatFloat(float64(nanoUSD)/1e9, 'g', 4, 64)
}

// budgetText is what a task may cost; "" if nothing bounds it.
func budgetText(b *executorv1.Budget) string {
	text := amounts(uint64(b.GetMaxToolCalls()), uint64(b.GetMaxModelCalls()), b.GetMaxTokens())
	if b.GetMaxCostNanoUsd() > 0 {
		text = strings.TrimPrefix(text+", "+dollars(b.GetMaxCostNanoUsd())+" for models", ", ")
	}
	if b.GetMaxRunTime().AsDuration() > 0 {
		text = strings.TrimPrefix(text+", "+ui.Duration(b.GetMaxRunTime().AsDuration())+" of running", ", ")
	}
	return text
}

func amounts(tools, models, tokens uint64) string {
	var parts []string
	for _, a := range []struct {
		n    uint64
		noun string
	}{{tools, "tool call"}, {models, "model call"}, {tokens, "token"}} {
		if a.n > 0 {
			parts = append(parts, ui.Plural(int(min(a.n, 1<<53)), a.noun))
		}
	}
	return strings.Join(parts, ", ")
}

// bounds are what ends a task's waiting and its doubts, where that is not the usual.
func bounds(task *executorv1.Task) string {
	var parts []string
	if t := task.GetWaitTimeout().AsDuration(); t > 0 {
		parts = append(parts, fmt.Sprintf("waits lapse after %s", ui.Duration(t)))
	}
	if name := onUnknownName(task.GetOnUnknownOutcome()); name != "ask" {
		parts = append(parts, name+" where an outcome is not known")
	}
	return strings.Join(parts, ", ")
}

// onUnknownName is ask, retry or fail.
func onUnknownName(o executorv1.OnUnknownOutcome) string { return cmp.Or(ui.EnumName(o), "ask") }
