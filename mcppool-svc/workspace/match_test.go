package workspace

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzQuery compares the search with a plain one: split into lines, match each
// with a regular expression.
func FuzzQuery(f *testing.F) {
	f.Add("hit", "a hit\nmiss\r\nHIT", false)
	f.Add("k", "K\n\u212a\nk", true)
	f.Add("é", "É\né\xff\n\n", true)
	f.Fuzz(func(t *testing.T, text, content string, fold bool) {
		q, err := newQuery(searchCodeInput{Query: text, IgnoreCase: &fold})
		if err != nil || text == "" {
			t.Skip()
		}
		expr := regexp.QuoteMeta(text)
		if fold {
			expr = "(?i)" + expr
			if isASCII(text) { // ASCII text is folded as ASCII
				content = strings.NewReplacer("\u212a", "", "\u017f", "").Replace(content)
			}
		}
		re, err := regexp.Compile(expr)
		if err != nil || !validText(text, content) {
			t.Skip() // regexp takes bad UTF-8 as U+FFFD
		}
		var want, got []int
		for i, line := range strings.Split(content, "\n") {
			if re.MatchString(line) {
				want = append(want, i+1)
			}
		}
		lower := []byte{}
		must(t, q.each(t.Context(), []byte(content), &lower, func(m matchedLine) { got = append(got, m.number) }))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q in %q: %s", text, content, diff)
		}
	})
}

func validText(texts ...string) bool {
	for _, s := range texts {
		if strings.ToValidUTF8(s, "") != s {
			return false
		}
	}
	return true
}

func TestLineLongerThanOnePass(t *testing.T) {
	long := bytes.Repeat([]byte("é"), maxPlainLine)
	line := append(append([]byte{}, long...), "needle"...)
	re := regexp.MustCompile(`n[e]+dle$`)
	if at := find(t.Context(), re, line); at != len(long) {
		t.Errorf("found at %d, want %d", at, len(long))
	}
	if at := find(t.Context(), regexp.MustCompile(`^needle`), line); at != -1 {
		t.Errorf("found at %d, want nothing", at)
	}
}

func TestSimilar(t *testing.T) {
	names := []string{"guide.md", "README.md", "main.go", "main_test.go", "docs", "日本語.md"}
	for wrong, want := range map[string][]string{
		"gide.md":                            {"guide.md"},
		"readme.md":                          {"README.md"},
		"readme":                             {"README.md"},
		"guide.txt":                          {"guide.md"},
		"dosc":                               {"docs"},
		"main":                               {"main.go", "main_test.go"},
		"日本.md":                              {"日本語.md"},
		"zzz":                                nil,
		"x":                                  nil,
		".md":                                nil,
		strings.Repeat("a", maxNameLength+1): nil,
	} {
		if diff := cmp.Diff(want, suggestions(wrong, names)); diff != "" {
			t.Errorf("%.20q: %s", wrong, diff)
		}
	}
}

func TestMIMEType(t *testing.T) {
	for _, tt := range []struct{ name, head, want string }{
		{"a.go", "package a", "text/plain; charset=utf-8"},
		{"A.MD", "# a", "text/markdown; charset=utf-8"},
		{"a.json", "{}", "application/json; charset=utf-8"},
		{"a.ts", "let a", "text/plain; charset=utf-8"},
		{"a", "#!/bin/sh", "text/plain; charset=utf-8"},
		{"a.unknown", "", "text/plain; charset=utf-8"},
		{"a.md", "\x00\x01", "application/octet-stream"},
		{"a.txt", "\xff\xfea\x00b\x00", "text/plain; charset=utf-16le"},
		{"a.zip", "PK\x03\x04\x00", "application/zip"},
		{"a.pdf", "%PDF-1.7\n", "application/pdf"},
	} {
		if got := mimeType(tt.name, []byte(tt.head)); got != tt.want {
			t.Errorf("%s %q: %s, want %s", tt.name, tt.head, got, tt.want)
		}
	}
}

func TestCountLines(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "\n": 1, "a": 1, "a\n": 1, "a\nb": 2, "a\r\nb\r\n": 2, "\n\n": 2, "a\rb": 1,
		strings.Repeat("x\n", 100_000): 100_000, strings.Repeat("x", 200_000): 1,
	} {
		got, err := countLines(t.Context(), strings.NewReader(text))
		must(t, err)
		if got != want {
			t.Errorf("%.10q: %d, want %d", text, got, want)
		}
	}
}
