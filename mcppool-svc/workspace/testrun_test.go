package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func requireProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(err)
	}
}

// outcomeOf returns a result without its messages and times.
func outcomeOf(o testsOutput) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ok=%v passed=%d failed=%d skipped=%d\n", o.Runner, o.OK, o.Passed, o.Failed, o.Skipped)
	for _, f := range o.Failures {
		fmt.Fprintf(&b, "%s %s:%d\n", f.Name, f.File, f.Line)
	}
	return b.String()
}

// D12: run_tests on a real Go module, with failing tests, and packages that do not compile or pass vet.
func TestD12RunTestsGo(t *testing.T) {
	requireProgram(t, "go")
	root := tree(t, map[string]string{
		"mod/go.mod": "module example.com/mod\n\ngo 1.25\n",
		"mod/sub/a_test.go": `package sub

import "testing"

func TestA(t *testing.T) {
	t.Run("one", func(t *testing.T) { t.Log("note"); t.Errorf("got %d\nwant 2", 1) })
	t.Run("two", func(t *testing.T) {})
}
func TestSkip(t *testing.T) { t.Skip("later") }
func TestPanic(t *testing.T) { var m map[string]int; m["a"] = 1 }
`,
		"mod/good/a_test.go": "package good\n\nimport \"testing\"\n\nfunc TestFine(t *testing.T) {}\nfunc TestMore(t *testing.T) {}\n",
		"mod/bad/bad.go":     "package bad\n\nfunc X() int { return \"a\" }\n", "mod/bad/bad_test.go": "package bad\n",
		"mod/vetted/v_test.go": "package vetted\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc TestV(t *testing.T) { fmt.Printf(\"%d\\n\", \"x\") }\n",
		"mod/exits/e_test.go":  "package exits\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { println(\"no setup\"); os.Exit(3) }\nfunc TestE(t *testing.T) {}\n",
	})
	c := inProcess(t, newServer(t, root, Options{Write: true}))
	tests := map[string]struct {
		args args
		want string
	}{
		"all": {args{"path": "mod"}, `go ok=false passed=3 failed=5 skipped=1
example.com/mod/bad [example.com/mod/bad.test] mod/bad/bad.go:3
example.com/mod/exits :0
example.com/mod/sub.TestA/one mod/sub/a_test.go:6
example.com/mod/sub.TestPanic mod/sub/a_test.go:10
example.com/mod/vetted [example.com/mod/vetted.test] mod/vetted/v_test.go:8
`},
		"a package": {args{"path": "mod/good"}, "go ok=true passed=2 failed=0 skipped=0\n"},
		"a file":    {args{"path": "mod/good/a_test.go"}, "go ok=true passed=2 failed=0 skipped=0\n"},
		"a filter":  {args{"path": "mod/good", "filter": "TestFine"}, "go ok=true passed=1 failed=0 skipped=0\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, text := callText[testsOutput](t, c, "run_tests", tt.args)
			again := call[testsOutput](t, c, "run_tests", tt.args)
			if out.OK && !strings.Contains(again.Output, "(cached)") {
				t.Errorf("Go's cache does not work: %s", again.Output)
			}
			got := outcomeOf(out)
			if name == "all" { // packages run side by side: sort
				lines := strings.SplitAfter(got, "\n")
				slices.Sort(lines[1:])
				got = strings.Join(lines, "")
				wantContains(t, text, "got 1", "want 2", "cannot use \"a\"", "assignment to entry in nil map", "no setup", "wrong type string", "sub/a_test.go:6")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s\n%s", diff, out.Output)
			}
			if strings.Contains(out.Output, "=== RUN") || strings.Contains(out.Output, `"Action"`) {
				t.Errorf("output: %s", out.Output)
			}
		})
	}
}

// D12: run_tests on a real project for Node's test runner.
func TestD12RunTestsNode(t *testing.T) {
	requireProgram(t, "npm")
	root := tree(t, map[string]string{
		"package.json": `{"name": "x", "scripts": {"test": "node --test"}}`,
		"sum.js":       "exports.sum = (a, b) => a - b;\n",
		"test/sum.test.js": `const test = require('node:test');
const assert = require('node:assert');
const { sum } = require('../sum');
test('adds', () => { assert.strictEqual(sum(1, 2), 3); });
test('zero', () => { assert.strictEqual(sum(0, 0), 0); });
test('later', { skip: true }, () => {});
test.describe('group', () => { test('inner', () => { throw new Error('boom'); }); test('fine', () => {}); });
`,
		"test/broken.test.js": "const x = ;\n",
	})
	c := inProcess(t, newServer(t, root, Options{Write: true}))
	out, text := callText[testsOutput](t, c, "run_tests", args{})
	want := `npm ok=false passed=2 failed=3 skipped=1
` + filepath.Join(root, "test/broken.test.js") + ` test/broken.test.js:1
adds test/sum.test.js:4
inner test/sum.test.js:7
`
	if diff := cmp.Diff(want, outcomeOf(out)); diff != "" {
		t.Errorf("%s\n%s", diff, out.Output)
	}
	wantContains(t, text, "-1 !== 3", "boom", "SyntaxError")
	must(t, os.Remove(filepath.Join(root, "test/broken.test.js")))
	must(t, os.WriteFile(filepath.Join(root, "sum.js"), []byte("exports.sum = (a, b) => a + b;\n"), 0o600))
	out = call[testsOutput](t, c, "run_tests", args{"filter": "adds"})
	if !out.OK || out.Passed != 1 || out.Failed != 0 {
		t.Errorf("%s%s", outcomeOf(out), out.Output)
	}
}

func TestD12RunTestsMakeAndPytest(t *testing.T) {
	requireProgram(t, "make")
	root := tree(t, map[string]string{
		"m/Makefile":        "test: build\n\t@echo running\n\t@echo x.c:3:5: error: no such thing >&2; exit 2\nbuild:\n",
		"py/pyproject.toml": "", "py/test_a.py": "def test_a():\n    x = 1\n    assert x == 2, 'not two'\ndef test_b(): pass\n",
		"other/Makefile": "all:\n",
	})
	c := inProcess(t, newServer(t, root, Options{Write: true}))
	out := call[testsOutput](t, c, "run_tests", args{"path": "m"})
	if got := outcomeOf(out); got != "make ok=false passed=0 failed=1 skipped=0\nx.c m/x.c:3\n" || out.ExitCode != 2 {
		t.Errorf("%s%s", got, out.Output)
	}
	wantContains(t, callError(t, c, "run_tests", args{"path": "other"}), "found no tests", "go.mod")
	wantContains(t, callError(t, c, "run_tests", args{"path": "m", "runner": "go"}), "found no tests")
	wantContains(t, callError(t, c, "run_tests", args{"path": "none"}), "does not exist")
	wantContains(t, callError(t, c, "run_tests", args{"path": "m", "filter": "-x"}), "schema")
	if exec.Command("pytest", "--version").Run() != nil {
		t.Skip("pytest is not installed")
	}
	out = call[testsOutput](t, c, "run_tests", args{"path": "py/test_a.py"})
	if got := outcomeOf(out); got != "pytest ok=false passed=1 failed=1 skipped=0\ntest_a.test_a py/test_a.py:3\n" {
		t.Errorf("%s%s", got, out.Output)
	}
}

func TestD12RunTestsCargo(t *testing.T) {
	if exec.Command("cargo", "--version").Run() != nil {
		t.Skip("cargo is not installed")
	}
	root := tree(t, map[string]string{
		"Cargo.toml": "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a - b }\n#[test]\nfn adds() { assert_eq!(add(1, 2), 3); }\n#[test]\nfn zero() { assert_eq!(add(0, 0), 0); }\n",
	})
	c := inProcess(t, newServer(t, root, Options{Write: true}))
	out := call[testsOutput](t, c, "run_tests", args{"path": "src/lib.rs"})
	if got := outcomeOf(out); got != "cargo ok=false passed=1 failed=1 skipped=0\nadds src/lib.rs:3\n" {
		t.Errorf("%s%s", got, out.Output)
	}
	if out := call[testsOutput](t, c, "run_tests", args{"filter": "zero"}); !out.OK || out.Passed != 1 {
		t.Errorf("%s%s", outcomeOf(out), out.Output)
	}
}

// Tests that fail without telling which are one failure, with the end of the output.
func TestUnknownFailure(t *testing.T) {
	requireProgram(t, "make")
	root := tree(t, map[string]string{"Makefile": "test:\n\t@echo something odd; exit 1\n"})
	out := call[testsOutput](t, inProcess(t, newServer(t, root, Options{Write: true})), "run_tests", args{})
	if len(out.Failures) != 1 || out.OK || out.Failed != 1 {
		t.Fatalf("%+v", out)
	}
	wantContains(t, out.Failures[0].Message, "something odd", "exit code 2")
}

// The parsers on the real reports and output of test programs, in testdata/output.
func TestParsersOfRealOutput(t *testing.T) {
	tests := map[string]struct {
		want     testReport
		messages []string // parts, in order of the failures
	}{
		"jest.json": {testReport{Passed: 1, Failed: 3, Skipped: 1, Failures: []failure{
			{Name: "adds", File: "/home/user/jt/a.test.js", Line: 1}, {Name: "group inner", File: "/home/user/jt/a.test.js", Line: 4}, {Name: "/home/user/jt/b.test.js", File: "/home/user/jt/b.test.js"},
		}}, []string{"Expected: 3", "boom", "unexpected token"}},
		"mocha.xml": {testReport{Passed: 1, Failed: 2, Skipped: 1, Failures: []failure{
			{Name: "adds", File: "mt/a.js", Line: 2}, {Name: "group > inner", File: "mt/a.js", Line: 5},
		}}, []string{"2 !== 3", "boom"}},
		"vitest.xml": {testReport{Passed: 1, Failed: 3, Skipped: 1, Failures: []failure{
			{Name: "vt/a.test.mjs > adds", File: "vt/a.test.mjs", Line: 2}, {Name: "vt/a.test.mjs > group > inner", File: "vt/a.test.mjs", Line: 5}, {Name: "vt/b.test.mjs"},
		}}, []string{"expected 2 to be 3", "boom", "Unexpected token"}},
		"node.xml": {testReport{Passed: 2, Failed: 3, Skipped: 1, Failures: []failure{
			{Name: "/home/user/nt/test/broken.test.js"}, {Name: "adds", File: "/home/user/nt/test/sum.test.js", Line: 4}, {Name: "inner", File: "/home/user/nt/test/sum.test.js", Line: 7},
		}}, []string{"test failed", "-1 !== 3", "boom"}},
		"cargo.txt":       {testReport{Passed: 1, Failed: 1, Skipped: 1, Failures: []failure{{Name: "tests::adds", File: "src/lib.rs", Line: 5}}}, []string{"left: -1"}},
		"cargo-build.txt": {testReport{Failed: 1, Failures: []failure{{Name: "cannot find value `c` in this scope", File: "src/lib.rs", Line: 1}}}, []string{"a - c"}},
		"tsc.txt":         {testReport{Failed: 1, Failures: []failure{{Name: "t.ts", File: "t.ts", Line: 1}}}, []string{"not assignable"}},
		"gcc.txt":         {testReport{Failed: 1, Failures: []failure{{Name: "x.c", File: "x.c", Line: 1}}}, []string{"undeclared"}},
		"pytest.xml": {testReport{Passed: 2, Failed: 3, Skipped: 1, Failures: []failure{
			{Name: "test_a.test_add", File: "test_a.py", Line: 4}, {Name: "test_a.TestGroup.test_param[2]", File: "test_a.py", Line: 10}, {Name: "test_a.test_fixture", File: "test_a.py", Line: 12},
		}}, []string{"assert -1 == 3", "assert 2 == 1", "no fixture"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "output", name))
			must(t, err)
			var got testReport
			if strings.HasSuffix(name, ".txt") {
				got.readText(string(text))
			} else {
				got.readReport(text)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(failure{}, "Message")); diff != "" {
				t.Errorf("%s\n%s", diff, text)
			}
			for i, part := range tt.messages[:min(len(tt.messages), len(got.Failures))] {
				wantContains(t, got.Failures[i].Message, part)
			}
		})
	}
}

func FuzzTestParsers(f *testing.F) {
	files, _ := filepath.Glob("testdata/output/*")
	for _, name := range files {
		text, err := os.ReadFile(name)
		must(f, err)
		f.Add(string(text))
	}
	f.Add(`{"Action":"fail","Package":"p","Test":"A/B"}` + "\n" + `{"Action":"build-output","Output":"a.go:1:2: x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var ofGo, ofOthers testReport
		parse := parseGo(&ofGo, testRun{script: "p"})
		lines := lineWriter{pass: func(line string) { parse(line) }}
		_, _ = lines.Write([]byte(text))
		lines.flush()
		ofOthers.readReport([]byte(text))
		ofOthers.readText(text)
		ofOthers.findFiles(text)
		for _, r := range []testReport{ofGo, ofOthers} {
			for _, f := range r.Failures {
				if len(f.Message) > maxMessage+3 || len(f.Name) > maxMessage+3 {
					t.Errorf("a failure of %d and %d bytes", len(f.Name), len(f.Message))
				}
			}
			if len(r.Failures) > maxFailures || r.Failed < len(r.Failures) {
				t.Errorf("%d failures of %d", len(r.Failures), r.Failed)
			}
		}
	})
}

// D12: output that a program makes up does not fill the pool's memory.
func TestParsersKeepLittle(t *testing.T) {
	name, long := strings.Repeat("n", 2000), strings.Repeat("x", 200_000)
	tests := map[string]struct {
		line   func(i int) string
		lines  int
		failed int
	}{
		"outputs": {func(i int) string {
			return fmt.Sprintf(`{"Action":"output","Package":"p","Test":"T%d","Output":"%s"}`, i, name)
		}, 3000, 0},
		"output of one test": {func(int) string {
			return `{"Action":"output","Test":"T","Output":"` + long + `"}`
		}, 30, 0},
		"empty outputs": {func(i int) string { return fmt.Sprintf(`{"Action":"output","Package":"p%d","Output":""}`, i) }, 50_000, 0},
		"failed tests":  {func(i int) string { return fmt.Sprintf(`{"Action":"fail","Package":"p%d%s","Test":"T"}`, i, name) }, 4000, 4000},
		"parents": {func(i int) string {
			return fmt.Sprintf(`{"Action":"fail","Package":"p","Test":"%d%s"}`, i, strings.Repeat("/a", 3000))
		}, 10, 10},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var r testReport
			before := heap()
			parse := parseGo(&r, testRun{})
			for i := range tt.lines {
				parse(tt.line(i))
			}
			if kept := int64(heap()) - int64(before); kept > 4<<20 {
				t.Errorf("%d MiB are kept", kept>>20)
			}
			if r.Failed != tt.failed || len(r.Failures) > maxFailures {
				t.Errorf("%d failed, %d listed", r.Failed, len(r.Failures))
			}
		})
	}
}

// heap returns the bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// D12: a program cannot make run_tests write elsewhere by a link in the place of its temporary folder.
func TestReportsFollowNoLinks(t *testing.T) {
	requireProgram(t, "make")
	outside := t.TempDir()
	s := newServer(t, tree(t, map[string]string{"Makefile": "test:\n\trm -r \"$$TMPDIR\"; ln -s " + outside + " \"$$TMPDIR\"\n"}), Options{Write: true})
	c := inProcess(t, s)
	call[testsOutput](t, c, "run_tests", args{})
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(outside, old, old))
	call[testsOutput](t, c, "run_tests", args{})
	info, err := os.Stat(outside)
	must(t, err)
	if info.ModTime().After(old.Add(time.Minute)) {
		t.Error("a file was made outside")
	}
}
