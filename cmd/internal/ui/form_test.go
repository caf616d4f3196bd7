package ui_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"pawl.dev/cmd/internal/ui"
)

// A value with parts may be entered part by part, or as JSON.
func TestNestedForms(t *testing.T) {
	const schema = `{"type":"object","required":["legs"],"properties":{"legs":{"type":"array","items":{"type":"object","required":["to"],` +
		`"properties":{"days":{"type":"integer"},"to":{"type":"string"}}}},"tags":{"type":"array","items":{"type":"string"}}}}`
	fields, err := ui.Fields(schema)
	if err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{
		"+\n+\nBern\n3\n+\nBasel\n\n\n": `[{"days":3,"to":"Bern"},{"to":"Basel"}]`,
		"[{\"to\": \"Bern\"}]\n":        `[{"to":"Bern"}]`,
		"+\n{\"to\":\"Bern\"}\n\n":      `[{"to":"Bern"}]`,
		"\n[]\n":                        `[]`,
	} {
		var out bytes.Buffer
		p := &ui.Prompter{Lines: ui.NewLines(strings.NewReader(typed)), Out: &out}
		if got, err := p.Value(t.Context(), fields[0], "legs is required"); err != nil || string(got) != want {
			t.Errorf("%q: %s, %v\n%s", typed, got, err, out.String())
		}
	}
	var out bytes.Buffer
	p := &ui.Prompter{Lines: ui.NewLines(strings.NewReader("+\na\nb, c\n\n")), Out: &out}
	got, err := p.Value(t.Context(), fields[1], "")
	if want := `["a","b, c"]`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	if want := "  ? tags (array; + enters it part by part):   ? tags[1] (string) [empty: no more]: "; !strings.HasPrefix(out.String(), want) {
		t.Errorf("%q", out.String())
	}
}

func TestChoose(t *testing.T) {
	choices := []ui.Choice{{Word: "approve", Also: []string{"y", "yes"}, Means: "run it"}, {Word: "reject", Also: []string{"n"}, Means: "leave it"}}
	for typed, want := range map[string]string{"y\n": "approve", "YES\n": "approve", "n\n": "reject", "r\n": "reject", "approve\n": "approve", "x\n?\nn\n": "reject"} {
		var out bytes.Buffer
		p := &ui.Prompter{Lines: ui.NewLines(strings.NewReader(typed)), Out: &out}
		if got, err := p.Choose(t.Context(), choices...); err != nil || got != want {
			t.Errorf("%q: %q, %v", typed, got, err)
		}
		if strings.Contains(typed, "?") && !strings.Contains(out.String(), "a, y, yes   run it\n") {
			t.Errorf("%q", out.String())
		}
	}
}

// typing is a person who looks at the terminal before typing.
type typing struct {
	look func()
	text io.Reader
}

func (p typing) Read(b []byte) (int, error) {
	p.look()
	return p.text.Read(b)
}

// A question that is wider than the terminal takes several rows, which a line above it must erase.
func TestRowsOfAQuestion(t *testing.T) {
	for name, tc := range map[string]struct{ columns, want int }{"no terminal": {0, 1}, "wide": {80, 1}, "exact": {60, 1}, "narrow": {40, 3}, "very narrow": {20, 5}} {
		var out strings.Builder
		rows := 0
		p := &ui.Prompter{Out: &out, Style: ui.Style{Color: true}, Columns: tc.columns, Subject: "[docs] "}
		p.Lines = ui.NewLines(typing{func() { rows = p.Rows() }, strings.NewReader("v\n")})
		word, err := p.Choose(t.Context(), ui.Choice{Word: "approve"}, ui.Choice{Word: "grant", Label: "for this task"}, ui.Choice{Word: "view", Label: "all"})
		if err != nil || word != "view" || rows != tc.want || p.Rows() != 1 {
			t.Errorf("%s: %q, %v: %d rows, want %d; then %d\n%s", name, word, err, rows, tc.want, p.Rows(), out.String())
		}
	}
}
