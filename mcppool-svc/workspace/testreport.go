package workspace

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	maxFailures = 50
	maxMessage  = 2 << 10 // bytes of a failure's message
	maxReport   = 16 << 20
	// maxTestOutput, maxPending and maxNames bound what is kept of tests of Go that have not ended: of one, of all, and how many; beyond maxNames,
	// the parents of failures may be counted as failures too.
	maxTestOutput = 64 << 10
	maxPending    = 4 << 20
	maxNames      = 5000
)

// testReport is what tests reported. Failed counts all failures, also those that Failures has no room for.
type testReport struct {
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped"`
	Failures []failure `json:"failures"`
}

// failure is a test that failed, or an error of the compiler.
type failure struct {
	Name    string `json:"name"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

func (r *testReport) fail(f failure) {
	r.Failed++
	if len(r.Failures) < maxFailures {
		f.Name, f.File, f.Message = cut(f.Name), cut(f.File), cut(strings.Trim(f.Message, "\n"))
		r.Failures = append(r.Failures, f)
	}
}

// cut returns the beginning of a text, without keeping the rest in memory.
func cut(text string) string {
	return toValidUTF8(cutRunes([]byte(text), maxMessage))
}

// at sets the place of a failure.
func (f *failure) at(file, line string) {
	f.File, f.Line = file, atoi(line)
}

// goEvent is a line of `go test -json`, see `go doc test2json` and `go help buildjson`.
type goEvent struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
}

var (
	goPlace    = regexp.MustCompile(`(?m)^(?:vet: |    +)?([^\s:]+\.go):(\d+)(?::\d+)?: (?s:(.*))`)
	goPanicked = regexp.MustCompile(`(?m)^\t(\S+_test\.go):(\d+) `)
	goNoise    = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME) |^\s*--- PASS: |^PASS$`)
)

// goTests reads `go test -json`. Each of its maps has at most maxNames keys of at most maxMessage bytes.
type goTests struct {
	report  *testReport
	run     testRun
	outputs map[string]string // of tests that have not ended, by package and test
	size    int               // of outputs
	failed  map[string]bool   // packages and tests with a failed test in them
}

// parseGo returns a parser of `go test -json`, which shows the tests' output without the lines about tests that pass.
func parseGo(r *testReport, run testRun) func(string) string {
	g := goTests{report: r, run: run, outputs: map[string]string{}, failed: map[string]bool{}}
	return g.line
}

func (g *goTests) line(line string) (shown string) {
	var e goEvent
	if json.Unmarshal([]byte(line), &e) != nil {
		return line
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		if place := goPlace.FindStringSubmatch(e.Output); place != nil {
			f := failure{Name: e.ImportPath, Message: place[3]}
			f.at(place[1], place[2])
			g.report.fail(f)
		}
		return e.Output
	case "output":
		if goNoise.MatchString(e.Output) {
			return ""
		}
		known, isKnown := g.outputs[key]
		if (isKnown || len(g.outputs) < maxNames) && len(key) <= maxMessage && len(known) < maxTestOutput && g.size < maxPending {
			text := cut(e.Output)
			g.outputs[key] = known + text
			g.size += len(text)
		}
		return e.Output
	case "pass", "skip", "fail":
		message := g.outputs[key]
		delete(g.outputs, key)
		g.size -= len(message)
		g.end(e, message)
	}
	return ""
}

// end records the end of a test or a package.
func (g *goTests) end(e goEvent, message string) {
	switch {
	case e.Action == "pass" && e.Test != "":
		g.report.Passed++
	case e.Action == "skip" && e.Test != "":
		g.report.Skipped++
	case e.Action == "fail" && e.FailedBuild == "" && !g.failed[e.Package+" "+e.Test]:
		f := failure{Name: strings.TrimSuffix(e.Package+"."+e.Test, "."), Message: message}
		dir := strings.TrimPrefix(strings.TrimPrefix(e.Package, g.run.script), "/")
		if place := goPanicked.FindStringSubmatch(message); place != nil {
			f.at(place[1], place[2])
		} else if places := goPlace.FindAllStringSubmatch(message, -1); places != nil {
			last := places[len(places)-1] // t.Log comes before t.Error
			f.at(path.Join(dir, last[1]), last[2])
		}
		g.report.fail(f)
		for parent := e.Test; len(g.failed) < maxNames && len(e.Package)+len(e.Test) <= maxMessage; {
			parent = parent[:max(0, strings.LastIndexByte(parent, '/'))]
			g.failed[e.Package+" "+parent] = true
			if parent == "" {
				break
			}
		}
	}
}

// readReport adds the tests of a report in JUnit's format or in that of jest --json. It ends at the first error.
func (r *testReport) readReport(data []byte) {
	if bytes.HasPrefix(data, []byte("{")) {
		r.readJest(data)
		return
	}
	for decoder := xml.NewDecoder(bytes.NewReader(data)); ; {
		token, err := decoder.Token()
		if err != nil {
			return
		}
		var c junitCase
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "testcase" {
			if decoder.DecodeElement(&c, &start) != nil {
				return
			}
			r.addCase(c)
		}
	}
}

// junitCase is a test of pytest, node, vitest or mocha.
type (
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr"`
		Failed  []junitResult `xml:"failure"`
		Errors  []junitResult `xml:"error"`
		Skipped []junitResult `xml:"skipped"`
	}
	junitResult struct {
		Text string `xml:",chardata"`
	}
)

func (r *testReport) addCase(c junitCase) {
	results := slices.Concat(c.Failed, c.Errors)
	switch {
	case len(c.Skipped) > 0:
		r.Skipped++
	case len(results) == 0:
		r.Passed++
	case strings.HasSuffix(c.File, ".py"):
		f := failure{Name: strings.Trim(c.Class+"."+c.Name, "."), File: c.File, Line: c.Line + 1, Message: results[0].Text}
		place := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(c.File) + `:(\d+): `)
		if places := place.FindAllStringSubmatch(f.Message, -1); places != nil {
			f.at(c.File, places[len(places)-1][1])
		}
		r.fail(f)
	default:
		name := c.Class + " > " + c.Name
		if c.Class == "" || c.Class == "test" || c.Class == c.Name { // node has no classes
			name = c.Name
		}
		r.failScript(name, c.File, results[0].Text)
	}
}

// readJest adds the tests of a report of jest --json.
func (r *testReport) readJest(data []byte) {
	var report struct {
		TestResults []struct {
			Name, Status, Message string
			AssertionResults      []struct {
				FullName, Status string
				FailureMessages  []string
			}
		}
	}
	_ = json.Unmarshal(data, &report)
	for _, file := range report.TestResults {
		if file.Status == "failed" && len(file.AssertionResults) == 0 {
			r.failScript(file.Name, file.Name, file.Message)
		}
		for _, test := range file.AssertionResults {
			switch test.Status {
			case "passed":
				r.Passed++
			case "failed":
				r.failScript(test.FullName, file.Name, strings.Join(test.FailureMessages, "\n"))
			default:
				r.Skipped++
			}
		}
	}
}

// scriptPlace is a line of a stack trace of JavaScript.
var scriptPlace = regexp.MustCompile(`(?m)^\s*(?:at|❯) (?:.*[ (])?([^\s()]+):(\d+):\d+\)?$`)

// failScript adds a failure whose message holds a stack trace of JavaScript.
func (r *testReport) failScript(name, file, message string) {
	f := failure{Name: name, File: file, Message: message}
	for _, place := range scriptPlace.FindAllStringSubmatch(message, -1) {
		if !strings.HasPrefix(place[1], "node:") && !strings.Contains(place[1], "node_modules/") {
			f.at(place[1], place[2])
			break
		}
	}
	r.fail(f)
}

// findFiles looks in the output for the place and the error of files that failed as a whole, which node's report does not tell.
func (r *testReport) findFiles(output string) {
	for i := range r.Failures {
		f := &r.Failures[i]
		if f.Line > 0 || path.Ext(f.Name) == "" {
			continue
		}
		if at := regexp.MustCompile(regexp.QuoteMeta(f.Name) + `:(\d+)`).FindStringSubmatchIndex(output); at != nil {
			f.at(f.Name, output[at[2]:at[3]])
			f.Message = cut(f.Message[:min(len(f.Message), maxMessage/2)] + "\n" + output[at[0]:])
		}
	}
}

var (
	// compilerErrors are those of C compilers and tsc, on a line of their own, and those of Rust.
	compilerErrors = []*regexp.Regexp{
		regexp.MustCompile(`(?m)^(?P<name>(?P<file>\S+?))[(:](?P<line>\d+)[,:]\d+\)?: (?:fatal )?error:? ?(?P<message>.*)$`),
		regexp.MustCompile(`(?m)^error(?:\[E\d+\])?: (?P<name>.+)\n\s*--> (?P<file>\S+?):(?P<line>\d+):\d+\n(?P<message>(?:.+\n)*)`),
	}
	rustFailure = regexp.MustCompile(`(?m)^---- (.+) stdout ----\n`)
	rustPlace   = regexp.MustCompile(`panicked at (\S+?):(\d+):\d+`)
	rustCounts  = regexp.MustCompile(`(?m)^test result: .* (\d+) passed; (\d+) failed; (\d+) ignored`)
)

// readText adds the failures in the output of cargo and of compilers.
func (r *testReport) readText(text string) {
	for _, expr := range compilerErrors {
		for _, e := range expr.FindAllStringSubmatch(text, -1) {
			f := failure{Name: e[expr.SubexpIndex("name")], Message: e[expr.SubexpIndex("message")]}
			f.at(e[expr.SubexpIndex("file")], e[expr.SubexpIndex("line")])
			r.fail(f)
		}
	}
	starts := rustFailure.FindAllStringSubmatchIndex(text, -1)
	for i, start := range starts {
		f := failure{Name: text[start[2]:start[3]], Message: text[start[1]:]}
		if i+1 < len(starts) {
			f.Message = text[start[1]:starts[i+1][0]]
		}
		f.Message, _, _ = strings.Cut(f.Message, "\n\nfailures:\n")
		if place := rustPlace.FindStringSubmatch(f.Message); place != nil {
			f.at(place[1], place[2])
		}
		r.fail(f)
	}
	failed := 0
	for _, count := range rustCounts.FindAllStringSubmatch(text, -1) {
		r.Passed += atoi(count[1])
		failed += atoi(count[2])
		r.Skipped += atoi(count[3])
	}
	r.Failed = max(r.Failed, failed)
}

// atoi returns a number that a regular expression found; 0 if it is too large.
func atoi(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}
