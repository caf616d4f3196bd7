package goal

import (
	"path"
	"strings"
)

// Matches tells whether a path matches the pattern of a kind: any folders, and a file name with wildcards and alternatives.
func Matches(pattern, file string) bool {
	name := path.Base(file)
	for _, p := range alternatives(path.Base(pattern)) {
		if ok, err := path.Match(p, name); err == nil && ok {
			return true
		}
	}
	return false
}

// alternatives writes out {a,b}.
func alternatives(pattern string) []string {
	open := strings.IndexByte(pattern, '{')
	if open < 0 {
		return []string{pattern}
	}
	length := strings.IndexByte(pattern[open:], '}')
	if length < 0 {
		return []string{pattern}
	}
	var out []string
	for alternative := range strings.SplitSeq(pattern[open+1:open+length], ",") {
		out = append(out, alternatives(pattern[:open]+alternative+pattern[open+length+1:])...)
	}
	return out
}
