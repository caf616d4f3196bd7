package goal

import (
	"path"
	"regexp"
	"strings"
)

// Place is a file or folder that a clause names.
type Place struct {
	Path string
	File bool // it looks like a file
}

var (
	placeName   = `(` + lit + `|[\w.-]+)`
	placeNext   = `((?:\s*(?:,|，|、|\band\b|\bor\b|&|和)\s*(?:and\s+)?(?:the\s+)?(?:` + lit + `|[\w.-]+))*)`
	inPattern   = regexp.MustCompile(`(?i)\b(?:in|under|inside|within|from|below|(?:contents?|files|entries|listing|(?:sub)?(?:folders|directories))\s+of)\s+(?:(?:the|my|our|this|that|a|your|its)\s+)?(?:(?:directory|folder|dir|subfolder|subdirectory|path|package|file|files)\s+)?(?:(?:called|named)\s+)?` + placeName + placeNext + `(?:\s+(?:director(?:y|ies)|folders?|dirs?|subfolders?|subdirector(?:y|ies)|trees?|packages?)\b)?`)
	dirPattern  = regexp.MustCompile(`(?i)` + placeName + placeNext + `\s*(?:(?:sub)?(?:director(?:y|ies)|folders?)\b|dirs?\b|这个目录|这个文件夹|目录|文件夹)`)
	zhDir       = regexp.MustCompile(`(?:目录|文件夹|路径)\s*` + placeName)
	zhIn        = regexp.MustCompile(`(?:在|从)\s*` + placeName + placeNext + `\s*(?:目录|文件夹)?\s*(?:下面?|里面?|中|内|之下|之中)`)
	zhBareIn    = regexp.MustCompile(placeName + `()\s*(?:下面?|里面?|中|内)`)
	searchIn    = regexp.MustCompile(`(?i)\b(?:search|grep|scan|look\s+in|look\s+through)\s+(?:in\s+|through\s+)?(?:the\s+)?` + placeName + `()(?:\s+(?:folder|directory|dir))?\s+for\b`)
	listPattern = regexp.MustCompile(`(?i)^(?:list|ls|browse|dir|tree|列出|列举|浏览)\s*(?:-\w+\s+)*(?:the\s+)?` + placeName + placeNext + `\s*$`)
	spacedFile  = regexp.MustCompile(`^[^/\s][^/]*\.[A-Za-z]\w{0,5}$`)
	joinPattern = regexp.MustCompile(`(?i)\s*(?:,|，|、|\band\b|\bor\b|&|和)\s*(?:and\s+)?(?:the\s+)?`)
)

// notPlaces are words after "in" or before "folder" that name no folder of their own.
var notPlaces = set("the", "this", "that", "these", "those", "a", "an", "my", "our", "your", "its", "it", "them", "there", "here", "which", "what", "each", "every", "any", "all",
	"project", "repo", "repository", "codebase", "code", "workspace", "root", "tree", "current", "working", "base", "top", "whole", "entire", "same", "source",
	"folder", "folders", "directory", "directories", "dir", "subfolders", "subdirectories", "file", "files", "total", "detail", "details", "order", "english", "chinese", "general", "short", "full",
	"case", "text", "line", "lines", "size", "contents", "content", "list", "everything", "something", "anything", "one", "two", "both", "some", "many", "how", "and", "or",
	"with", "for", "to", "by", "on", "is", "are", "of", "in", "named", "called", "use", "uses", "most", "least", "times", "once", "occurrences", "definition", "number", "name", "names", "me", "you", "where", "empty", "new", "go", "markdown", "word", "string", "type", "purpose", "summary", "overview", "first", "last", "me", "us", "recursively")

// findPlaces returns the files and folders that the clause names, in the order of the text.
func (c *clauseReader) findPlaces() []Place {
	var places []Place
	add := func(p Place) {
		if p.Path = cleanPath(p.Path); p.Path == "" {
			return
		}
		for _, have := range places {
			if have == p {
				return
			}
		}
		places = append(places, p)
	}
	for _, p := range []*regexp.Regexp{inPattern, dirPattern, zhDir, zhIn, zhBareIn, searchIn, listPattern} {
		for _, m := range p.FindAllStringSubmatch(c.rest, -1) {
			names := m[1:]
			if len(m) > 2 && m[2] != "" {
				names = append([]string{m[1]}, joinPattern.Split(m[2], -1)...)
			}
			for _, name := range names {
				c.placeOf(name, add)
			}
		}
	}
	for _, w := range c.words() {
		l := c.literal(w)
		if (l.Kind == Path || l.Kind == Quoted && looksLikePath(l.Text)) && c.take(w) != nil {
			add(Place{Path: l.Text, File: fileLike(l.Text)})
		}
	}
	return places
}

// placeOf takes a captured name as a place if it can be one.
func (c *clauseReader) placeOf(name string, add func(Place)) {
	name = strings.TrimSpace(name)
	if l := c.literal(name); l != nil {
		if (l.Kind == Path || l.Kind == Quoted) && c.take(name) != nil {
			add(Place{Path: l.Text, File: fileLike(l.Text)})
		}
		return
	}
	lower := strings.ToLower(strings.Trim(name, "."))
	if lower == "" || notPlaces[lower] || verbs[lower] || numPattern.MatchString(lower) || isKindWord(lower) && !strings.HasSuffix(c.rest, lower) {
		return
	}
	add(Place{Path: name})
}

// fileLike tells whether a path looks like one of a file rather than of a folder.
func fileLike(p string) bool {
	if strings.HasSuffix(p, "/") {
		return false
	}
	base := path.Base(p)
	return wellKnown[base] || spacedFile.MatchString(base) || extPattern.MatchString(base) || dotPattern.MatchString(base) && base != ".github" && base != ".git"
}

// looksLikePath is for quoted text: a path has no spaces around its slashes and no sentence in it.
func looksLikePath(s string) bool {
	return (fileLike(s) || spacedFile.MatchString(s) || strings.Contains(s, "/")) && !strings.ContainsAny(s, "\n:\"*?") && strings.Count(s, " ") < 4
}

// cleanPath normalises a path for a tool: no ./ before and no slash behind; the root is ".".
func cleanPath(p string) string {
	if p = strings.TrimSpace(p); p == "" {
		return ""
	}
	return path.Clean(p)
}

func isKindWord(w string) bool {
	for _, k := range kindTable {
		for _, have := range k.words {
			if have == w {
				return true
			}
		}
	}
	return false
}
