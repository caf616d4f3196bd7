package input

import (
	"regexp"
	"slices"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/rank"
)

// Params is what a tool says of its input. It does not change and may be used by several goroutines.
type Params struct {
	*catalog.Tool
	Name   []string // terms of the tool's name, at least one
	about  []string // terms of its description
	params []param
}

// param is what a tool's property says about the values that it takes.
type param struct {
	*catalog.Property
	name, said []string // terms of its name, at least one, and of its description
	form       Kind     // of the texts that it takes; Phrase if any
	unit       *unit    // nil if it names none
	members    []member // of its enum, or of its items'
	array      bool
	number     bool // it, or its items
	flag       bool
	structured bool // its items are objects or arrays
	fraction   bool // 5 % is 0.05
	percent    bool // 5 % is 5
	query      bool // it is a text to search for
	folder     bool // it may be a folder's path
	needSlash  bool // its description has examples such as Asia/Tokyo
}

// member is one of an enum.
type member struct {
	text  string
	parts []string // its terms
}

// ParamsOf reads what a tool says of its input.
func ParamsOf(t *catalog.Tool) *Params {
	p := &Params{Tool: t, Name: termsOf(t.GetName()), about: rank.Terms(t.GetDescription())}
	for i := range t.Props {
		p.params = append(p.params, p.paramOf(&t.Props[i]))
	}
	return p
}

// termsOf returns the terms of a name; the name itself if it has none.
func termsOf(name string) []string {
	if terms := rank.Terms(name); len(terms) > 0 {
		return terms
	}
	return []string{name}
}

var withSlash = regexp.MustCompile(`(?:\be\.g\.|such as|\bas\b),? ['"]?[A-Za-z_]+/[A-Za-z_]+`)

func (p *Params) paramOf(prop *catalog.Property) param {
	d := param{Property: prop, name: termsOf(prop.Name), said: rank.Terms(prop.Description)}
	d.array = d.Takes("array") && !d.Takes("string")
	kind, enum := d.Type, d.Enum
	if d.array {
		items, _ := strictjson.Member(d.Schema, "items")
		of, _ := strictjson.Member(items, "type")
		kind = strictjson.Content(of)
		d.structured = kind == "object" || kind == "array"
		if list, ok := strictjson.Member(items, "enum"); ok {
			enum = list
		}
	}
	for item := range strictjson.Items(enum) {
		text := strictjson.Content(item)
		d.members = append(d.members, member{text: text, parts: rank.Terms(text)})
	}
	lower := strings.ToLower(d.Description)
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(lower, w) })
	}
	if d.number = kind == "number" || kind == "integer"; d.number {
		d.unit = d.namedUnit()
		d.fraction = says("fraction", "decimal", "between 0 and 1", "0.0")
		d.percent = says("percent", "%") || strings.Contains(strings.ToLower(d.Name), "percent")
		return d
	}
	if d.flag = d.Takes("boolean") && !d.Takes("string"); d.flag {
		d.members = []member{{text: "true", parts: slices.DeleteFunc(slices.Clone(d.name), func(t string) bool { return rank.In("optional", t) })}}
	}
	d.form = d.formOf(says)
	d.query = d.form == Phrase && hasTerm(d.name, "queri", "search", "q", "keyword", "term", "needl")
	speaks := d.said
	if len(speaks) == 0 {
		speaks = p.about
	}
	d.folder = hasTerm(p.Name, "directori", "folder") || hasTerm(speaks, "directori", "folder")
	d.needSlash = withSlash.MatchString(d.Description)
	return d
}

// inUnit finds the unit in a description: "in meters", "(kg)".
var inUnit = regexp.MustCompile(`(?i)\b(?:in|of|as)(?: a| the| degrees)? ([a-z/%°]+)|\(([a-z/%°]+)\)`)

func (d *param) namedUnit() *unit {
	var names []string
	if parts := catalog.NameParts(d.Name); len(parts) > 1 || strings.HasSuffix(d.Name, "s") {
		names = append(names, parts[len(parts)-1])
	}
	for _, m := range inUnit.FindAllStringSubmatch(d.Description, -1) {
		names = append(names, m[1]+m[2])
	}
	for _, name := range names {
		if u, ok := unitOf(name); ok && (len(name) > 1 || strings.Contains(d.Name, "_")) {
			return &u
		}
	}
	return nil
}

// forms are the kinds by their names in the lexicon.
var forms = map[string]Kind{"date": Date, "time": Time, "path": Path, "glob": Glob, "url": URL, "email": Email}

// formOf reads the form from the format, the description, or the last word of the name that says one.
func (d *param) formOf(says func(...string) bool) Kind {
	format, _ := strictjson.Member(d.Schema, "format")
	if k, ok := forms[rank.Key("form", strictjson.Content(format))]; ok {
		return k
	}
	switch {
	case says("yyyy"):
		return Date
	case says("hh:mm"):
		return Time
	case says("email address"):
		return Email
	}
	for _, term := range slices.Backward(d.name) {
		if k, ok := forms[rank.Key("form", term)]; ok {
			return k
		}
	}
	if says("glob") {
		return Glob
	}
	return Phrase
}

// readiness is how readily parameters of a form take kinds of values.
var readiness = map[Kind]map[Kind]float64{
	Phrase: {Quoted: 2.5, Code: 1.5, Name: 1.5, Email: 1.5, Phrase: 0.5, Path: 0.5, URL: 0.5, Date: 0, JSON: 0.5, Number: -1},
	Date:   {Date: 2},
	Time:   {Time: 2, Quoted: 2},
	URL:    {URL: 2, Quoted: 2},
	Email:  {Email: 2},
	Path:   {Path: 3, Quoted: 1, Code: 1, Name: 1, Phrase: 0},
	Glob:   {Path: 3, Quoted: 1, Glob: 4},
}

// takes reports whether a parameter takes a value, and how readily.
func (p *Params) takes(d *param, v *Value) (score float64, ok bool) {
	switch {
	case v.Kind == Choice:
		return 4, v.Key == d.Name
	case v.Kind == Pair:
		return 9, p.PropLike(v.Key) == d.Property
	case len(d.members) > 0:
		return 0, false
	case d.number:
		return d.takesNumber(v)
	case !d.Takes("string") && !d.array || d.structured:
		return 0, v.Kind == JSON
	}
	return d.takesText(v)
}

func (d *param) takesText(v *Value) (score float64, ok bool) {
	score, ok = readiness[d.form][v.Kind]
	switch {
	case v.Kind == Unit:
		return 1.5, hasTerm(d.name, "unit", "currenc", "scale")
	case v.Kind == Number && v.Unit != "", v.Kind >= Code && d.needSlash && !strings.Contains(v.Text, "/"), d.form == Path && strings.ContainsAny(v.Text, "*?"):
		return 0, false
	case ok && v.Kind == Date:
		_, ok = isoDate(v.Text)
	}
	return score, ok
}

func (d *param) takesNumber(v *Value) (float64, bool) {
	if v.Kind == JSON {
		return 3, d.array && strings.HasPrefix(v.Text, "[")
	}
	if v.Kind != Number {
		return 0, false
	}
	_, ok := d.valueOf(v)
	u, known := unitOf(v.Unit)
	switch {
	case !known:
		return 0.3, ok
	case d.unit != nil, u.dimension == "percent":
		return 3, ok
	case strings.HasPrefix(u.dimension, "money") && hasTerm(d.name, "amount", "price", "princip", "bill", "budget", "cost", "salari", "gross", "bonus", "incom"):
		return 2, ok
	}
	return 0, ok
}

// valueOf returns the number that a parameter takes for a value; false if the units do not fit.
func (d *param) valueOf(v *Value) (n float64, ok bool) {
	n, ok = v.Number, true
	u, known := unitOf(v.Unit)
	switch {
	case known && u.dimension == "percent" && d.fraction:
		n = rounded(n / 100)
	case known && u.dimension == "percent":
		ok = d.percent
	case known && d.unit != nil && u != *d.unit:
		n, ok = rounded((n-u.offset)*u.factor/d.unit.factor+d.unit.offset), u.dimension == d.unit.dimension
	}
	return n, ok && (!strings.Contains(d.Type, "integer") || d.Takes("number") || n == float64(int64(n)))
}

func hasTerm(terms []string, any ...string) bool {
	return slices.ContainsFunc(any, func(t string) bool { return slices.Contains(terms, t) })
}

// means reports whether two terms mean the same.
func means(a, b string) bool { return a == b || slices.Contains(rank.Synonyms(a), b) }

// meansAny reports whether a term means the same as one of others.
func meansAny(terms []string, term string) bool {
	return slices.ContainsFunc(terms, func(t string) bool { return means(t, term) })
}

// TakesPath reports whether a property takes a file or folder.
func (p *Params) TakesPath(name string) bool {
	return slices.ContainsFunc(p.params, func(d param) bool { return d.Name == name && d.form == Path })
}
