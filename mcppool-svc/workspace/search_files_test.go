package workspace

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
)

func searchTree(t *testing.T) string {
	root := tree(t, map[string]string{
		"main.go": "", "README.md": "", "docs/guide.md": "", "docs/api/readme.md": "", "docs/api/x.go": "",
		"a/b/c/deep.go": "", ".github/ci.yml": "", ".env": "", ".git/HEAD.go": "", "node_modules/m.go": "",
		"a/node_modules/n.go": "", "naïve/日本語.md": "", "odd[1].go": "", "sp ace.txt": "", "dir.go/": "",
	})
	symlink(t, "main.go", filepath.Join(root, "link.go"))
	symlink(t, "nowhere.go", filepath.Join(root, "broken.go"))
	symlink(t, "a", filepath.Join(root, "linkdir.go"))
	return root
}

func TestSearchFilesPatterns(t *testing.T) {
	tests := map[string]struct {
		pattern string
		want    []string
	}{
		"a name in every folder":         {"*.go", []string{"a/b/c/deep.go", "docs/api/x.go", "link.go", "main.go", "odd[1].go"}},
		"the same with **":               {"**/*.go", []string{"a/b/c/deep.go", "docs/api/x.go", "link.go", "main.go", "odd[1].go"}},
		"the top folder with ./":         {"./*.go", []string{"link.go", "main.go", "odd[1].go"}},
		"the top folder with /":          {"/*.go", []string{"link.go", "main.go", "odd[1].go"}},
		"one folder":                     {"docs/*.md", []string{"docs/guide.md"}},
		"a folder and below":             {"docs/**", []string{"docs/api/readme.md", "docs/api/x.go", "docs/guide.md"}},
		"** in between":                  {"docs/**/*.md", []string{"docs/api/readme.md", "docs/guide.md"}},
		"** at both ends":                {"**/api/**", []string{"docs/api/readme.md", "docs/api/x.go"}},
		"alternatives":                   {"*.{md,yml}", []string{".github/ci.yml", "README.md", "docs/api/readme.md", "docs/guide.md", "naïve/日本語.md"}},
		"a class":                        {"[mx]*.go", []string{"docs/api/x.go", "main.go"}},
		"a negated class":                {"docs/**/[!r]*", []string{"docs/api/x.go", "docs/guide.md"}},
		"one character":                  {"?.go", []string{"docs/api/x.go"}},
		"a character beyond ASCII":       {"日?語.md", []string{"naïve/日本語.md"}},
		"escaped brackets":               {`odd\[1\].go`, []string{"odd[1].go"}},
		"globs are case-sensitive":       {"readme.*", []string{"docs/api/readme.md"}},
		"a part of a name in any case":   {"readme", []string{"README.md", "docs/api/readme.md"}},
		"a part in the middle":           {"uid", []string{"docs/guide.md"}},
		"a part with unicode case":       {"NAÏVE/", []string{"naïve/日本語.md"}},
		"a part of a path":               {"api/read", []string{"docs/api/readme.md"}},
		"a full name":                    {"sp ace.txt", []string{"sp ace.txt"}},
		"a hidden file":                  {".env", []string{".env"}},
		"a hidden folder":                {".github/**", []string{".github/ci.yml"}},
		"everything hidden by its name":  {".*", []string{".env"}},
		"nothing":                        {"*.rs", []string{}},
		"folders are no files":           {"dir.go", []string{}},
		"not what lies in .git":          {"HEAD*", []string{}},
		"a pattern that leads elsewhere": {"../*", []string{}},
	}
	s := newServer(t, searchTree(t))
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				got := call[searchFilesOutput](t, c, "search_files", args{"pattern": tt.pattern})
				want := searchFilesOutput{Pattern: tt.pattern, Files: tt.want, Count: len(tt.want)}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	})
}

func TestSearchFilesBelowAFolder(t *testing.T) {
	c := inProcess(t, newServer(t, searchTree(t)))
	tests := []struct {
		path, pattern string
		want          []string
	}{
		{"docs", "*.md", []string{"docs/api/readme.md", "docs/guide.md"}},
		{"docs", "api/*", []string{"docs/api/readme.md", "docs/api/x.go"}},
		{"docs", "docs/*", []string{}},
		{"docs/api", "./*.go", []string{"docs/api/x.go"}},
		{"node_modules", "*.go", []string{"node_modules/m.go"}},
		{"linkdir.go", "*.go", []string{"linkdir.go/b/c/deep.go"}},
	}
	for _, tt := range tests {
		got := call[searchFilesOutput](t, c, "search_files", args{"path": tt.path, "pattern": tt.pattern})
		if diff := cmp.Diff(tt.want, got.Files); diff != "" {
			t.Errorf("%s in %s: %s", tt.pattern, tt.path, diff)
		}
	}
}

func TestSearchFilesCountsAll(t *testing.T) {
	c := inProcess(t, newServer(t, searchTree(t)))
	got, text := callText[searchFilesOutput](t, c, "search_files", args{"pattern": "*.go", "max_results": 2})
	want := searchFilesOutput{Pattern: "*.go", Files: []string{"a/b/c/deep.go", "docs/api/x.go"}, Count: 5, Truncated: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantContains(t, text, `5 files found for "*.go" (the first 2 are shown)`)
	_, text = callText[searchFilesOutput](t, c, "search_files", args{"pattern": "main.go"})
	if text != "1 file found for \"main.go\"\nmain.go" {
		t.Errorf("text %q", text)
	}
}

func TestSearchFilesErrors(t *testing.T) {
	c := inProcess(t, newServer(t, searchTree(t)))
	tests := map[string]struct {
		args args
		want []string
	}{
		"open bracket":   {args{"pattern": "[a"}, []string{`"[a"`, "not closed", "backslash"}},
		"open brace":     {args{"pattern": "{a,b"}, []string{"not closed"}},
		"end on escape":  {args{"pattern": `a*\`}, []string{"backslash"}},
		"too many":       {args{"pattern": "{a,b,c,d}{a,b,c,d}{a,b,c,d}{a,b,c,d}{a,b,c,d}"}, []string{"256 combinations"}},
		"a file as path": {args{"pattern": "*", "path": "main.go"}, []string{`"main.go" is not a directory`}},
		"missing path":   {args{"pattern": "*", "path": "doc"}, []string{`there is "docs"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wantContains(t, callError(t, c, "search_files", tt.args), tt.want...)
		})
	}
}
