package test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"pawl.dev/test/modelserver/modeltest"
)

// TestCodeThroughTheCLI edits a file while `pawl code` works on it: the task's next write is refused, the edit stays, and `pawl undo` does not touch
// it unless it is forced (D8, D12).
func TestCodeThroughTheCLI(t *testing.T) {
	dir := t.TempDir()
	c, r := readCase(t, "cases/coding/person-edits.yaml", dir), newRepository(t, "text", dir)
	coders := &modeltest.Coders{}
	coders.Add(dir, r.script(t, c))
	model := modeltest.New(&modeltest.Script{Model: "m", Key: "sk-first", Play: coders.Play}, nil)
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	sh, file := newShell(t, server.URL), filepath.Join(dir, "shared.txt")
	holds := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(file); string(got) != want {
			t.Errorf("the file holds %q, want %q; %v", got, want, err)
		}
	}
	sh.expect(2, "", "pawl approve ", "code", "--model", "openai:m", "--workspace", dir, c.GetTask().GetGoal())
	holds("one\n")
	sh.expect(2, "", "pawl approve ", "approve", "last")
	holds("one\ntwo\n")
	write(t, file, []byte("mine\n"))
	sh.expect(0, "Left as it was found.", "", "approve", "last")
	holds("mine\n")
	sh.expect(1, "", "changed other than by the task's file tools: shared.txt; nothing was undone", "undo", "last", "--yes")
	holds("mine\n")
	sh.expect(0, "", "", "undo", "last", "--yes", "--force")
	holds("one\n")
	for _, problem := range coders.Problems(dir) {
		t.Errorf("a request to the model: %s", problem)
	}
	rejected(t, model)
}
