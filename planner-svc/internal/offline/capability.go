package offline

import (
	"slices"
	"strings"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
)

// capability describes the tools that an intent needs: words of their names and a property that they must have.
type capability struct {
	verbs, nouns []string // one of each must be in the name; a name of one word may be both
	need         catalog.Role
	needs        bool
	never        []string // words that make it another thing
}

var capabilities = map[goal.Intent]capability{
	goal.SearchText:   {verbs: []string{"search", "grep", "find", "query"}, nouns: []string{"code", "text", "content", "contents", "grep", "in", "lines"}, need: catalog.Query, needs: true, never: []string{"web"}},
	goal.FindFiles:    {verbs: []string{"search", "find", "glob", "locate"}, nouns: []string{"file", "files", "path", "paths", "glob", "name", "names"}, need: catalog.Pattern, needs: true, never: []string{"content", "text", "in"}},
	goal.ListFolder:   {verbs: []string{"list", "ls", "dir", "browse", "read"}, nouns: []string{"directory", "dir", "folder", "ls", "files"}, need: catalog.Path, needs: true, never: []string{"allowed", "delete", "create"}},
	goal.ReadFile:     {verbs: []string{"read", "get", "cat", "open", "view", "show"}, nouns: []string{"file", "cat", "content", "contents"}, need: catalog.Path, needs: true, never: []string{"info", "media", "binary", "image", "stat", "metadata", "multiple", "directory", "resource"}},
	goal.DescribeFile: {verbs: []string{"info", "stat", "metadata", "details", "attributes", "properties"}, nouns: []string{"file", "path", "stat"}, need: catalog.Path, needs: true},
}

// needed maps intents to the capability that serves them.
var needed = map[goal.Intent]goal.Intent{
	goal.SearchText: goal.SearchText, goal.FindDefinition: goal.SearchText, goal.CountFiles: goal.FindFiles, goal.FindFiles: goal.FindFiles,
	goal.CountFolders: goal.ListFolder, goal.ListFolder: goal.ListFolder, goal.ReadFile: goal.ReadFile, goal.DescribeFile: goal.DescribeFile, goal.About: goal.ReadFile,
}

// fits tells how well a tool serves a capability: 0 not at all. Shorter names, and tools that only read, fit better.
func fits(t *catalog.Tool, c capability) float64 {
	words := t.NameWords()
	has := func(list []string) bool {
		return slices.ContainsFunc(list, func(w string) bool { return slices.Contains(words, w) })
	}
	if t.Schema == nil || !has(c.verbs) || !has(c.nouns) || has(c.never) {
		return 0
	}
	if c.needs && t.For(c.need, "string") == nil {
		return 0
	}
	score := 10 - float64(len(words))
	for _, p := range t.Props {
		if p.Required && len(p.Roles) == 0 && p.Default == "" {
			score -= 3
		}
	}
	if t.Reads() {
		score++
	}
	if strings.Contains(strings.ToLower(t.GetDescription()), "deprecated") {
		score -= 2
	}
	return max(score, 0.1)
}

// capable returns the tool that serves an intent best, nil if none does. A server that the clause names is preferred, then
// the server of the tools used so far, so that paths of one server are not given to another.
func (p *work) capable(intent goal.Intent, c goal.Clause) *catalog.Tool {
	want, ok := capabilities[needed[intent]]
	if !ok {
		return nil
	}
	server := p.server()
	words := strings.ToLower(c.Text)
	var best *catalog.Tool
	top := 0.0
	for _, t := range p.catalog.Tools {
		score := fits(t, want)
		if score == 0 {
			continue
		}
		if names(words, t.GetMcpId()) {
			score += 20
		}
		if strings.HasPrefix(t.GetMcpId(), builtin) {
			score += 0.5 // of two that fit alike, the one that comes along and means this folder
		}
		if t.GetMcpId() == server {
			score += 3
		}
		if score > top {
			best, top = t, score
		}
	}
	return best
}

// builtin begins the ids of the servers for folders that Pawl brings along.
const builtin = "workspace"

// names tells whether a text (in lower case) names a server. An id that is an everyday word of such texts, such as
// `files`, names none by itself.
func names(text, server string) bool {
	id := strings.ToLower(server)
	if id == "" || everyday(id) {
		return false
	}
	return catalog.ContainsWord(text, id)
}

func everyday(id string) bool {
	for _, c := range capabilities {
		if slices.Contains(c.nouns, id) || slices.Contains(c.verbs, id) {
			return true
		}
	}
	return slices.Contains([]string{"folders", "directories", "docs", "project"}, id)
}

// server is the one that the plan's steps for files used last.
func (p *work) server() string {
	for _, s := range slices.Backward(p.sections) {
		for _, d := range slices.Backward(s.done) {
			if d.item.intent != goal.Other {
				return d.tool.GetMcpId()
			}
		}
	}
	return ""
}

// hasCapability tells whether a tool is one for files and text.
func hasCapability(t *catalog.Tool) bool {
	for _, c := range capabilities {
		if fits(t, c) > 0 {
			return true
		}
	}
	return false
}
