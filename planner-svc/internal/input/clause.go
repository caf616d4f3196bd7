package input

import (
	"regexp"
	"slices"
	"strings"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/services/strictjson"
)

// Known is what earlier steps found out.
type Known struct {
	Paths []string // files that were found or named last
	Text  string   // what the last step returned
}

// FromClause fills the input of any tool from a clause: JSON and key=value first, then properties that are named, numbers,
// enums, flags, literals by what the properties are for, and at last, where it is an order for this tool, the rest of the
// sentence for the one text that the tool requires.
func FromClause(t *catalog.Tool, c goal.Clause, known Known) *strictjson.Object {
	f := &filler{t: t, c: c, known: known, in: &strictjson.Object{}, used: make([]bool, len(c.Literals))}
	f.fromJSON()
	f.fromPairs()
	f.fromNames()
	f.fromEnums()
	f.fromNumbers()
	f.fromFlags()
	f.fromLiterals(true)
	f.fromLiterals(false)
	f.fromSlots()
	if c.Tool != "" || !c.Question && speaksOf(t, c) {
		f.fromRest()
	}
	f.fromKnown()
	fillConstants(t, f.in)
	return ordered(t, f.in)
}

// speaksOf tells whether a clause has a word of the tool's name.
func speaksOf(t *catalog.Tool, c goal.Clause) bool {
	said := catalog.WordsOf(c.Bare)
	return slices.ContainsFunc(t.NameWords(), said.Has)
}

type filler struct {
	t     *catalog.Tool
	c     goal.Clause
	known Known
	in    *strictjson.Object
	used  []bool // by literal
}

// each calls a function for every property that has no value yet.
func (f *filler) each(do func(p *catalog.Property)) {
	for i := range f.t.Props {
		if p := &f.t.Props[i]; !f.in.Has(p.Name) {
			do(p)
		}
	}
}

func (f *filler) set(p *catalog.Property, raw string) bool {
	v, ok := Coerce(p, raw)
	if ok {
		f.in.Set(p.Name, v)
	}
	return ok
}

// fromJSON takes the members of an object that stands in the goal.
func (f *filler) fromJSON() {
	for i, l := range f.c.Literals {
		if l.Kind != goal.JSON {
			continue
		}
		doc, err := strictjson.ParseObject(l.Text)
		if err != nil {
			continue
		}
		f.used[i] = true
		for _, k := range doc.Keys() {
			v, _ := doc.Get(k)
			if p := f.t.PropLike(k); p != nil {
				f.set(p, v)
			} else if !f.t.Closed() {
				f.in.Set(k, v)
			}
		}
	}
}

func (f *filler) fromPairs() {
	for i, l := range f.c.Literals {
		if l.Kind != goal.Pair {
			continue
		}
		if p := f.t.PropLike(l.Key); p != nil {
			f.used[i] = f.set(p, pairValue(l))
		} else if len(f.t.Props) == 0 && !f.t.Closed() {
			f.in.Set(l.Key, pairValue(l))
			f.used[i] = true
		}
	}
}

// pairValue is the value of key=value as JSON.
func pairValue(l goal.Literal) string {
	if l.JSON {
		return l.Text
	}
	return strictjson.Quote(l.Text)
}

// placeholder is how literals stand in Clause.Bare.
const placeholder = "¶"

// fromNames takes what stands behind a property's name: `message: hello`, `path "a b"`, `steps 3`.
func (f *filler) fromNames() {
	f.each(func(p *catalog.Property) {
		name := strings.ReplaceAll(regexp.QuoteMeta(strings.NewReplacer("-", "_").Replace(p.Name)), "_", `[_\s-]?`)
		m := regexp.MustCompile(`(?i)(?:^|[^A-Za-z0-9_])` + name + `\s*(=|:|：|＝|\s(?:is|as|to|of)\s|为|是|\s)\s*(` + placeholder + `|[^\s,，;；]+)`).FindStringSubmatchIndex(f.c.Bare)
		if m == nil {
			return
		}
		sign, value := strings.TrimSpace(f.c.Bare[m[2]:m[3]]), f.c.Bare[m[4]:m[5]]
		if value == placeholder {
			if i := strings.Count(f.c.Bare[:m[4]], placeholder); f.free(i) {
				f.used[i] = f.set(p, strictjson.Quote(f.c.Literals[i].Text))
			}
			return
		}
		if sign == "" && !f.namesValue(p, f.c.Bare[:m[0]+1], value) {
			return
		}
		f.set(p, strictjson.Quote(strings.TrimRight(value, ".!?。")))
	})
}

var beforeName = regexp.MustCompile(`(?i)\b(?:with|to|in|on|at|for|and|the|from|as|of)\s+(?:the\s+)?$`)

// namesValue tells whether a word behind a property's name is its value: "with channel general", "steps 3"; but not in "list
// path names".
func (f *filler) namesValue(p *catalog.Property, before, value string) bool {
	if !p.Takes("string") {
		return p.Takes("integer") || p.Takes("number")
	}
	return p.Required && !p.Is(catalog.Path) && beforeName.MatchString(before) && len(catalog.WordsOf(value)) > 0
}

// fromEnums takes members of enums that stand in the goal as words.
func (f *filler) fromEnums() {
	text := " " + strings.ToLower(f.c.Text) + " "
	f.each(func(p *catalog.Property) {
		best := ""
		for raw := range strictjson.Items(p.Enum) {
			v := strings.ToLower(strictjson.Content(raw))
			if len(v) > 1 && len(v) > len(best) && catalog.ContainsWord(text, v) {
				best = v
			}
		}
		if best != "" {
			f.set(p, strictjson.Quote(best))
		}
	})
}

// EnumHit tells whether the clause names a member of one of the tool's enums.
func EnumHit(t *catalog.Tool, c goal.Clause) bool {
	text := " " + strings.ToLower(c.Text) + " "
	for _, p := range t.Props {
		for raw := range strictjson.Items(p.Enum) {
			if v := strings.ToLower(strictjson.Content(raw)); len(v) > 2 && catalog.ContainsWord(text, v) {
				return true
			}
		}
	}
	return false
}

var (
	numberPattern = regexp.MustCompile(`-?\d+(?:,\d{3})*(?:\.\d+)?`)
	afterNumber   = regexp.MustCompile(`^\s*([A-Za-z]+)`)
)

// numberSaid is a number in the clause, with the word behind it.
type numberSaid struct {
	text, unit string
	used       bool
}

func numbersIn(text string) []numberSaid {
	var numbers []numberSaid
	for _, m := range numberPattern.FindAllStringIndex(text, -1) {
		if catalog.IsWordByte(text, m[0]-1) || catalog.IsWordByte(text, m[1]) {
			continue
		}
		n := numberSaid{text: strings.ReplaceAll(text[m[0]:m[1]], ",", "")}
		if unit := afterNumber.FindStringSubmatch(text[m[1]:]); unit != nil {
			n.unit = strings.ToLower(unit[1])
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// fromNumbers gives numbers to the properties that the words behind them name ("5 seconds", "3 steps"), then in order to
// the ones that are required.
func (f *filler) fromNumbers() {
	numbers := numbersIn(f.c.Bare)
	for i, n := range numbers {
		f.each(func(p *catalog.Property) {
			if !numbers[i].used && n.unit != "" && takesNumber(p) && catalog.WordsOf(p.Name+" "+p.Description).Has(n.unit) {
				numbers[i].used = f.set(p, n.text)
			}
		})
	}
	f.each(func(p *catalog.Property) {
		i := slices.IndexFunc(numbers, func(n numberSaid) bool { return !n.used })
		if i < 0 || !p.Required || !takesNumber(p) {
			return
		}
		if !p.Takes("array") {
			numbers[i].used = f.set(p, numbers[i].text)
			return
		}
		var items []string
		for j := range numbers {
			items, numbers[j].used = append(items, numbers[j].text), true
		}
		f.in.Set(p.Name, strictjson.Array(items))
	})
}

func takesNumber(p *catalog.Property) bool {
	if p.Type == "" || p.Enum != "" {
		return false
	}
	if p.Takes("array") {
		t := itemOf(p).Type
		return t == "number" || t == "integer"
	}
	return p.Takes("integer") || p.Takes("number")
}

var negation = regexp.MustCompile(`(?i)\b(?:without|no|not|don't)\s+(?:the\s+|an?\s+)?$|(?:不要?|没有|不带)\s*$`)

// fromFlags sets booleans whose name the clause says: "recursively", "without image".
func (f *filler) fromFlags() {
	said := catalog.WordsOf(f.c.Bare)
	f.each(func(p *catalog.Property) {
		if p.Type != "boolean" {
			return
		}
		words := slices.DeleteFunc(catalog.NameParts(p.Name), func(w string) bool {
			return w == "is" || w == "include" || w == "use" || w == "with" || w == "enable" || w == "show"
		})
		if len(words) == 0 || !slices.ContainsFunc(words, func(w string) bool { return said.Has(w) || said.Has(w+"ly") }) {
			return
		}
		at := strings.Index(strings.ToLower(f.c.Bare), words[0])
		if at >= 0 && negation.MatchString(f.c.Bare[:at]) {
			f.in.Set(p.Name, "false")
			return
		}
		f.in.Set(p.Name, "true")
	})
}
