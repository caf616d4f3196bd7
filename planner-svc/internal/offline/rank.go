package offline

import (
	"slices"
	"strings"

	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/lang"
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
func (p *plan) capable(intent goal.Intent, c goal.Clause) *catalog.Tool {
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
		if id := strings.ToLower(t.GetMcpId()); id != "" && catalog.ContainsWord(words, id) {
			score += 20
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

// server is the one that the plan's steps for files used last.
func (p *plan) server() string {
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

// common are words that many tools have in their names; they say less.
var common = map[string]bool{"get": true, "read": true, "list": true, "file": true, "data": true, "item": true, "run": true, "tool": true, "search": true, "create": true}

// match is how well a tool suits a clause by its words.
type match struct {
	tool  *catalog.Tool
	score float64
	cover float64 // the part of the name's words that the clause has
	core  bool    // it has all words of the name that are not common
	noun  bool    // it has a word of the name beside the verb
}

const enough = 3.0

// byWords returns the tool whose words suit the clause best; a zero match where none does well enough.
func (p *plan) byWords(c goal.Clause) match {
	said := catalog.WordsOf(c.Bare)
	lead, imperative := leadOf(c)
	var best match
	for _, t := range p.catalog.Tools {
		if c.Question && hasCapability(t) {
			continue // its questions are understood by their wording, or not at all
		}
		m := rate(t, c, said, lead)
		asked := imperative && namedBy(t, lead)
		switch {
		case imperative && !leads(t, lead):
			m.score *= 0.3
		case imperative && retrieves(lead) && !m.noun && len(t.NameWords()) > 1:
			m.score *= 0.4 // "show …" alone does not ask for everything that shows something
		}
		if m.score < enough || !t.Reads() && !asked && !p.harmless(m, c) {
			continue
		}
		lacking := len(t.Missing(input.FromClause(t, c, p.known())))
		if lacking > 0 && !asked {
			continue // nobody asked for this tool; to ask for its inputs would be presumptuous
		}
		if m.score -= float64(lacking); m.score > best.score && m.score >= enough-1 {
			best = m
		}
	}
	return best
}

// harmless tells whether a tool that may change something can be meant by a clause that does not say its verb: the clause
// names all that is particular about it, or one of its choices, and the name does not say that it acts.
func (p *plan) harmless(m match, c goal.Clause) bool {
	if !m.core && !input.EnumHit(m.tool, c) {
		return false
	}
	words := catalog.WordsOf(strings.Join(m.tool.NameWords(), " "))
	for _, acting := range []string{"create", "write", "update", "delete", "move", "copy", "send", "run"} {
		if words[acting] && !catalog.WordsOf(c.Bare)[acting] || words[acting] && c.Question {
			return false
		}
	}
	return true
}

// rate counts what a clause and a tool have in common.
func rate(t *catalog.Tool, c goal.Clause, said catalog.Words, lead string) match {
	m, counted := rateName(t, said, lead)
	m.score += shared(said, counted, t.GetTitle()+" "+t.GetDescription(), 0.75, 3)
	m.score += shared(said, counted, outputWords(t), 0.75, 1.5)
	for _, p := range t.Props {
		if said.Has(p.Name) {
			m.score += 0.5
		}
	}
	if input.EnumHit(t, c) {
		m.score += 2.5
	}
	if id := strings.ToLower(t.GetMcpId()); id != "" && catalog.ContainsWord(strings.ToLower(c.Text), id) {
		m.score += 2
	}
	return m
}

// rateName weighs the words of a tool's name, and returns those that were counted.
func rateName(t *catalog.Tool, said catalog.Words, lead string) (match, catalog.Words) {
	m, counted := match{tool: t, core: true}, catalog.Words{}
	hits, names := 0, 0
	for _, w := range t.NameWords() {
		if len(catalog.WordsOf(w)) > 0 {
			names++
		}
		if !said.Has(w) {
			m.core = m.core && common[w]
			continue
		}
		hits++
		m.noun = m.noun || lead == "" || !catalog.WordsOf(w).Has(lead)
		if common[w] {
			m.score += 1.5
		} else {
			m.score += 3
		}
		for k := range catalog.WordsOf(w) {
			counted[k] = true
		}
	}
	m.core = m.core && m.score >= 3
	if names > 0 {
		m.cover = float64(hits) / float64(names)
		m.score += 3 * m.cover
	}
	return m, counted
}

// shared weighs the words that a clause and a text have in common, beside those counted already.
func shared(said, counted catalog.Words, text string, each, most float64) float64 {
	const longest = 600 // bytes; the end of long descriptions is about details
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "")
	}
	sum := 0.0
	for w := range catalog.WordsOf(text) {
		if said[w] && !counted[w] {
			counted[w] = true
			sum += each
		}
	}
	return min(sum, most)
}

// outputWords are the names and descriptions of the members of the tool's structured output.
func outputWords(t *catalog.Tool) string {
	s, err := schema.Compile(t.GetOutputSchemaJson())
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range s.Properties() {
		b.WriteString(p.Name + " " + p.Description + " ")
	}
	return b.String()
}

// calls are verbs that only say that a tool is to be used.
var calls = map[string]bool{"call": true, "run": true, "execute": true, "invoke": true}

// leadOf returns the verb of an imperative clause; false for questions and for Chinese, whose verbs may stand anywhere.
func leadOf(c goal.Clause) (string, bool) {
	if c.Question || lang.MostlyChinese(c.Bare) {
		return "", false
	}
	for _, w := range catalog.NameParts(c.Bare) {
		if !calls[w] && len(catalog.WordsOf(w)) > 0 {
			return w, true
		}
	}
	return "", false
}

// namedBy tells whether a tool has a word in its name.
func namedBy(t *catalog.Tool, word string) bool {
	return catalog.WordsOf(strings.Join(t.NameWords(), " ")).Has(word)
}

// retrieves tells whether a verb asks for something without saying how it is got.
func retrieves(verb string) bool {
	words := catalog.WordsOf(verb)
	return words["read"] || words["get"] || words["list"]
}

// leads tells whether a tool has the clause's verb among its words. Verbs of retrieval stand for each other.
func leads(t *catalog.Tool, verb string) bool {
	if retrieves(verb) {
		words := catalog.WordsOf(strings.Join(t.NameWords(), " "))
		return t.Reads() || words["read"] || words["get"] || words["list"] || words["search"]
	}
	return catalog.WordsOf(strings.Join(t.NameWords(), " ") + " " + t.GetTitle() + " " + t.GetDescription()).Has(verb)
}
