package similar_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/services/similar"
)

func TestNames(t *testing.T) {
	names := []string{"path", "pattern", "start_line", "max", "mode"}
	for wrong, want := range map[string][]string{
		"pth": {"path"}, "startLine": {"start_line"}, "Start-Line": {"start_line"}, "patern": {"pattern"}, "mod": {"mode"},
		"path": nil, "colour": nil, "": nil, strings.Repeat("p", 300): nil,
	} {
		if d := cmp.Diff(want, similar.Names(wrong, names)); d != "" {
			t.Errorf("%q (-want +got):\n%s", wrong, d)
		}
	}
	if got := similar.Names("abc", []string{"abd", "abe", "abf", "abg"}); len(got) != 3 {
		t.Errorf("suggested %v", got)
	}
}
