package result

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

func of(output string) *Result {
	return Of(&plannerv1.HistoryEntry{OutputJson: output, Result: plannerv1.StepResult_STEP_RESULT_SUCCESS})
}

func TestPaths(t *testing.T) {
	for output, want := range map[string][]string{
		`{"message":"x","structured":{"pattern":"*","files":["a","b"],"count":7,"truncated":true}}`:                                             {"a", "b"},
		`{"structured":{"matches":["a"],"results":["b",3]}}`:                                                                                    {"a", "b"},
		`{"structured":{"query":"x","files":[{"path":"a","count":2},{"path":"b","count":1}],"matches":[{"path":"a","line":1,"text":"x"}]}}`:     {"a", "b"},
		`{"structured":{"matches":[{"path":"a","line":1},{"path":"b","line":1},{"path":"a","line":9}]}}`:                                        {"a", "b"},
		`{"structured":{"path":".","entries":[{"name":"d","path":"x/d","type":"directory"},{"name":"f","path":"x/f","type":"file","size":3}]}}`: {"x/f"},
		`{"message":"[DIR] d\n[FILE] a b.txt"}`:                                                                                                 {"a b.txt"},
		`{"message":"total 3\n-rw-r--r--"}`:                                                                                                     nil,
		`{"structured":[]}`:                                                                                                                     nil,
		``:                                                                                                                                      nil,
	} {
		if d := cmp.Diff(want, of(output).Paths()); d != "" {
			t.Errorf("%s:\n%s", output, d)
		}
	}
}

func TestMedia(t *testing.T) {
	r := of(`{"message":"an image","media":[{"type":"image","mimeType":"image/png","data":"AA=="}]}`)
	if d := cmp.Diff([]Media{{Type: "image", MIME: "image/png"}}, r.Media); d != "" {
		t.Error(d)
	}
	if of(`{"message":{"a":1},"structured":null}`).Message != `{"a":1}` || of(`{"structured":null}`).Structured != "" {
		t.Error("messages and structures of other kinds")
	}
}

// The text of a step is what PlannedStep.from_history says: executors serve offsets into it.
func TestText(t *testing.T) {
	for output, want := range map[string]string{
		`{"message":"a"}`: "a", `{"message":"a","structured":null}`: "a", `{"message":"two","structured":{"n": 2}}`: "two\n" + `{"n":2}`,
		`{"message":"{\"n\":2}","structured":{"n": 2}}`: `{"n":2}`, `{"message":"","structured":{"n": 2}}`: `{"n":2}`, `{"structured":[1, 2]}`: "[1,2]", `{"message":{"n": 2}}`: `{"n": 2}`,
		"": "",
	} {
		if got := of(output).Text(); got != want {
			t.Errorf("%s: %q, want %q", output, got, want)
		}
	}
	if got := Of(&plannerv1.HistoryEntry{Result: plannerv1.StepResult_STEP_RESULT_ERROR, OutputJson: `{"message":"a"}`, Error: "e"}).Text(); got != "e" {
		t.Error(got)
	}
}
