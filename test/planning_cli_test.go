package test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/test/modelserver/modeltest"
)

// TestModelFirstRun names models without a file, as a first-time user does, with nothing but the providers' variables.
func TestModelFirstRun(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "wheel.txt"), []byte("The pawl holds the wheel."))
	model := modeltest.New(&modeltest.Script{Model: "m", Key: "sk-first", Play: func(r *modeltest.Request) *modeltest.Turn {
		if strings.Contains(strings.Join(r.Texts, "\n"), "The pawl holds") {
			return &modeltest.Turn{Text: "A pawl."}
		}
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "read_file", Arguments: json.RawMessage(`{"path":"wheel.txt"}`)}}}
	}}, nil)
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	env := append(os.Environ(), "HOME="+t.TempDir(), "PAWL_DATA="+t.TempDir(), "OPENAI_API_KEY=sk-first", "OPENAI_BASE_URL="+server.URL+"/v1",
		"ANTHROPIC_API_KEY=sk-first", "ANTHROPIC_BASE_URL="+server.URL)
	run := func(args ...string) (string, string, error) {
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), binaries.Pawl, append([]string{"run", "--auto", "--workspace", dir}, args...)...)
		cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &errs
		err := cmd.Run()
		return out.String(), errs.String(), err
	}
	for _, name := range []string{"openai:m", "anthropic:m"} {
		before := len(model.Requests())
		out, errs, err := run("--model", name, "What holds the wheel?")
		if err != nil || !strings.Contains(out, "A pawl.") {
			t.Errorf("%s: %q, %v\n%s", name, out, err, errs)
		}
		if n := len(rejected(t, model)) - before; n != 2 {
			t.Errorf("%s: %d model calls", name, n)
		}
	}
	// A key alone sends nothing anywhere.
	before := len(model.Requests())
	if _, errs, _ := run("How many files are there?"); len(model.Requests()) != before {
		t.Errorf("without a model: %d requests\n%s", len(model.Requests())-before, errs)
	}
	// A wrong name says how to choose one.
	if _, errs, err := run("--model", "gpt-5", "What holds the wheel?"); err == nil || !strings.Contains(errs, "openai:MODEL") {
		t.Errorf("a wrong name: %v\n%s", err, errs)
	}
}
