package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
)

func codeTree(t testing.TB) string {
	return tree(t, map[string]string{
		"main.go":            "package main\n\n// Ratchet turns.\nfunc main() { ratchet() }\n",
		"docs/guide.md":      "A pawl is the catch\r\nin a ratchet.\r\n",
		"docs/straße.md":     "Die Straße ist GROSS.\nratcheting\n",
		".config":            "ratchet=1",
		".git/log":           "ratchet",
		"node_modules/r.js":  "ratchet",
		"lib/ratchet_set.py": "ratchet_set = 1\nx = ratchet\n",
		"empty.txt":          "",
		"image.bin":          "ratchet\x00ratchet",
	})
}

func where(o searchCodeOutput) []string {
	found := []string{}
	for _, m := range o.Matches {
		found = append(found, fmt.Sprintf("%s:%d", m.Path, m.Line))
	}
	return found
}

func TestSearchCode(t *testing.T) {
	s := newServer(t, codeTree(t))
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		got, text := callText[searchCodeOutput](t, c, "search_code", args{"query": "ratchet"})
		want := searchCodeOutput{
			Query: "ratchet",
			Matches: []codeMatch{
				{".config", 1, "ratchet=1"},
				{"docs/guide.md", 2, "in a ratchet."},
				{"docs/straße.md", 2, "ratcheting"},
				{"lib/ratchet_set.py", 1, "ratchet_set = 1"},
				{"lib/ratchet_set.py", 2, "x = ratchet"},
				{"main.go", 3, "// Ratchet turns."},
				{"main.go", 4, "func main() { ratchet() }"},
			},
			MatchCount: 7, FileCount: 5, FilesSearched: 6,
			Files:   []fileCount{{".config", 1}, {"docs/guide.md", 1}, {"docs/straße.md", 1}, {"lib/ratchet_set.py", 2}, {"main.go", 2}},
			Skipped: skipped{Binary: 1},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		wantContains(t, text, `7 matching lines in 5 files found for "ratchet"`, "skipped: 1 binary", "\nmain.go:3: // Ratchet turns.")
	})
}

func TestSearchCodeQueries(t *testing.T) {
	tests := map[string]struct {
		args args
		want []string
	}{
		"upper case is case-sensitive":    {args{"query": "Ratchet"}, []string{"main.go:3"}},
		"upper case with ignore_case":     {args{"query": "RATCHET.", "ignore_case": true}, []string{"docs/guide.md:2"}},
		"lower case without ignore_case":  {args{"query": "ratchet t", "ignore_case": false}, []string{}},
		"case beyond ASCII":               {args{"query": "STRASSE", "ignore_case": true}, []string{}},
		"case beyond ASCII, simple":       {args{"query": "straße"}, []string{"docs/straße.md:1"}},
		"a whole word":                    {args{"query": "ratchet", "whole_word": true, "glob": "*.{py,md}"}, []string{"docs/guide.md:2", "lib/ratchet_set.py:2"}},
		"no word within unicode letters":  {args{"query": "stra", "whole_word": true}, []string{}},
		"a whole word in any case":        {args{"query": "RATCHET", "whole_word": true, "ignore_case": true, "path": "main.go"}, []string{"main.go:3", "main.go:4"}},
		"text is no expression":           {args{"query": "ratchet()"}, []string{"main.go:4"}},
		"a regular expression":            {args{"query": `ratchet\w+`, "regex": true}, []string{"docs/straße.md:2", "lib/ratchet_set.py:1"}},
		"an expression is case-sensitive": {args{"query": `^// r`, "regex": true}, []string{}},
		"an expression with ignore_case":  {args{"query": `^// r`, "regex": true, "ignore_case": true}, []string{"main.go:3"}},
		"an expression with (?i)":         {args{"query": `(?i)^// r`, "regex": true}, []string{"main.go:3"}},
		"$ matches before CR":             {args{"query": `catch$`, "regex": true}, []string{"docs/guide.md:1"}},
		"a word of an expression":         {args{"query": `ra\w*t|set`, "regex": true, "whole_word": true, "path": "lib"}, []string{"lib/ratchet_set.py:1", "lib/ratchet_set.py:2"}},
		"empty lines":                     {args{"query": `^$`, "regex": true}, []string{"main.go:2"}},
		"a folder":                        {args{"query": "ratchet", "path": "docs"}, []string{"docs/guide.md:2", "docs/straße.md:2"}},
		"a file":                          {args{"query": "ratchet", "path": "docs/guide.md"}, []string{"docs/guide.md:2"}},
		"a skipped folder by name":        {args{"query": "ratchet", "path": "node_modules"}, []string{"node_modules/r.js:1"}},
		"a glob with a path":              {args{"query": "ratchet", "glob": "docs/*.md"}, []string{"docs/guide.md:2", "docs/straße.md:2"}},
		"a glob below the folder":         {args{"query": "ratchet", "path": "docs", "glob": "./g*"}, []string{"docs/guide.md:2"}},
		"a glob matches the full name":    {args{"query": "ratchet", "glob": "main"}, []string{}},
		"a glob for a file":               {args{"query": "ratchet", "path": "docs/guide.md", "glob": "*.md"}, []string{"docs/guide.md:2"}},
	}
	c := inProcess(t, newServer(t, codeTree(t)))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := call[searchCodeOutput](t, c, "search_code", tt.args)
			if diff := cmp.Diff(tt.want, where(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSearchCodeErrors(t *testing.T) {
	c := inProcess(t, newServer(t, codeTree(t)))
	tests := map[string]struct {
		args args
		want []string
	}{
		"bad expression":  {args{"query": "a(", "regex": true}, []string{`"a("`, "RE2", "missing closing )", "leave regex out"}},
		"unbalanced":      {args{"query": "a)(b", "regex": true, "whole_word": true}, []string{"RE2", "unexpected )"}},
		"lookahead":       {args{"query": "(?=a)", "regex": true}, []string{"RE2", "(?="}},
		"backreference":   {args{"query": `(a)\1`, "regex": true}, []string{"RE2", `\1`}},
		"too large":       {args{"query": strings.Repeat(`\d{500}`, 30), "regex": true}, []string{"too large"}},
		"a line break":    {args{"query": "a\nb"}, []string{"line break"}},
		"bad glob":        {args{"query": "a", "glob": "[a"}, []string{"glob", "not closed"}},
		"missing path":    {args{"query": "a", "path": "docs/guid.md"}, []string{`there is "docs/guide.md"`}},
		"an outside path": {args{"query": "a", "path": "../.."}, []string{"outside the workspace"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := callError(t, c, "search_code", tt.args)
			wantContains(t, text, tt.want...)
			if strings.Contains(text, "pL") {
				t.Errorf("%q shows an expression that is not in the file", text)
			}
		})
	}
}

func TestSearchCodeCountsAll(t *testing.T) {
	files := map[string]string{}
	for i := range 30 {
		files[fmt.Sprintf("f%02d.txt", i)] = strings.Repeat("hit\nmiss\n", 10)
	}
	c := inProcess(t, newServer(t, tree(t, files)))
	got, text := callText[searchCodeOutput](t, c, "search_code", args{"query": "hit"})
	if got.MatchCount != 300 || got.FileCount != 30 || len(got.Matches) != 200 || len(got.Files) != 30 || !got.Truncated {
		t.Errorf("by default: %d lines (%d shown) in %d files (%d shown), truncated %v",
			got.MatchCount, len(got.Matches), got.FileCount, len(got.Files), got.Truncated)
	}
	wantContains(t, text, "300 matching lines in 30 files", "the first 200 lines are shown")
	got = call[searchCodeOutput](t, c, "search_code", args{"query": "hit", "max_results": 300})
	if len(got.Matches) != 300 || got.Truncated {
		t.Errorf("all: %d lines, truncated %v", len(got.Matches), got.Truncated)
	}
}

func TestSearchCodeNamesAThousandFiles(t *testing.T) {
	files := map[string]string{}
	for i := range maxFilesShown + 1 {
		files[fmt.Sprintf("d%d/f%04d", i%10, i)] = "hit"
	}
	c := inProcess(t, newServer(t, tree(t, files)))
	got := call[searchCodeOutput](t, c, "search_code", args{"query": "hit", "max_results": 2000})
	if got.FileCount != maxFilesShown+1 || len(got.Files) != maxFilesShown || len(got.Matches) != maxFilesShown+1 || !got.Truncated {
		t.Errorf("%d files, %d named, %d lines, truncated %v", got.FileCount, len(got.Files), len(got.Matches), got.Truncated)
	}
}

func TestSearchCodeSkipsLargeFiles(t *testing.T) {
	root := tree(t, nil)
	for name, size := range map[string]int{"at": maxSearchedBytes, "over": maxSearchedBytes + 1} {
		content := []byte(strings.Repeat("x", size))
		copy(content[size-4:], "\nhit")
		must(t, os.WriteFile(filepath.Join(root, name), content, 0o644))
	}
	c := inProcess(t, newServer(t, root))
	for _, regex := range []bool{false, true} {
		got := call[searchCodeOutput](t, c, "search_code", args{"query": "hit", "regex": regex})
		if diff := cmp.Diff([]string{"at:2"}, where(got)); diff != "" || got.Skipped.TooLarge != 1 {
			t.Errorf("regex %v: %s, skipped %+v", regex, diff, got.Skipped)
		}
	}
}

func TestSearchCodeShowsHugeLines(t *testing.T) {
	pad := strings.Repeat("é", 100_000)
	root := tree(t, map[string]string{
		"start": "hit" + pad, "middle": pad + "hit" + pad, "end": pad + "hit", "fits": strings.Repeat("é", 297) + "hit",
	})
	c := inProcess(t, newServer(t, root))
	for _, regex := range []bool{false, true} {
		got := call[searchCodeOutput](t, c, "search_code", args{"query": "hit", "regex": regex})
		if len(got.Matches) != 4 {
			t.Fatalf("regex %v: %v", regex, where(got))
		}
		for _, m := range got.Matches {
			n := utf8.RuneCountInString(m.Text)
			cutFront, cutBack := strings.HasPrefix(m.Text, "…"), strings.HasSuffix(m.Text, "…")
			if n > maxShownRunes || !strings.Contains(m.Text, "hit") || !utf8.ValidString(m.Text) {
				t.Errorf("%s: %d characters: %.40q", m.Path, n, m.Text)
			}
			if cutFront != (m.Path == "middle" || m.Path == "end") || cutBack != (m.Path == "start" || m.Path == "middle") {
				t.Errorf("%s: marks %v, %v", m.Path, cutFront, cutBack)
			}
		}
	}
}
