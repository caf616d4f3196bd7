package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// reference is `path/to/file.go:Function` in a document.
var reference = regexp.MustCompile("`([a-z][\\w./-]*\\.go):(\\w+)`")

// The functions that docs/ARCHITECTURE.md names are in the files that it names.
func TestArchitectureNamesFunctionsThatExist(t *testing.T) {
	text, err := os.ReadFile("../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	found := reference.FindAllStringSubmatch(string(text), -1)
	if len(found) < 20 {
		t.Errorf("%d references, want the paths of a tool call, an approval, a registration and a stream", len(found))
	}
	functions := map[string]map[string]bool{}
	for _, m := range found {
		file, name := m[1], m[2]
		if functions[file] == nil {
			functions[file] = functionsOf(t, file)
		}
		if !functions[file][name] {
			t.Errorf("%s has no function %s", file, name)
		}
	}
}

func functionsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return names
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
		}
	}
	return names
}
