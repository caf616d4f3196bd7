package playbook

import (
	"strings"
	"testing"
)

// A22: the answer is streamed. What is there at once goes in few pieces, of whole lines.
func TestStream(t *testing.T) {
	lines := strings.Repeat(strings.Repeat("文", 300)+"\n", 40)
	for name, c := range map[string]struct {
		text string
		most int
	}{
		"nothing": {"", 0}, "a few lines": {"Title\n\n1. done\n2. done", 1}, "many lines": {lines, 3}, "the last without an end": {lines + "end", 3},
		"one long line": {strings.Repeat("x", 3*pieceBytes), 1}, "a long line in between": {"a\n" + strings.Repeat("x", 2*pieceBytes) + "\nb", 2},
	} {
		var pieces []string
		if err := stream(c.text, func(p string) error { pieces = append(pieces, p); return nil }); err != nil {
			t.Fatal(err)
		}
		if strings.Join(pieces, "") != c.text || len(pieces) > c.most {
			t.Errorf("%s: %d pieces, whole: %v", name, len(pieces), strings.Join(pieces, "") == c.text)
		}
		for _, p := range pieces[:max(0, len(pieces)-1)] {
			if !strings.HasSuffix(p, "\n") {
				t.Errorf("%s: a piece ends within a line", name)
			}
		}
	}
}
