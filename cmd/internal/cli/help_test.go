package cli

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"pawl.dev/cmd/internal/ui"
)

// Every command has a long help with examples, and every example that runs pawl is a command line.
func TestHelpTexts(t *testing.T) {
	var out strings.Builder
	app := &App{UI: &ui.UI{Out: &out, Err: &out}}
	parser, err := app.parser(&Grammar{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range parser.Model.Leaves(true) {
		path, _, _ := strings.Cut(node.FullPath(), " (") // its aliases
		_, examples, found := strings.Cut(node.Detail, "Examples:\n")
		if !found || !strings.Contains(examples, path) {
			t.Errorf("%s has no examples", path)
		}
		for line := range strings.Lines(examples) {
			checkExample(t, parser, strings.TrimSpace(line))
		}
	}
}

// checkExample checks the commands of a line. Tracing a command line leaves the parser as it was, so one parser serves all of them.
func checkExample(t *testing.T, parser *kong.Kong, line string) {
	t.Helper()
	for command := range strings.SplitSeq(line, " && ") {
		command, _, _ = strings.Cut(command, " | ")
		command, _, _ = strings.Cut(command, " > ")
		command, _, _ = strings.Cut(command, "   #")
		words, ok := strings.CutPrefix(command, "pawl ")
		if !ok {
			continue
		}
		trace, err := kong.Trace(parser, fields(words))
		if err == nil {
			err = trace.Error
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the files of examples are not here
			t.Errorf("%s: %v", command, err)
		}
	}
}

// fields splits a command line at spaces outside quotes, and takes the quotes away.
func fields(line string) []string {
	var list []string
	var word strings.Builder
	var quote rune
	quoted := false
	for _, r := range line + " " {
		switch {
		case quote == 0 && (r == '"' || r == '\''):
			quote, quoted = r, true
		case r == quote:
			quote = 0
		case r == ' ' && quote == 0:
			if word.Len() > 0 || quoted {
				list = append(list, word.String())
			}
			word.Reset()
			quoted = false
		default:
			word.WriteRune(r)
		}
	}
	return list
}
