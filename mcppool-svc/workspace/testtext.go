package workspace

import (
	"regexp"
	"strconv"
	"strings"
)

// block is how a test program or compiler prints a failure: some lines between a first one, which names it, and a last one.
type block struct {
	begin, end *regexp.Regexp
	place      *regexp.Regexp // the file and line
	summary    bool           // only after the line with the number of failures
	placed     bool           // a block without a place is something else
}

var blocks = []block{
	// TAP: node --test and others. The YAML below tells more.
	{begin: regexp.MustCompile(`^\s*not ok \d+ -? ?(.+)`), end: regexp.MustCompile(`^\s*(\.\.\.|ok .*)$`), place: regexp.MustCompile(`location: '(.+):(\d+):\d+'`)},
	// Go: a program that prints the output of `go test`.
	{begin: regexp.MustCompile(`^\s*--- FAIL: (\S+)`), end: regexp.MustCompile(`^(\s*--- |FAIL|ok |=== )`), place: regexp.MustCompile(`^\s+(\S+\.go):(\d+): `)},
	// Rust.
	{begin: regexp.MustCompile(`^---- (.+) stdout ----`), end: regexp.MustCompile(`^(failures:|stack backtrace:|note: )`), place: regexp.MustCompile(`panicked at (\S+?):(\d+):\d+`)},
	{begin: regexp.MustCompile(`^error(?:\[E\d+\])?: (.+)`), end: regexp.MustCompile(`^$`), place: regexp.MustCompile(`^\s*--> (\S+?):(\d+):\d+`), placed: true},
	// Jest, Vitest and Mocha.
	{begin: regexp.MustCompile(`^  ● (.+)`), end: regexp.MustCompile(`^(Test Suites:|FAIL |PASS )`), place: regexp.MustCompile(`^\s+at .*?([^\s(]+):(\d+):\d+\)?$`)},
	{begin: regexp.MustCompile(`^ FAIL  (.+)`), end: regexp.MustCompile(`^⎯`), place: regexp.MustCompile(`❯ (\S+):(\d+):\d+`)},
	{begin: regexp.MustCompile(`^  \d+\) (.+?):?$`), end: regexp.MustCompile(`^\S+ ERR!`), place: regexp.MustCompile(`^\s+at .*?([^\s(]+):(\d+):\d+\)?$`), summary: true},
}

var (
	// compilerError is an error on a line of its own, as C compilers and tsc print it.
	compilerError = regexp.MustCompile(`^(\S+?)[(:](\d+)[,:]\d+\)?: (?:fatal )?error:? ?(.*)`)
	// parentFailed is TAP's reason of a test that failed only because a part of it did.
	parentFailed = "failureType: 'subtestsFailed'"

	countsLine = regexp.MustCompile(`^(test result:|\s*Tests:?\s|\s+\d+ (passing|failing|pending)\b|=*\s*\d+ (passed|failed|skipped)\b.* in )`)
	count      = regexp.MustCompile(`(\d+) (passed|passing|failed|failing|skipped|pending|ignored)\b`)
	tapCount   = regexp.MustCompile(`^(?:#|ℹ) (pass|fail|cancelled|skipped) (\d+)$`)
)

// textParser finds failures and counts in the output of test programs for people.
type textParser struct {
	report  *testReport
	open    *block // the failure that is being read
	failure failure
	notes   string // TAP's comments before the current line; node prints errors of syntax there
	seen    names  // some programs print failures twice
	failed  int    // as the program counted
}

// parseText returns a parser of the output of common test programs and compilers, which shows all of it.
func parseText(r *testReport, _ testRun) func(string) string {
	p := textParser{report: r, seen: names{}}
	return func(line string) string {
		p.line(strings.TrimRight(line, "\r\n"))
		if line == "" { // the end
			p.close()
			r.Failed = max(r.Failed, p.failed)
		}
		return line
	}
}

func (p *textParser) line(line string) {
	p.count(line)
	notes := p.notes
	if note, ok := strings.CutPrefix(line, "# "); !ok {
		p.notes = ""
	} else if !strings.HasPrefix(note, "Subtest: ") && len(p.notes) < maxMessage/2 {
		p.notes += note + "\n"
	}
	if p.open != nil && p.open.end.MatchString(line) {
		p.close()
	}
	for i := range blocks {
		b := &blocks[i]
		if begin := b.begin.FindStringSubmatch(line); begin != nil && (!b.summary || p.failed > 0) {
			p.close()
			p.open, p.failure = b, failure{Name: begin[1], Message: notes}
			return
		}
	}
	if p.open != nil {
		p.detail(line)
	} else if e := compilerError.FindStringSubmatch(line); e != nil {
		f := failure{Name: e[1], Message: e[3]}
		f.at(e[1], e[2])
		p.report.fail(f)
	}
}

// detail adds a line to the failure that is being read.
func (p *textParser) detail(line string) {
	place := p.open.place.FindStringSubmatch(line)
	if place != nil && p.failure.File == "" && !strings.HasPrefix(place[1], "node:") {
		p.failure.at(place[1], place[2])
	}
	if len(p.failure.Message) < maxMessage {
		p.failure.Message += line + "\n"
	}
}

// close records the failure that is being read.
func (p *textParser) close() {
	if p.open == nil {
		return
	}
	f := p.failure
	parent := strings.Contains(f.Message, parentFailed)
	if !parent && !p.seen[f.Name] && (f.File != "" || !p.open.placed) {
		if !p.open.placed { // the names of compiler errors are messages
			p.seen.add(f.Name)
		}
		p.report.fail(f)
	}
	p.open = nil
}

// count adds the numbers of a line that counts tests.
func (p *textParser) count(line string) {
	if c := tapCount.FindStringSubmatch(line); c != nil {
		p.add(c[1], c[2])
	}
	if countsLine.MatchString(line) {
		for _, c := range count.FindAllStringSubmatch(line, -1) {
			p.add(c[2], c[1])
		}
	}
}

func (p *textParser) add(what, number string) {
	n, _ := strconv.Atoi(number)
	switch what {
	case "pass", "passed", "passing":
		p.report.Passed += n
	case "fail", "failed", "failing", "cancelled":
		p.failed += n
	default:
		p.report.Skipped += n
	}
}
