package catalog

import (
	"slices"
	"strings"

	"pawl.dev/services/schema"
)

// Role is what a property is for.
type Role int

// The roles. A property may have several.
const (
	Path      Role = iota // a file or folder
	Pattern               // a glob, or a part of a file name
	Query                 // a text to search for
	URL                   // an address
	Text                  // free text: a message, a content
	FromLine              // the first line to return
	ToLine                // the last line to return
	Head                  // how many lines from the start
	Tail                  // how many lines from the end
	Recursive             // also what is in folders below
	Regex                 // the query is a regular expression
	WholeWord             // match whole words only
	Limit                 // how much is returned at most
	Target                // a second path: where something goes
)

// roleWords maps words of a property's name to what it is likely for.
var roleWords = map[string][]Role{
	"path": {Path}, "paths": {Path}, "file": {Path}, "files": {Path}, "filename": {Path, Pattern}, "filepath": {Path}, "dir": {Path}, "directory": {Path}, "folder": {Path}, "root": {Path}, "source": {Path}, "src": {Path},
	"destination": {Target, Path}, "dest": {Target, Path}, "target": {Target, Path}, "to": {Target},
	"pattern": {Pattern, Query}, "glob": {Pattern}, "include": {Pattern}, "name": {Pattern, Text},
	"query": {Query, Pattern}, "q": {Query}, "search": {Query}, "term": {Query}, "terms": {Query}, "keyword": {Query}, "keywords": {Query}, "needle": {Query},
	"url": {URL}, "uri": {URL}, "link": {URL}, "href": {URL}, "address": {URL},
	"text": {Text, Query}, "message": {Text}, "content": {Text}, "contents": {Text}, "body": {Text}, "prompt": {Text}, "input": {Text}, "thought": {Text}, "value": {Text}, "title": {Text}, "comment": {Text}, "description": {Text}, "data": {Text}, "note": {Text}, "question": {Text, Query},
	"head": {Head}, "tail": {Tail}, "recursive": {Recursive}, "recurse": {Recursive}, "deep": {Recursive}, "limit": {Limit},
}

// rolesOf tells what a property is for, by its name and, for text without a telling name, by its description.
func rolesOf(p schema.Property) []Role {
	words := NameParts(p.Name)
	switch {
	case hasAll(words, "line") && hasAny(words, "start", "from", "first", "begin"):
		return []Role{FromLine}
	case hasAll(words, "line") && hasAny(words, "end", "to", "last", "until"):
		return []Role{ToLine}
	case p.Type == "boolean" && hasAny(words, "regex", "regexp"):
		return []Role{Regex}
	case p.Type == "boolean" && hasAny(words, "word"):
		return []Role{WholeWord}
	case hasAny(words, "max", "limit") && p.Type != "string":
		return []Role{Limit}
	case hasAny(words, "exclude", "ignore", "without", "not", "exclusion"):
		return nil
	case hasAny(words, "regex", "regexp"):
		return []Role{Query, Pattern}
	}
	// The last word of a name tells most: file_pattern is a pattern, source_path a path.
	for _, w := range slices.Backward(words) {
		if roles, ok := roleWords[w]; ok {
			return refine(roles, words)
		}
	}
	return describedRoles(p)
}

// refine makes a path that something goes to a target: destination_path.
func refine(roles []Role, words []string) []Role {
	if slices.Contains(roles, Path) && hasAny(words, "destination", "dest", "target", "to", "new", "output") {
		return []Role{Target, Path}
	}
	return roles
}

// describedRoles reads the description of a text property whose name says nothing.
func describedRoles(p schema.Property) []Role {
	if p.Type != "string" || p.Enum != "" {
		return nil
	}
	d := strings.ToLower(p.Description)
	switch {
	case strings.Contains(d, "url"):
		return []Role{URL}
	case strings.Contains(d, "glob"):
		return []Role{Pattern}
	case strings.Contains(d, "file path"), strings.Contains(d, "path of"), strings.Contains(d, "path to"), strings.Contains(d, "directory"):
		return []Role{Path}
	case strings.Contains(d, "search"), strings.Contains(d, "query"):
		return []Role{Query}
	}
	return nil
}

func hasAny(words []string, any ...string) bool {
	return slices.ContainsFunc(any, func(w string) bool { return slices.Contains(words, w) })
}

func hasAll(words []string, all ...string) bool {
	for _, w := range all {
		if !slices.Contains(words, w) {
			return false
		}
	}
	return true
}
