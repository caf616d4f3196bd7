package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// benchTree is 2,000 source files of 5 KB; one in a hundred has the word.
func benchTree(b *testing.B) string {
	root := b.TempDir()
	filler := strings.Repeat("\tfor i := range steps { Commit(steps[i], journal) } // one at a time\n", 75)
	for i := range 2000 {
		dir := filepath.Join(root, fmt.Sprintf("pkg%02d", i/100), fmt.Sprintf("sub%d", i%10))
		must(b, os.MkdirAll(dir, 0o755))
		text := filler
		if i%100 == 0 {
			text += "the Ratchet\n"
		}
		must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%04d.go", i)), []byte(text), 0o644))
	}
	return root
}

func BenchmarkSearchCode(b *testing.B) {
	s := newServer(b, benchTree(b))
	yes := true
	for name, in := range map[string]searchCodeInput{
		"text":        {Query: "Ratchet"},
		"ignore case": {Query: "ratchet"},
		"whole word":  {Query: "Ratchet", WholeWord: true},
		"regex":       {Query: `the\s+R\w+t`, Regex: true},
		"regex fold":  {Query: `R[a]tchet`, Regex: true, IgnoreCase: &yes},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				out, err := s.searchCode(b.Context(), in, func(int, string) {})
				if err != nil || out.MatchCount != 20 || out.FilesSearched != 2000 {
					b.Fatalf("%+v, %v", out, err)
				}
			}
		})
	}
}

func BenchmarkSearchFiles(b *testing.B) {
	s := newServer(b, benchTree(b))
	for b.Loop() {
		out, err := s.searchFiles(b.Context(), searchFilesInput{Pattern: "**/sub3/*.go"}, func(int, string) {})
		if err != nil || out.Count != 200 {
			b.Fatalf("%+v, %v", out, err)
		}
	}
}
