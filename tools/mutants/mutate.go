package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one change of a file: the text between two offsets is replaced.
type mutant struct {
	file       string
	line       int
	source     []byte
	start, end int
	text       string
}

// String says where the mutant is and what it changes.
func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: `%.80s` → `%.80s`", m.file, m.line, strings.Join(strings.Fields(string(m.source[m.start:m.end])), " "), m.text)
}

// operators are what takes the place of a binary operator.
var operators = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
}

// mutantsOf returns all mutants of the package in a folder, except those of tests and generated files.
func mutantsOf(dir string) ([]mutant, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		w := &walk{file: name, source: source, set: token.NewFileSet()}
		f, err := parser.ParseFile(w.set, name, source, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, "_test.go") || ast.IsGenerated(f) {
			continue
		}
		ast.Inspect(f, w.visit)
		all = append(all, w.found...)
	}
	return all, nil
}

// walk collects the mutants of a file.
type walk struct {
	file   string
	source []byte
	set    *token.FileSet
	found  []mutant
}

// replace adds the mutant that has a text in place of what is between two positions.
func (w *walk) replace(from, to token.Pos, text string) {
	p := w.set.Position(from)
	w.found = append(w.found, mutant{w.file, p.Line, w.source, p.Offset, w.set.Position(to).Offset, text})
}

func (w *walk) text(n ast.Node) string {
	return string(w.source[w.set.Position(n.Pos()).Offset:w.set.Position(n.End()).Offset])
}

func (w *walk) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if op, ok := operators[n.Op]; ok {
			w.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op.String())
		}
		if lit, ok := n.Y.(*ast.BasicLit); ok && lit.Kind == token.INT {
			w.replace(lit.Pos(), lit.End(), "("+lit.Value+" + 1)")
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			w.replace(n.OpPos, n.OpPos+1, "")
		}
	case *ast.IfStmt: // an error, or another check that leaves the function, is ignored
		if k := len(n.Body.List); k > 0 {
			if _, leaves := n.Body.List[k-1].(*ast.ReturnStmt); leaves {
				w.replace(n.Cond.Pos(), n.Cond.End(), "false && ("+w.text(n.Cond)+")")
			}
		}
	case *ast.ReturnStmt: // an error is not returned
		if k := len(n.Results); k > 0 {
			if last := n.Results[k-1]; strings.Contains(strings.ToLower(w.text(last)), "err") {
				w.replace(last.Pos(), last.End(), "nil")
			}
		}
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE && len(n.Lhs) == 1 && w.text(n.Lhs[0]) != "_" {
			w.replace(n.Lhs[0].Pos(), n.Rhs[0].Pos(), "_ = ")
		}
	case *ast.IncDecStmt, *ast.DeferStmt:
		w.replace(n.Pos(), n.End(), "")
	case *ast.ExprStmt: // log lines and spans are no behaviour that tests look for
		called := strings.ToLower(w.text(n.X))
		if strings.HasPrefix(called, "panic(") || strings.Contains(called, "log.") || strings.HasPrefix(called, "span.") {
			return false
		}
		w.replace(n.Pos(), n.End(), "")
	}
	return true
}
