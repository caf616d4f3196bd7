package test

import (
	"bufio"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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

// TestCodeWithTheModelServer follows test/modelserver/README.md: it runs the command that modelserver prints for a repository, approves each change, and
// the repository's tests pass (D7, D12).
func TestCodeWithTheModelServer(t *testing.T) {
	program, repository := filepath.Join(t.TempDir(), "modelserver"), filepath.Join(t.TempDir(), "shop")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./modelserver").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := exec.CommandContext(t.Context(), program, "-addr", "127.0.0.1:0", "-repo", repository, "testdata/repos/go.txtar")
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var requests strings.Builder
	server.Stderr = &requests
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	printed, err := bufio.NewReader(stdout).ReadString('\n')
	command := regexp.MustCompile(`^OPENAI_BASE_URL=(http://\S+)/v1 OPENAI_API_KEY=test pawl code --workspace "(.*)" --model openai:scripted "GOAL"\n$`).FindStringSubmatch(printed)
	if command == nil || command[2] != repository {
		t.Fatalf("modelserver printed %q, %v", printed, err)
	}
	sh := newShell(t, command[1])
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	sh.env = append(sh.env, "OPENAI_API_KEY=test", "GOCACHE="+strings.TrimSpace(string(cache)))
	out, errs, err := sh.pawl("code", "--workspace", repository, "--model", "openai:scripted", "Make the tests pass")
	next := regexp.MustCompile(`pawl (approve \S+ wait-\d+)`)
	for range 20 {
		approve := next.FindStringSubmatch(errs)
		if codeOf(err) != 2 || approve == nil {
			break
		}
		out, errs, err = sh.pawl(strings.Fields(approve[1])...)
	}
	if err != nil || !strings.Contains(errs, "to see the changes: pawl diff") {
		t.Errorf("pawl code: %v\n-- out\n%s-- err\n%s", err, out, errs)
	}
	test := exec.CommandContext(t.Context(), "go", "test", "./...")
	test.Dir, test.Env = repository, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("the tests of the repository: %v\n%s", err, out)
	}
	_ = server.Process.Kill()
	_ = server.Wait()
	if log := requests.String(); !strings.Contains(log, "status=200") || strings.Contains(log, "status=418") {
		t.Errorf("modelserver: %s", log)
	}
}
