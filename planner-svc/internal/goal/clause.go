package goal

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Intent is what a clause asks for.
type Intent int

// The intents. Other is everything that needs a tool found by its words.
const (
	Other Intent = iota
	SearchText
	FindDefinition
	CountFiles
	CountFolders
	FindFiles
	ListFolder
	ReadFile
	DescribeFile
	About
)

// String names an intent; for tests and logs.
func (i Intent) String() string {
	return [...]string{"Other", "SearchText", "FindDefinition", "CountFiles", "CountFolders", "FindFiles", "ListFolder", "ReadFile", "DescribeFile", "About"}[i]
}

// Clause is one thing that a goal asks for.
type Clause struct {
	Text     string    // as written, without filler words
	Intent   Intent    // what is asked
	Literals []Literal // what is to be taken as it stands, in order
	Terms    []Term    // what to search for
	Kinds    []Kind    // sorts of files
	Names    []string  // file names, or parts of them, to look for
	Places   []Place   // files and folders
	Lines    Lines     // lines to read
	Doc      string    // a document named by its role ("the readme"): a part of its file name
	Tool     string    // the id or name of a tool that the clause names distinctly
	Back     bool      // it refers to what came before: it, them
	Count    bool      // it asks how many
	Where    bool      // it asks for positions, not only for files
	Deep     bool      // it asks for folders within folders too
	Folders  bool      // it asks for folders, not for files
	Largest  bool      // it asks for the largest files
	Smallest bool      // it asks for the smallest files
	Stats    bool      // it asks for a property of a file, such as its size
	Question bool      // it is a question, not an order
	Lone     bool      // it is a mere thing, without a verb: it goes on with what the clause before asked
	Bare     string    // Text with literals standing as a placeholder word; what words are taken from
}

// Term is a text to search for.
type Term struct {
	Text  string
	Word  bool // as a whole word
	Regex bool
}

// Tools tells what is known of tools by name.
type Tools interface {
	Distinct(token string) bool // a tool's id, or a tool's name that is no ordinary word
	Verb(word string) bool      // a tool's name begins with this word
}

// maxGoal bounds what is read of a goal, in bytes. People write less; patterns stay fast.
const maxGoal = 8 << 10

// Parse reads a goal.
func Parse(text string, tools Tools) []Clause {
	text = cut(text, maxGoal)
	masked, literals := mask(text, tools.Distinct)
	var clauses []Clause
	for _, part := range split(masked, tools.Verb) {
		r := &clauseReader{masked: part, rest: part, all: literals, later: len(clauses) > 0}
		c := r.read()
		if len(clauses) > 0 {
			if prev := &clauses[len(clauses)-1]; merges(prev, &c) {
				continue
			}
			inherit(&clauses[len(clauses)-1], &c)
			restrict(&clauses[len(clauses)-1], &c)
		}
		if !trivial(&c) {
			clauses = append(clauses, c)
		}
	}
	return clauses
}

var namesCue = regexp.MustCompile(`(?i)\bnames?\b|\blist\b|名字|名称|列出`)

// merges folds a clause into the one before that says the same of the same thing: "find the Go files and count them".
func merges(prev, c *Clause) bool {
	if !prev.searches() || len(c.Kinds)+len(c.Places)+len(c.Terms)+len(c.Literals) > 0 {
		return false
	}
	switch {
	case c.Count && (c.Intent == Other || c.Intent == CountFiles && c.Back):
		prev.Count = true
	case c.Back && (c.Intent == ListFolder || c.Intent == FindFiles || namesCue.MatchString(c.Text)):
		if prev.Intent == CountFiles {
			prev.Intent = FindFiles
		}
	case c.Where && c.Intent == Other && prev.Intent == SearchText:
		prev.Where = true
	default:
		return false
	}
	return true
}

// searches tells whether the clause looks for files or text.
func (c *Clause) searches() bool {
	return c.Intent == SearchText || c.Intent == FindFiles || c.Intent == CountFiles || c.Intent == ListFolder
}

// restrict narrows a search to the files that the clause before was about: "which of them mention it".
func restrict(prev, c *Clause) {
	if c.Intent == SearchText && c.Back && len(c.Kinds)+len(c.Places) == 0 {
		c.Kinds, c.Places, c.Back = prev.Kinds, prev.Places, false
	}
}

// inherit gives a clause without a verb the intent of the one before: "How many Go files are there? And Markdown files?"
func inherit(prev, c *Clause) {
	if !c.Lone || c.Tool != "" {
		return
	}
	switch {
	case prev.Intent == SearchText && len(c.Kinds) == 0 && len(c.Literals) == 1 && c.Literals[0].Kind == Quoted:
		c.Intent, c.Terms, c.Places = SearchText, []Term{{Text: c.Literals[0].Text}}, nil
	case prev.Intent == CountFiles || prev.Intent == FindFiles || prev.Intent == DescribeFile || prev.Intent == ReadFile && c.Intent != FindFiles:
		c.Intent, c.Stats = prev.Intent, prev.Stats
	}
}

// trivial tells whether a clause asks for nothing: it is a single word that names no tool and no thing.
func trivial(c *Clause) bool {
	if c.Intent != Other || len(c.Literals) > 0 || c.Tool != "" || c.Back {
		return false
	}
	words := strings.Fields(c.Text)
	return len(words) == 0 || len(words) == 1 && verbs[strings.ToLower(words[0])] || utf8.RuneCountInString(c.Text) < 2
}

// clauseReader collects what one clause says.
type clauseReader struct {
	masked string    // the clause
	rest   string    // the clause without the search terms that were taken from it
	all    []Literal // the goal's literals
	used   map[rune]bool
	later  bool // there is a clause before it
}

// literal returns the literal that a captured word stands for, nil if it is an ordinary word.
func (c *clauseReader) literal(word string) *Literal {
	r, size := utf8.DecodeRuneInString(word)
	if size != len(word) || r < firstMask || int(r-firstMask) >= len(c.all) {
		return nil
	}
	return &c.all[r-firstMask]
}

// take tells whether a literal is still free, and marks it.
func (c *clauseReader) take(word string) *Literal {
	l := c.literal(word)
	r, _ := utf8.DecodeRuneInString(word)
	if l == nil || c.used[r] {
		return nil
	}
	if c.used == nil {
		c.used = map[rune]bool{}
	}
	c.used[r] = true
	return l
}

// literals returns those of the clause as captured words, in order.
func (c *clauseReader) words() []string {
	var out []string
	for _, r := range c.masked {
		if r >= firstMask && int(r-firstMask) < len(c.all) {
			out = append(out, string(r))
		}
	}
	return out
}

// written puts literals back as they were.
func (c *clauseReader) written(masked string) string {
	return c.expand(masked, func(l *Literal) string { return l.Raw })
}

func (c *clauseReader) expand(masked string, as func(*Literal) string) string {
	var b strings.Builder
	for _, r := range masked {
		if l := c.literal(string(r)); l != nil {
			b.WriteString(as(l))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// cut shortens a text to at most n bytes without dividing a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Single reads a text as one clause, without dividing it.
func Single(text string) Clause {
	masked, literals := mask(cut(text, maxGoal), func(string) bool { return false })
	r := &clauseReader{masked: strings.TrimSpace(masked), all: literals}
	r.rest = r.masked
	return r.read()
}
