package ui_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func TestTextAndLine(t *testing.T) {
	for in, want := range map[string][2]string{
		"plain":              {"plain", "plain"},
		"两行\nzwei":           {"两行\nzwei", "两行 zwei"},
		"a\r\nb\tc":          {"a\nb\tc", "a b c"},
		"\x1b[31mred":        {"␛[31mred", "␛[31mred"},
		"over\rwrite":        {"over␍write", "over␍write"},
		"\u009b31m":          {`\u009b31m`, `\u009b31m`},
		"a\u202eb":           {`a\u202eb`, `a\u202eb`},
		"zero\u200bwidth":    {`zero\u200bwidth`, `zero\u200bwidth`},
		"bad \xff byte":      {`bad \xff byte`, `bad \xff byte`},
		"del\x7f":            {"del␡", "del␡"},
		"tag \U000e0041":     {`tag \ue0041`, `tag \ue0041`},
		"replacement \ufffd": {"replacement \ufffd", "replacement \ufffd"},
	} {
		if diff := cmp.Diff(want, [2]string{ui.Text(in), ui.Line(in)}); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b]8;;x\x07\u009b\u202e\xff")
	f.Fuzz(func(t *testing.T, in string) {
		for _, out := range []string{ui.Text(in), ui.Line(in)} {
			if !utf8.ValidString(out) {
				t.Errorf("%q became %q, which is not UTF-8", in, out)
			}
			if i := strings.IndexFunc(out, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
				t.Errorf("%q became %q, which has a control character", in, out)
			}
		}
		if strings.ContainsAny(ui.Line(in), "\n\t") {
			t.Errorf("%q is more than a line", in)
		}
	})
}

func TestFit(t *testing.T) {
	for _, tc := range []struct {
		in   string
		n    int
		want string
	}{
		{"short", 10, "short"},
		{"exactly", 7, "exactly"},
		{"too long", 5, "too …"},
		{"汉字很宽", 8, "汉字很宽"},
		{"汉字很宽", 7, "汉字很…"},
		{"汉字很宽", 6, "汉字…"},
		{"e\u0301tude", 5, "e\u0301tude"},
		{"anything", 0, "anything"},
	} {
		if got := ui.Fit(tc.in, tc.n); got != tc.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", tc.in, tc.n, got, tc.want)
		}
	}
}

// What a person is shown and edits is the same JSON, whatever characters it holds.
func TestPrettyJSONKeepsTheValue(t *testing.T) {
	for raw, want := range map[string]string{
		`{"n":9007199254740993,"x":1.10}`: "{\n  \"n\": 9007199254740993,\n  \"x\": 1.10\n}",
		"{\"a\":\"\u202eb\u007f\"}":       "{\n  \"a\": \"\\u202eb\\u007f\"\n}",
		"{\"a\":\"\U000e0041\"}":          "{\n  \"a\": \"\\udb40\\udc41\"\n}",
		"":                                "{}",
		"not json \x1b":                   "not json ␛",
	} {
		if diff := cmp.Diff(want, ui.PrettyJSON(raw, "")); diff != "" {
			t.Errorf("%q: %s", raw, diff)
		}
	}
}

func TestDocument(t *testing.T) {
	var out bytes.Buffer
	task := &executorv1.Task{Id: "x", Goal: "<&> \u009b", LastSeq: 9007199254740993}
	if err := (&ui.UI{Out: &out}).Document(task); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"id\": \"x\",\n  \"goal\": \"<&> \\u009b\",\n  \"lastSeq\": \"9007199254740993\"\n}\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.00s", 40 * time.Millisecond: "0.04s", 1300 * time.Millisecond: "1.3s",
		125 * time.Second: "2m05s", 3*time.Hour + 7*time.Minute: "3h07m",
	} {
		if got := ui.Duration(d); got != want {
			t.Errorf("Duration(%s) = %s, want %s", d, got, want)
		}
	}
	now := time.Unix(1_000_000, 0)
	for d, want := range map[time.Duration]string{
		5 * time.Second: "5s", 3 * time.Minute: "3m", 30 * time.Hour: "1d", -time.Minute: "0s",
	} {
		if got := ui.Age(now.Add(-d), now); got != want {
			t.Errorf("Age(%s) = %s, want %s", d, got, want)
		}
	}
	if got := ui.Age(time.Time{}, now); got != "" {
		t.Errorf("Age of no time = %q", got)
	}
}

func TestTable(t *testing.T) {
	table := ui.Table{Columns: 30}
	table.Row("ID", "STATE", "GOAL")
	table.Row("1", "done", "汉字 and a goal that is far too long")
	table.Row("22", "waiting", "two\nlines \x1b[31m")
	var out bytes.Buffer
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := "ID  STATE    GOAL\n1   done     汉字 and a goal …\n22  waiting  two lines ␛[31m\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// If the other columns leave no room for the last one, it goes on a line of its own, and no line is wider than the terminal.
func TestNarrowTable(t *testing.T) {
	table := ui.Table{Columns: 40}
	table.Row("ID", "ACTIVE", "CONNECTION", "WHAT")
	table.Row("workspace", "yes", "connecting", "files of /home/ann/projects/pawl/and/more")
	table.Row("", "", "", "✗ it does not start")
	table.Row("off", "no", "", "")
	var out bytes.Buffer
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := "ID         ACTIVE  CONNECTION\n  WHAT\nworkspace  yes     connecting\n  files of /home/ann/projects/pawl/and/…\n  ✗ it does not start\noff        no\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestBrief(t *testing.T) {
	const trace = "MCP server fs: it ended; its stderr ends with: Error: no\n    at f (a.js:1)\n\x1b[2J"
	if got := ui.Brief("fs", trace); got != "it ended" {
		t.Errorf("in brief: %q", got)
	}
	if got := ui.Brief("x", "\nTraceback\nmore"); got != "Traceback …" {
		t.Errorf("in brief: %q", got)
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		text                string
		columns, used, hang int
		want                string
	}{
		{"short", 10, 0, 2, "short"}, {"", 10, 3, 2, ""}, {"a b\n", 0, 0, 2, "a b"}, {"two words", 6, 0, 2, "two\n  words"},
		{"see https://example.com/a/long/path there", 40, 38, 2, "see\n  https://example.com/a/long/path there"},
		{"go on with pawl show 12, or (pawl mcp list) now", 12, 0, 0, "go on with\npawl show 12,\nor\n(pawl mcp list)\nnow"},
		{"one  two", 8, 0, 0, "one  two"}, {"汉字 汉字 汉字", 9, 0, 0, "汉字 汉字\n汉字"}, {"x\n    at y z", 40, 0, 2, "x\n      at y z"},
	} {
		if got := ui.Wrap(tt.text, tt.columns, tt.used, tt.hang); got != tt.want {
			t.Errorf("%q in %d: %q, want %q", tt.text, tt.columns, got, tt.want)
		}
	}
}

func TestStatusNames(t *testing.T) {
	for _, word := range []string{"new", "running", "waiting", "done", "failed", "cancelled"} {
		if statuses := ui.StatusesOf(word); len(statuses) != 1 || ui.StatusName(statuses[0]) != word {
			t.Errorf("%s is %v", word, statuses)
		}
	}
	if statuses := ui.StatusesOf("unspecified"); len(statuses) > 0 {
		t.Errorf("unspecified is %v", statuses)
	}
}

func TestEnumNames(t *testing.T) {
	for word, e := range map[string]protoreflect.Enum{
		"by-risk": executorv1.Confirm_CONFIRM_BY_RISK, "": executorv1.Confirm(99), "ready": mcppoolv1.ConnectionState_CONNECTION_STATE_READY,
	} {
		if got := ui.EnumName(e); got != word {
			t.Errorf("%v is %q, want %q", e, got, word)
		}
	}
	if got := ui.EnumValue[executorv1.Confirm]("by-risk"); got != executorv1.Confirm_CONFIRM_BY_RISK {
		t.Error(got)
	}
	if got := ui.EnumValue[executorv1.Confirm]("sometimes"); got != 0 {
		t.Error(got)
	}
}
