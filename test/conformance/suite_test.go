package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"pawl.dev/test/rig"
)

const (
	// suiteTimeout bounds all scenarios of a revision.
	suiteTimeout = 3 * time.Minute
	// waitTimeout is the time that the suite gives each client; most of it the client waits for its turn.
	waitTimeout = 2 * time.Minute
	// tries is how often a scenario that is judged by the clock may run.
	tries = 3
)

// suite is the installed conformance suite.
type suite struct {
	node, script, folder string
	gate                 *gate
}

// check is one thing that the suite looked at, as it writes it to checks.json.
type check struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Status       string `json:"status"`
	ErrorMessage string `json:"errorMessage"`
}

// findings are the results of a scenario.
type findings struct {
	passed int
	failed []check
	said   string // by the client
}

// requirements are those that the suite lists for a revision.
type requirements struct {
	Client    []string `json:"client"`
	Server    []string `json:"server"`
	NotScored []struct {
		Scenario string `json:"scenario"`
		Leg      string `json:"leg"`
	} `json:"not_scored"`
}

func install(t *testing.T) suite {
	s := suite{folder: rig.NPM(t, "..", "@modelcontextprotocol/conformance"), gate: openGate(t, runtime.NumCPU())}
	s.script = filepath.Join(s.folder, "dist", "index.js")
	s.node = rig.Node(t, "..")
	return s
}

func (s suite) requirements(t *testing.T, revision string) requirements {
	var r requirements
	raw, err := os.ReadFile(filepath.Join(s.folder, "requirements", revision+".yaml"))
	if err == nil {
		err = yaml.Unmarshal(raw, &r)
	}
	if err != nil || len(r.Client) == 0 {
		t.Fatalf("the suite's requirements of %s: %v, %v", revision, r, err)
	}
	return r
}

// run runs the suite and reads its results.
func (s suite) run(t *testing.T, args ...string) map[string]findings {
	return s.collect(t, append([]string{"client", "--command", os.Args[0], "--timeout", fmt.Sprint(waitTimeout.Milliseconds())}, args...))
}

// collect runs the suite with the arguments and reads its results.
func (s suite) collect(t *testing.T, args []string) map[string]findings {
	out := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), suiteTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.node, append([]string{s.script, args[0], "--output-dir", out}, args[1:]...)...)
	cmd.Env = append(os.Environ(), gateVariable+"="+s.gate.addr)
	said, err := cmd.CombinedOutput()
	all := make(map[string]findings)
	if err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "checks.json" {
			return err
		}
		name, f, err := read(out, filepath.Dir(path))
		all[name] = f
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("the suite has no results: %v\n%s", err, said)
	}
	return all
}

// stamp is the suffix that the suite adds to a scenario's name to name a folder.
var stamp = regexp.MustCompile(`-\d{4}-\d{2}-\d{2}T[\d-]+Z$`)

// read reads the results of a scenario.
func read(out, folder string) (string, findings, error) {
	name, err := filepath.Rel(out, folder)
	if err != nil {
		return "", findings{}, err
	}
	name = stamp.ReplaceAllString(filepath.ToSlash(name), "")
	raw, err := os.ReadFile(filepath.Join(folder, "checks.json"))
	if err != nil {
		return name, findings{}, err
	}
	var checks []check
	if err := json.Unmarshal(raw, &checks); err != nil {
		return name, findings{}, err
	}
	said, err := os.ReadFile(filepath.Join(folder, "stderr.txt"))
	if errors.Is(err, fs.ErrNotExist) { // of a server, the suite starts no program
		err = nil
	}
	f := findings{said: string(said)}
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			f.passed++
		case "FAILURE", "WARNING":
			f.failed = append(f.failed, c)
		}
	}
	return name, f, err
}
