package modeltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The README's example answers the requests of a task with a plan; its turns answer others.
func TestCodingScript(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(readme), "```yaml\ncoding:\n")
	example, _, _ = strings.Cut(example, "```")
	_, base := start(t, "coding:\n"+example+"turns: [{when: {contains: Hello}, text: Good day}]")
	const thought = `{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":"The goal\nSay hello"},` +
		`{"role":"user","content":"The subtask that you work on: hello, Hello\nIt is done when\nit is"}%s],` +
		`"tools":[{"type":"function","function":{"name":"reflect","parameters":{"type":"object"}}},{"type":"function","function":{"name":"ws__write_file","parameters":{"type":"object"}}}]}`
	system := strings.Repeat("Work. ", 20)
	for _, c := range []struct{ body, says string }{
		{fmt.Sprintf(chat, ""), "Good day"},
		{fmt.Sprintf(chat, `,"response_format":{"type":"json_schema","json_schema":{"name":"create_plan","schema":{"type":"object"}}}`), `\"main_task\":\"Say hello\"`},
		{fmt.Sprintf(thought, system, ""), `ws__write_file`},
		{`{"model":"m","messages":[{"role":"user","content":"Other"}]}`, "the script has no turn"},
	} {
		if _, got := post(t.Context(), t, base, "openai", c.body); !strings.Contains(got, c.says) {
			t.Errorf("%s: %s, want %q", c.body, got, c.says)
		}
	}
	for _, wrong := range []string{"coding: {plan: []}", `coding: {subtasks: {a: [{until: "("}]}}`} {
		if _, err := Parse(wrong); err == nil {
			t.Errorf("%s is a script", wrong)
		}
	}
}

// An archive of a repository that is mended has the script that mends it.
func TestArchives(t *testing.T) {
	archives, err := filepath.Glob("../../testdata/repos/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(err)
	}
	for _, path := range archives {
		script, err := Load(path)
		if mended := !strings.HasSuffix(path, "text.txtar"); err != nil || mended && (len(script.Coding.Plans) == 0 || script.Coding.Answer == "") {
			t.Errorf("%s: %v %v", path, script, err)
		}
		dir := filepath.Join(t.TempDir(), "repo")
		if err := WriteRepository(path, dir); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) < 2 {
			t.Errorf("%s: %v %v", path, files, err)
		}
		if err := WriteRepository(path, dir); err == nil {
			t.Error("files were written over others")
		}
	}
	if err := WriteRepository("README.md", t.TempDir()); err == nil {
		t.Error("an archive that does not exist was written")
	}
}
