package eval_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/serve"

	"pawl.dev/cmd/internal/eval"
	"pawl.dev/planner-svc/planner"
)

var (
	failures = flag.Bool("failures", false, "log the cases that fail")
	only     = flag.String("file", "", "run that file alone")
)

// The offline planner's results do not fall below these floors.
func TestOffline(t *testing.T) {
	s, err := planner.New(t.Context(), planner.Config{}, planner.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	client := plannerv1.NewPlannerServiceClient(grpctest.Serve(t, s.Register, serve.Options{MaxRecvBytes: planner.MaxRequestBytes}))
	rightTools := map[string]int{}
	for _, tc := range []struct {
		file                          string
		beside                        int // how many other tools are offered
		tool, input, silent, refusals int // percent
	}{
		{"shipped-dev.yaml", 0, 85, 82, 3, 95},
		{"shipped-heldout.yaml", 0, 85, 80, 3, 90},
		{"foreign-dev.yaml", 0, 86, 83, 3, 90},
		{"foreign-dev.yaml", 50, 86, 83, 3, 90},
		{"foreign-heldout.yaml", 0, 79, 74, 3, 94},
		{"foreign-heldout.yaml", 50, 78, 73, 3, 93},
	} {
		if *only != "" && *only != tc.file {
			continue
		}
		r := run(t, client, tc.file, tc.beside)
		if r == nil {
			continue
		}
		percent := func(n, of int) int { return 100 * n / max(of, 1) }
		if tc.beside == 0 {
			rightTools[tc.file] = percent(r.RightTool, r.Answerable)
		}
		if percent(r.RightTool, r.Answerable) < tc.tool || percent(r.RightInput, r.Answerable) < tc.input ||
			percent(r.SilentWrong, r.Answerable) > tc.silent || percent(r.Refusals, r.Cases-r.Answerable) < tc.refusals {
			t.Errorf("%s with %d other tools fell below its floor", tc.file, tc.beside)
		}
	}
	for _, set := range []string{"shipped", "foreign"} {
		tuned, unseen := rightTools[set+"-dev.yaml"], rightTools[set+"-heldout.yaml"]
		if *only == "" && tuned-unseen > 10 {
			t.Errorf("%s: %d %% of the cases that were tuned with and %d %% of the others: the rules fit the first too closely", set, tuned, unseen)
		}
	}
}

func run(t *testing.T, client plannerv1.PlannerServiceClient, file string, beside int) *eval.Report {
	t.Helper()
	f, err := eval.Load(filepath.Join("..", "..", "..", "test", "eval", file))
	if err != nil {
		t.Fatal(err)
	}
	r, err := eval.Run(context.Background(), client, f, eval.Options{Model: "offline", Beside: beside, Each: func(res eval.Result) {
		if *failures && (res.Answerable && !res.RightInput || !res.Answerable && !res.Refused) {
			t.Logf("silent=%v tool=%v %q\n  %v: %s", res.SilentWrong, res.RightTool, res.Goal, res.Calls, res.Problem)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %d other tools", file, beside)
	if err := eval.Table(t.Output(), r); err != nil {
		t.Error(err)
	}
	return r
}

// A misspelt effect is an error: it would change the risk of a tool, and thus which plans are right.
func TestUnknownEffect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cases.yaml")
	if err := os.WriteFile(path, []byte("tools: [{name: add, effect: read}]\ncases: [{goal: Add 2 and 3, nothing: true}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := eval.Load(path); err == nil || !strings.Contains(err.Error(), `the effect "read" must be READ, WRITE or DESTRUCTIVE`) {
		t.Error(err)
	}
}
