package workspace

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// hunkHeader matches the first line of a hunk: the old and the new line and count.
var hunkHeader = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,\d+)? @@`)

// normalizePatch corrects what language models get wrong in patches: a missing last line end and the counts of hunks. It removes the prefixes a/
// and b/ from headers that git did not make, as the parser does for git's.
func normalizePatch(patch string) string {
	if !strings.HasSuffix(patch, "\n") {
		patch += "\n"
	}
	lines := strings.SplitAfter(strings.TrimSuffix(patch, "\n"), "\n")
	lines[len(lines)-1] += "\n"
	git := false
	for i := 0; i < len(lines); i++ {
		if head, ok := strings.CutSuffix(lines[i], "\r\n"); ok { // a header; recount skips the lines of hunks
			lines[i] = head + "\n"
		}
		switch {
		case strings.HasPrefix(lines[i], "diff --git "):
			git = true
		case isFileHeader(lines[i:]):
			if !git {
				stripPrefixes(lines[i : i+2])
			}
			git = false
		case hunkHeader.MatchString(lines[i]):
			i += recount(lines[i:])
		}
	}
	return strings.Join(lines, "")
}

// isFileHeader reports whether lines begin with the names of a file's old and new version.
func isFileHeader(lines []string) bool {
	return len(lines) > 2 && strings.HasPrefix(lines[0], "--- ") && strings.HasPrefix(lines[1], "+++ ") && strings.HasPrefix(lines[2], "@@ ")
}

// stripPrefixes removes a/ and b/ if both names of a header have them.
func stripPrefixes(header []string) {
	before, isBefore := strings.CutPrefix(header[0], "--- a/")
	after, isAfter := strings.CutPrefix(header[1], "+++ b/")
	if isBefore && (isAfter || strings.HasPrefix(header[1], "+++ /dev/null")) {
		header[0] = "--- " + before
	}
	if isAfter && (isBefore || strings.HasPrefix(header[0], "--- /dev/null")) {
		header[1] = "+++ " + after
	}
}

// recount corrects the counts in the hunk header lines[0], and returns how many lines the hunk has after it.
func recount(lines []string) int {
	n, old, added := 1, 0, 0
	for ; n < len(lines) && strings.IndexByte(" +-\\\r\n", lines[n][0]) >= 0 && !isFileHeader(lines[n:]); n++ {
		switch lines[n][0] {
		case '+':
			added++
		case '-':
			old++
		case ' ', '\r', '\n':
			old++
			added++
		}
	}
	header := hunkHeader.FindStringSubmatch(lines[0])
	declared, err := strconv.Atoi(cmp.Or(header[2], "1"))
	if n > 1 && n < len(lines) && lines[n-1] == "-- \n" && err == nil && old > declared { // the signature of git format-patch
		n, old = n-1, old-1
	}
	for ; n > 1 && lines[n-1] == "\n" && err == nil && old > declared; n-- { // between files
		old--
		added--
	}
	lines[0] = fmt.Sprintf("@@ -%s,%d +%s,%d @@\n", header[1], old, header[3], added)
	return n - 1
}
