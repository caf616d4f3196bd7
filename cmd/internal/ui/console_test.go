package ui_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/cmd/internal/ui"
)

func env(name, value string) func(string) string {
	return func(asked string) string {
		if asked == name {
			return value
		}
		return ""
	}
}

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEditor(t *testing.T) {
	if ui.Editor(env("", "")) != nil {
		t.Error("an editor from nowhere")
	}
	edit := ui.Editor(env("EDITOR", script(t, `echo "$1" > "$2"`)+" changed"))
	if got, err := edit(t.Context(), "before"); err != nil || got != "changed\n" {
		t.Errorf("%q, %v", got, err)
	}
	edit = ui.Editor(env("VISUAL", script(t, "exit 3")))
	if _, err := edit(t.Context(), "before"); err == nil || !strings.Contains(err.Error(), "run the editor") {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "pawl-*.json")); len(left) > 0 {
		t.Logf("files that may be another's: %v", left)
	}
}

func TestConsoleOfThisProcess(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	t.Setenv("TERM", "dumb")
	c := ui.OS()
	if c.Color || c.Live {
		t.Errorf("NO_COLOR and a dumb terminal: %+v", c)
	}
	c.InTTY, c.ErrTTY = true, false
	if c.CanAsk() {
		t.Error("it would ask where no person sees the question")
	}
	_ = c.Columns()
}

func TestOutputKeepsItsFirstError(t *testing.T) {
	var buf bytes.Buffer
	out := &ui.FirstError{W: &buf}
	if _, err := io.WriteString(out, "x"); err != nil || out.Err != nil || buf.String() != "x" {
		t.Errorf("%v, %v, %q", err, out.Err, buf.String())
	}
	r, w := io.Pipe()
	first := errors.New("first")
	_ = r.CloseWithError(first)
	out.W = w
	for range 2 {
		if _, err := io.WriteString(out, "x"); !errors.Is(err, first) || !errors.Is(out.Err, first) {
			t.Errorf("%v, %v", err, out.Err)
		}
	}
}
