package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"pawl.dev/mcppool-svc/internal/process"
)

type testsInput struct {
	Path    string `json:"path"`
	Filter  string `json:"filter"`
	Timeout int    `json:"timeout_seconds"`
	Runner  string `json:"runner"`
}

type testsOutput struct {
	Runner  string   `json:"runner"`
	Command []string `json:"command"`
	OK      bool     `json:"ok"`
	testReport
	ran
	Output    string `json:"output"`
	Truncated int64  `json:"truncated_bytes"`
}

func (o testsOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped (%s)\n", strings.Join(o.Command, " "), o.Passed, o.Failed, o.Skipped, o.summary())
	for _, f := range o.Failures {
		fmt.Fprintf(&b, "\nFAIL %s", f.Name)
		if f.Line > 0 {
			fmt.Fprintf(&b, " (%s:%d)", f.File, f.Line)
		}
		fmt.Fprintf(&b, "\n%s\n", f.Message)
	}
	if more := o.Failed - len(o.Failures); more > 0 && len(o.Failures) > 0 {
		fmt.Fprintf(&b, "\n… and %d more failed\n", more)
	}
	return b.String()
}

// testRun is a run of tests that is about to start.
type testRun struct {
	dir    string // the folder with the marker, relative to the root
	target string // what to test, relative to dir: a file or a folder
	folder bool   // target is a folder
	filter string
	script string // the marker's line about tests
	report string // the file for a report, see testReport.readReport
}

// testRunner is a program that runs tests.
type testRunner struct {
	name    string
	markers []string       // files that tell that a folder's tests are run by it
	tells   *regexp.Regexp // what a marker must contain
	command func(testRun) []string
}

// testRunners in their order of precedence within a folder.
var testRunners = []testRunner{
	{"go", []string{"go.mod"}, regexp.MustCompile(`(?m)^module\s+(\S+)`), goCommand},
	{"cargo", []string{"Cargo.toml"}, regexp.MustCompile(``), cargoCommand},
	{"npm", []string{"package.json"}, regexp.MustCompile(`"test"\s*:\s*"((?:[^"\\]|\\.)+)"`), npmCommand},
	{"pytest", []string{"pytest.ini", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "conftest.py", "tests"}, regexp.MustCompile(``), pytestCommand},
	{"make", []string{"GNUmakefile", "makefile", "Makefile"}, regexp.MustCompile(`(?m)^test\s*:`), makeCommand},
}

func goCommand(r testRun) []string {
	argv := []string{"go", "test", "-json"}
	if r.filter != "" {
		argv = append(argv, "-run", r.filter)
	}
	if !r.folder {
		return append(argv, "./"+path.Dir(r.target))
	}
	return append(argv, "./"+path.Join(r.target, "..."))
}

func cargoCommand(r testRun) []string {
	argv := []string{"cargo", "test", "--no-fail-fast"}
	if r.filter != "" {
		argv = append(argv, r.filter)
	}
	return argv
}

// npmCommand asks for a report and passes the filter on, in the way of the test program that the script names.
func npmCommand(r testRun) []string {
	argv, filter := []string{"npm", "test", "--silent", "--"}, []string{"-t", r.filter}
	switch {
	case strings.Contains(r.script, "mocha"):
		argv = append(argv, "--reporter", "xunit", "--reporter-option", "output="+r.report)
		filter[0] = "--grep"
	case strings.Contains(r.script, "vitest"):
		argv = append(argv, "--reporter=default", "--reporter=junit", "--outputFile.junit="+r.report)
	case strings.Contains(r.script, "jest"):
		argv = append(argv, "--json", "--outputFile="+r.report)
	case strings.Contains(r.script, "--test"): // see nodeOptions
		filter = []string{"--test-name-pattern=" + r.filter}
	}
	if r.filter != "" {
		argv = append(argv, filter...)
	}
	if r.target != "." {
		argv = append(argv, r.target)
	}
	return argv
}

// nodeOptions makes node's own test program write a report, unless the script chooses its reports.
func nodeOptions(r testRun) string {
	if !strings.Contains(r.script, "--test") || strings.Contains(r.script, "--test-reporter") {
		return ""
	}
	return fmt.Sprintf("--test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit --test-reporter-destination=%q", r.report)
}

func pytestCommand(r testRun) []string {
	argv := []string{"pytest"}
	if _, err := process.Find("pytest", os.Getenv("PATH"), ""); err != nil {
		argv = []string{"python3", "-m", "pytest"}
	}
	argv = append(argv, "-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", "--junitxml="+r.report)
	if r.filter != "" {
		argv = append(argv, "-k", r.filter)
	}
	return append(argv, r.target)
}

func makeCommand(testRun) []string { return []string{"make", "test"} }

// runTests runs the tests of a folder or file by the program that the nearest marker file, up to the root, tells.
func (s *Server) runTests(ctx context.Context, in testsInput, report reporter) (testsOutput, error) {
	runner, run, err := s.findTests(in)
	if err != nil {
		return testsOutput{}, err
	}
	private, err := s.scratch.path()
	if err != nil {
		return testsOutput{}, err
	}
	results, err := os.CreateTemp(private, "tests-*.xml") // not in a folder that a program can replace by a link
	if err != nil {
		return testsOutput{}, fmt.Errorf("make a file for the test report: %w", err)
	}
	defer func() { _ = errors.Join(results.Close(), os.Remove(results.Name())) }()
	run.filter, run.report = in.Filter, results.Name()

	o := testsOutput{Runner: runner.name, Command: runner.command(run), testReport: testReport{Failures: []failure{}}}
	out := capture{report: report}
	lines := lineWriter{pass: func(line string) { _, _ = out.Write([]byte(line)) }}
	if runner.name == "go" {
		parse := parseGo(&o.testReport, run)
		lines.pass = func(line string) { _, _ = out.Write([]byte(parse(line))) }
	}
	o.ran, err = s.runProgram(ctx, program{
		argv: o.Command, dir: run.dir, timeout: in.Timeout, network: s.options.Network,
		env: map[string]string{
			"CI": "true", "CARGO_NET_OFFLINE": fmt.Sprint(!s.options.Network), "PYTHONDONTWRITEBYTECODE": "1", "NODE_OPTIONS": nodeOptions(run),
		},
	}, &lines)
	if err != nil {
		return testsOutput{}, err
	}
	lines.flush()
	o.Output, o.Truncated = out.text()
	if runner.name != "go" {
		data, _ := io.ReadAll(io.LimitReader(results, maxReport)) // none: there is the output
		o.readReport(data)
		o.readText(o.Output)
		o.findFiles(o.Output)
	}
	o.OK = o.ExitCode == 0 && !o.TimedOut
	if !o.OK && o.Failed == 0 {
		o.fail(failure{Name: strings.Join(o.Command, " "), Message: o.summary() + "\n" + o.Output[max(0, len(o.Output)-maxMessage/2):]})
	}
	for i := range o.Failures {
		o.Failures[i].File = s.relativeTo(run.dir, o.Failures[i].File)
	}
	return o, nil
}

// relativeTo makes the path of a file that a program in dir printed relative to the root, if the file is in the workspace.
func (s *Server) relativeTo(dir, file string) string {
	if file == "" || filepath.IsAbs(file) {
		return filepath.ToSlash(s.toRelative(file))
	}
	return path.Join(dir, filepath.ToSlash(file))
}

// findTests returns the runner for a path, and the run without its filter.
func (s *Server) findTests(in testsInput) (testRunner, testRun, error) {
	rel, err := s.locate(cmp.Or(in.Path, "."))
	if err != nil {
		return testRunner{}, testRun{}, err
	}
	info, err := s.stat(rel)
	if err != nil {
		return testRunner{}, testRun{}, s.explain(rel, err)
	}
	dir := rel
	if !info.IsDir() {
		dir = path.Dir(rel)
	}
	for {
		for _, runner := range testRunners {
			if in.Runner != "" && runner.name != in.Runner {
				continue
			}
			if script, ok := s.marked(dir, runner); ok {
				target, err := filepath.Rel(filepath.FromSlash(dir), filepath.FromSlash(rel))
				return runner, testRun{dir: dir, target: filepath.ToSlash(target), folder: info.IsDir(), script: script}, err
			}
		}
		if dir == "." {
			break
		}
		dir = path.Dir(dir)
	}
	return testRunner{}, testRun{}, fmt.Errorf("found no tests to run for %q: there is no go.mod, Cargo.toml, package.json with a test script, pytest.ini, pyproject.toml, "+
		"tests folder, or Makefile with a target test in it or above it; name another path, or run a program by execute_command", rel)
}

// marked reports whether a folder has a marker of a runner, and returns what the marker tells.
func (s *Server) marked(dir string, r testRunner) (script string, ok bool) {
	for _, marker := range r.markers {
		name := path.Join(dir, marker)
		if info, err := s.stat(name); err == nil && info.IsDir() {
			return "", marker == "tests"
		}
		f, info, err := openRegular(s.root, name)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(f, min(info.Size(), 1<<20)))
		_ = f.Close()
		if found := r.tells.FindSubmatch(text); found != nil {
			return string(slices.Concat(found[1:]...)), true
		}
	}
	return "", false
}
