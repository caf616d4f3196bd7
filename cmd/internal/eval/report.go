package eval

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// Report summarizes a run.
type Report struct {
	Model        string   `json:"model"`
	Cases        int      `json:"cases"`
	Answerable   int      `json:"answerable"`
	RightTool    int      `json:"right_tool"`   // answerable cases with the right tools
	RightInput   int      `json:"right_input"`  // answerable cases with the right tools, arguments and answer
	SilentWrong  int      `json:"silent_wrong"` // answerable cases with a wrong tool or input, and no question to a person
	Refusals     int      `json:"refusals"`     // unanswerable cases in which no tool was called
	ModelCalls   uint64   `json:"model_calls"`
	InputTokens  uint64   `json:"input_tokens"`
	OutputTokens uint64   `json:"output_tokens"`
	CostNanoUSD  *uint64  `json:"cost_nano_usd,omitempty"` // nil if the cost of a model call is unknown, or there was no call
	DecisionP50  string   `json:"decision_p50"`
	Results      []Result `json:"results"`

	decisions []time.Duration
}

func (r *Report) add(res Result) {
	r.Cases++
	r.Results = append(r.Results, res)
	count := func(n *int, yes bool) {
		if yes {
			*n++
		}
	}
	count(&r.Answerable, res.Answerable)
	count(&r.RightTool, res.RightTool)
	count(&r.RightInput, res.RightInput)
	count(&r.SilentWrong, res.SilentWrong && res.Answerable)
	count(&r.Refusals, res.Refused && !res.Answerable)
	r.CostNanoUSD = addCost(r.CostNanoUSD, r.ModelCalls, res.Usage)
	r.ModelCalls += uint64(res.Usage.GetModelCalls())
	r.InputTokens += res.Usage.GetInputTokens()
	r.OutputTokens += res.Usage.GetOutputTokens()
	r.decisions = append(r.decisions, res.decisions...)
	slices.Sort(r.decisions)
	r.DecisionP50 = r.P50().String()
}

// addCost adds the cost of u to sum, the cost of earlier model calls. It returns nil if either cost is unknown, or there was no call.
func addCost(sum *uint64, calls uint64, u *commonv1.Usage) *uint64 {
	switch {
	case u.GetModelCalls() == 0:
		return sum
	case u.CostNanoUsd == nil || calls > 0 && sum == nil:
		return nil
	case sum == nil:
		sum = new(uint64)
	}
	total := *sum + u.GetCostNanoUsd()
	return &total
}

// P50 returns the median time of a decision.
func (r *Report) P50() time.Duration {
	if len(r.decisions) == 0 {
		return 0
	}
	return r.decisions[len(r.decisions)/2]
}

// Table writes the reports side by side, one per column.
func Table(w io.Writer, reports ...*Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	line := func(label string, value func(*Report) string) {
		fmt.Fprint(t, label)
		for _, r := range reports {
			fmt.Fprint(t, "\t", value(r))
		}
		fmt.Fprintln(t)
	}
	line("model", func(r *Report) string { return cmp.Or(r.Model, "(default)") })
	line("right tool", func(r *Report) string { return share(r.RightTool, r.Answerable) })
	line("right tool and arguments", func(r *Report) string { return share(r.RightInput, r.Answerable) })
	line("silently wrong", func(r *Report) string { return share(r.SilentWrong, r.Answerable) })
	line("right refusals", func(r *Report) string { return share(r.Refusals, r.Cases-r.Answerable) })
	line("model calls", func(r *Report) string { return fmt.Sprint(r.ModelCalls) })
	line("tokens in, out", func(r *Report) string { return fmt.Sprintf("%d, %d", r.InputTokens, r.OutputTokens) })
	line("cost", func(r *Report) string {
		if r.CostNanoUSD == nil {
			return "-"
		}
		return fmt.Sprintf("$%.4f", float64(*r.CostNanoUSD)/1e9)
	})
	line("decision p50", func(r *Report) string { return r.P50().Round(10 * time.Microsecond).String() })
	return t.Flush()
}

func share(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %% (%d of %d)", 100*float64(n)/float64(of), n, of)
}
