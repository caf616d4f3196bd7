package jsonref

import (
	"fmt"
	"strings"
)

// part is a piece of a string: literal text or a reference.
type part struct {
	text    string
	ref     *Ref
	changes bool // resolving changes the piece: it is a reference or has an escape
}

const (
	open    = "${"
	escaped = "$${"
)

// parse splits the content of a string into literal text and references.
func parse(s string) ([]part, error) {
	var parts []part
	if strings.Contains(s, open) {
		parts = make([]part, 0, 4)
	}
	for s != "" {
		i := strings.Index(s, open)
		if i < 0 {
			return append(parts, part{text: s}), nil
		}
		if i > 0 && s[i-1] == '$' { // $${
			parts = append(parts, part{text: s[:i-1] + open, changes: true})
			s = s[i+len(open):]
			continue
		}
		if i > 0 {
			parts = append(parts, part{text: s[:i]})
		}
		body, rest, closed := strings.Cut(s[i+len(open):], "}")
		if !closed {
			return nil, fmt.Errorf("%.60q has no closing brace; write %s for a literal %s", s[i:], escaped, open)
		}
		ref, err := parseRef(body)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{ref: &ref, changes: true})
		s = rest
	}
	return parts, nil
}

func parseRef(body string) (Ref, error) {
	if isName(body) { // no path
		return Ref{Name: body, Path: []string{}}, nil
	}
	steps := strings.Split(body, ".")
	for _, step := range steps {
		if !isName(step) {
			return Ref{}, fmt.Errorf("%.60q is not a reference: names and path steps have letters, digits, _ and -; "+
				"write %s for a literal %s", open+body+"}", escaped, open)
		}
	}
	return Ref{Name: steps[0], Path: steps[1:]}, nil
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != ""
}
