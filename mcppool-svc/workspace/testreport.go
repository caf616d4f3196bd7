package workspace

import (
	"encoding/json"
	"encoding/xml"
	"io"
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
	maxPending  = 4 << 20 // bytes of the output of tests that have not ended
	maxNames    = 5000    // of failures, to recognize them; beyond, one may be counted twice
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

// names are those of failures, at most maxNames and each at most maxMessage bytes long.
type names map[string]bool

func (n names) add(name string) {
	if len(n) < maxNames && len(name) <= maxMessage {
		n[strings.Clone(name)] = true
	}
}

// at sets the place of a failure.
func (f *failure) at(file, line string) {
	f.File = file
	f.Line, _ = strconv.Atoi(line)
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

// parseGo returns a parser of `go test -json`, which shows the tests' output without the lines about tests that pass.
func parseGo(r *testReport, run testRun) func(string) string {
	outputs := pending{byTest: map[string][]string{}}
	failed := names{} // tests with a failed subtest
	return func(line string) string {
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
				r.fail(f)
			}
			return e.Output
		case "output":
			if goNoise.MatchString(e.Output) {
				return ""
			}
			outputs.add(key, e.Output)
			return e.Output
		case "pass", "skip", "fail":
			r.endGo(e, run, outputs.take(key), failed)
		}
		return ""
	}
}

// pending is the output of tests that have not ended, at most maxPending bytes.
type pending struct {
	byTest map[string][]string // by package and test
	size   int
}

func (p *pending) add(key, output string) {
	output = cut(output)
	if size := pendingSize(key, output); len(p.byTest[key]) < 200 && p.size+size <= maxPending {
		p.byTest[key] = append(p.byTest[key], output)
		p.size += size
	}
}

func (p *pending) take(key string) string {
	outputs := p.byTest[key]
	for _, output := range outputs {
		p.size -= pendingSize(key, output)
	}
	delete(p.byTest, key)
	return strings.Join(outputs, "")
}

// pendingSize is about how much memory an output takes.
func pendingSize(key, output string) int { return len(key) + len(output) + 64 }

// endGo records the end of a test or a package.
func (r *testReport) endGo(e goEvent, run testRun, message string, failed names) {
	switch {
	case e.Action == "pass" && e.Test != "":
		r.Passed++
	case e.Action == "skip" && e.Test != "":
		r.Skipped++
	case e.Action == "fail" && e.FailedBuild == "" && !failed[e.Package+" "+e.Test]:
		f := failure{Name: strings.TrimSuffix(e.Package+"."+e.Test, "."), Message: message}
		dir := strings.TrimPrefix(strings.TrimPrefix(e.Package, run.script), "/")
		if place := goPanicked.FindStringSubmatch(message); place != nil {
			f.at(place[1], place[2])
		} else if places := goPlace.FindAllStringSubmatch(message, -1); places != nil {
			last := places[len(places)-1] // t.Log comes before t.Error
			f.at(path.Join(dir, last[1]), last[2])
		}
		r.fail(f)
		failed.add(e.Package + " ")
		for parent := e.Test; parent != "" && len(e.Test) <= maxMessage; {
			parent = parent[:max(0, strings.LastIndexByte(parent, '/'))]
			failed.add(e.Package + " " + parent)
		}
	}
}

// readJUnit replaces the report by one in JUnit's format. It does nothing if there is none.
func (r *testReport) readJUnit(in io.Reader) {
	type result struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	var suites struct {
		Cases []struct {
			Class   string   `xml:"classname,attr"`
			Name    string   `xml:"name,attr"`
			File    string   `xml:"file,attr"`
			Line    int      `xml:"line,attr"`
			Failed  []result `xml:"failure"`
			Errors  []result `xml:"error"`
			Skipped []result `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if xml.NewDecoder(io.LimitReader(in, maxReport)).Decode(&suites) != nil || len(suites.Cases) == 0 {
		return
	}
	*r = testReport{Failures: []failure{}}
	for _, c := range suites.Cases {
		results := slices.Concat(c.Failed, c.Errors)
		switch {
		case len(c.Skipped) > 0:
			r.Skipped++
		case len(results) == 0:
			r.Passed++
		default:
			f := failure{Name: strings.Trim(c.Class+"."+c.Name, "."), File: c.File, Line: c.Line + 1, Message: results[0].Text}
			place := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(c.File) + `:(\d+): `)
			if places := place.FindAllStringSubmatch(f.Message, -1); c.File != "" && places != nil {
				f.at(c.File, places[len(places)-1][1])
			}
			r.fail(f)
		}
	}
}
