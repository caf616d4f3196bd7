package offline

import (
	"strings"

	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/lang"
)

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
func (p *work) byWords(c goal.Clause) match {
	said := catalog.WordsOf(c.Bare)
	lead, _ := leadOf(c)
	var best match
	for _, t := range p.catalog.Tools {
		m := p.consider(t, c, said, lead)
		if hasCapability(t) && (c.Question || m.cover < 1) {
			continue // what such tools are for is understood by its wording, or not at all, unless they are named
		}
		if m.score > best.score {
			best = m
		}
	}
	return best
}

// consider rates a tool for a clause with that verb ("" where it has none); zero where it should not be called for it.
func (p *work) consider(t *catalog.Tool, c goal.Clause, said catalog.Words, lead string) match {
	m := rate(t, c, said, lead)
	asked := lead != "" && namedBy(t, lead)
	switch {
	case lead == "":
	case !leads(t, lead) && m.cover < 1:
		m.score *= 0.3
	case retrieves(lead) && !m.noun && len(t.NameWords()) > 1:
		m.score *= 0.4 // "show …" alone does not ask for everything that shows something
	}
	if m.score < enough || !t.Reads() && !asked && !harmless(m, c) {
		return match{}
	}
	lacking := p.lacking(t, c)
	m.score -= float64(lacking)
	if lacking > 0 && !asked || m.score < enough-1 {
		return match{} // nobody asked for this tool; to ask for its inputs would be presumptuous
	}
	return m
}

// lacking counts the required properties that a clause does not tell. The path of a tool for folders is none of them.
func (p *work) lacking(t *catalog.Tool, c goal.Clause) int {
	n := 0
	for _, name := range t.Missing(p.input(t, c)) {
		if !forFolders(t) || !t.Prop(name).Is(catalog.Path) {
			n++
		}
	}
	return n
}

// harmless tells whether a tool that may change something can be meant by a clause that does not say its verb: the clause
// names all that is particular about it, or one of its choices, and the name does not say that it acts.
func harmless(m match, c goal.Clause) bool {
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
	if names(strings.ToLower(c.Text), t.GetMcpId()) {
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
