package result

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

func of(output string) *Result {
	return Of(&plannerv1.HistoryEntry{OutputJson: output, Result: plannerv1.StepResult_STEP_RESULT_SUCCESS})
}

func TestFiles(t *testing.T) {
	for output, want := range map[string]Files{
		`{"message":"x","structured":{"pattern":"*","files":["a","b"],"count":7,"truncated":true}}`: {Paths: []string{"a", "b"}, Count: 7, Truncated: true},
		`{"message":"x","structured":{"files":["a"],"truncated":true}}`:                             {Paths: []string{"a"}, Count: 1, Truncated: true, AtLeast: true},
		`{"message":"/x/a\n/x/b\n"}`:                     {Paths: []string{"/x/a", "/x/b"}, Count: 2},
		`{"message":"No matches found"}`:                 {},
		`{"message":"","structured":{"content":"/x/a"}}`: {Paths: []string{"/x/a"}, Count: 1},
		``:          {},
		`"rubbish"`: {},
	} {
		if d := cmp.Diff(want, of(output).Files(), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s:\n%s", output, d)
		}
	}
}

func TestSearch(t *testing.T) {
	s, ok := of(`{"structured":{"query":"x","match_count":3,"file_count":2,"files":[{"path":"a","count":2},{"path":"b","count":1}],"matches":[{"path":"a","line":1,"text":"x"}]}}`).Search()
	if !ok || s.Count != 3 || s.FileCount != 2 {
		t.Errorf("%+v %v", s, ok)
	}
	if d := cmp.Diff([]string{"a", "b"}, s.Paths()); d != "" {
		t.Error(d)
	}
	if s, ok := of(`{"structured":{"matches":[{"path":"a","line":1},{"path":"b","line":1},{"path":"a","line":9}]}}`).Search(); !ok || s.Count != 3 || s.FileCount != 2 || s.Files[0].Count != 2 {
		t.Errorf("counted from the matches: %+v %v", s, ok)
	}
	for _, output := range []string{`{"message":"a:1: x"}`, `{"structured":{"files":["a"]}}`, `{"structured":[]}`} {
		if s, ok := of(output).Search(); ok {
			t.Errorf("%s is no search: %+v", output, s)
		}
	}
}

func TestListing(t *testing.T) {
	l, ok := of(`{"structured":{"path":".","entries":[{"name":"d","path":"x/d","type":"directory"},{"name":"f","path":"x/f","type":"file","size":3}]}}`).Listing()
	if !ok || len(l.Entries) != 2 || !l.Entries[0].Folder() {
		t.Errorf("%+v %v", l, ok)
	}
	if d := cmp.Diff([]string{"x/f"}, l.Paths()); d != "" {
		t.Error(d)
	}
	l, ok = of(`{"message":"[DIR] d\n[FILE] a b.txt"}`).Listing()
	if d := cmp.Diff([]Entry{{Name: "d", Path: "d", Type: "directory"}, {Name: "a b.txt", Path: "a b.txt", Type: "file"}}, l.Entries); d != "" || !ok {
		t.Error(d)
	}
	if _, ok := of(`{"message":"total 3\n-rw-r--r--"}`).Listing(); ok {
		t.Error("the output of ls is not read")
	}
}

func TestContentAndInfo(t *testing.T) {
	c := of(`{"structured":{"path":"a","content":"x\n","start_line":1,"end_line":1,"total_lines":9}}`).Content()
	if d := cmp.Diff(Content{Path: "a", Text: "x\n", From: 1, To: 1, Total: 9}, c); d != "" {
		t.Error(d)
	}
	if c := of(`{"message":"plain"}`).Content(); c.Text != "plain" {
		t.Errorf("%+v", c)
	}
	if i, ok := of(`{"structured":{"path":"a","type":"file","size":0}}`).Info(); !ok || *i.Size != 0 || i.Lines != nil {
		t.Errorf("%+v %v", i, ok)
	}
	if _, ok := of(`{"message":"size: 3"}`).Info(); ok {
		t.Error("a text is no description")
	}
}

func TestMedia(t *testing.T) {
	r := of(`{"message":"an image","media":[{"type":"image","mimeType":"image/png","data":"AA=="}]}`)
	if d := cmp.Diff([]Media{{Type: "image", MIME: "image/png"}}, r.Media); d != "" {
		t.Error(d)
	}
	if of(`{"message":{"a":1},"structured":null}`).Message != `{"a":1}` || of(`{"structured":null}`).Structured() != "" {
		t.Error("messages and structures of other kinds")
	}
}
