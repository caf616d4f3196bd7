package workspace

import (
	"path"
	"strings"
	"testing"
)

// FuzzMatch compares globs with path.Match, for the patterns that both know.
func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{"*.go", "main.go"}, {"a/*.go", "a/b.go"}, {"[a-c]?", "bx"}, {"[^x]/*", "a/b"}, {`a\*`, "a*"},
		{"*a*b*c", "xaybzc"}, {"日*", "日本"}, {"a/?/c", "a/b/c"}, {"[", "x"}, {"[a-]", "-"}, {"[]a]", "a"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		// path.Match does not know "**", braces, "!" for "^" and the anchors "./"
		// and "/"; the walk gives clean paths.
		if strings.Contains(pattern, "**") || strings.ContainsAny(pattern, "{}!") ||
			strings.HasPrefix(pattern, "/") || strings.HasPrefix(pattern, "./") ||
			name == "." || path.Clean(name) != name || path.IsAbs(name) || !validText(pattern, name) {
			t.Skip() // patterns come out of JSON, as valid UTF-8
		}
		against := name
		if !strings.Contains(pattern, "/") {
			against = path.Base(name)
		}
		want, referenceErr := path.Match(pattern, against)
		match, err := matchGlob(pattern)
		if err != nil || referenceErr != nil {
			return // path.Match finds a bad pattern only where it gets that far
		}
		if got := match(name); got != want {
			t.Errorf("glob %q on %q: %v, path.Match says %v", pattern, name, got, want)
		}
	})
}

// FuzzGlobEnds looks for patterns that crash or do not come to an end.
func FuzzGlobEnds(f *testing.F) {
	f.Add("**/{a,b}*/**/[!c]?", "x/a1/y/d2")
	f.Add(strings.Repeat("**/", 50)+"x", strings.Repeat("a/", 50)+"y")
	f.Add(strings.Repeat("*a", 50), strings.Repeat("a", 100)+"b")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 1000 || len(name) > 4096 {
			t.Skip()
		}
		if match, err := matchName(pattern); err == nil {
			match(name)
		}
	})
}

func TestAlternatives(t *testing.T) {
	for pattern, want := range map[string]int{
		"*.go": 1, "{a,b}": 3, "{a,b}{c,d}": 9, `\{a,b`: 1, "a,b": 1, "{a,{b,c}}": 5, "}": 1, "{a": 2,
	} {
		if got := alternatives(pattern); got != want {
			t.Errorf("%q: %d, want %d", pattern, got, want)
		}
	}
}
