package input

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/rank"
)

// Params holds the words of a tool's description and its parameters. It does not change and may be used by several goroutines.
type Params struct {
	*catalog.Tool
	NameTerms    []string        // terms of the tool's name, at least one
	PurposeTerms []string        // terms of its title and the first sentence of its description
	Terms        map[string]bool // all terms of its name, title, description and properties
	Required     int             // the number of required properties
	params       []param
}

// param describes the values that a property of a tool takes.
type param struct {
	*catalog.Property
	item       *catalog.Property // describes the items of an array; otherwise the property itself
	nameTerms  []string          // terms of its name, at least one
	descTerms  []string          // terms of its description
	form       Kind              // the kind of values that it takes; Phrase: any text, Number: only numbers
	unit       string            // the dimension of its numbers; "" if it names no unit
	factor     float64           // of its unit, see unitOf
	members    []member          // of its enum; for a flag, the words that turn it on
	implied    []string          // terms that a value of it implies, such as file for a path
	folder     bool              // it may be a folder's path
	needsSlash bool              // its description has examples such as Asia/Tokyo
}

// member is a member of an enum.
type member struct {
	text  string
	parts []string // its terms
}

// ParamsOf reads a tool's description and input schema.
func ParamsOf(t *catalog.Tool) *Params {
	first, _, _ := strings.Cut(t.GetDescription(), ". ")
	p := &Params{Tool: t, NameTerms: termsOf(t.GetName()), PurposeTerms: rank.Terms(t.GetTitle() + " " + first), Terms: map[string]bool{}}
	text := t.GetName() + " " + t.GetTitle() + " " + t.GetDescription()
	for i := range t.Props {
		prop := &t.Props[i]
		if prop.Required {
			p.Required++
		}
		text += " " + prop.Name + " " + prop.Description + " " + prop.Enum
		p.params = append(p.params, p.paramOf(prop))
	}
	for _, term := range rank.Terms(text) {
		p.Terms[term] = true
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

// itemOf returns a property that describes an array's items; for other types, p itself.
func itemOf(p *catalog.Property) *catalog.Property {
	if !p.Takes("array") || p.Takes("string") {
		return p
	}
	item := &catalog.Property{}
	item.Schema, _ = strictjson.Member(p.Schema, "items")
	item.Enum, _ = strictjson.Member(item.Schema, "enum")
	kind, _ := strictjson.Member(item.Schema, "type")
	item.Type = strictjson.Content(kind)
	return item
}

var (
	withSlash = regexp.MustCompile(`(?:\be\.g\.|such as|\bas\b),? ['"]?[A-Za-z_]+/[A-Za-z_]+`)
	inUnit    = regexp.MustCompile(`(?i)\b(?:in|of|as)(?: a| the| degrees)? ([a-z/%°]+)|\(([a-z/%°]+)\)`) // "in meters", "(kg)"
)

func (p *Params) paramOf(prop *catalog.Property) param {
	d := param{Property: prop, item: itemOf(prop), nameTerms: termsOf(prop.Name), descTerms: rank.Terms(prop.Description), form: Phrase}
	for item := range strictjson.Items(d.item.Enum) {
		text := strictjson.Content(item)
		d.members = append(d.members, member{text: text, parts: rank.Terms(text)})
	}
	if d.item.Takes("boolean") && !d.item.Takes("string") {
		d.members = []member{{text: "true", parts: slices.DeleteFunc(slices.Clone(d.nameTerms), func(t string) bool { return rank.In("optional", t) })}}
	}
	format, _ := strictjson.Member(d.Schema, "format")
	for _, term := range append(slices.Clone(d.nameTerms), strictjson.Content(format)) { // the last match counts
		if k, ok := forms[rank.Key("form", term)]; ok {
			d.form = k
		}
	}
	if !d.item.Takes("string") && (d.item.Takes("number") || d.item.Takes("integer")) {
		d.form = Number
	}
	for _, m := range inUnit.FindAllStringSubmatch(d.Description, -1) {
		d.setUnit(m[1] + m[2])
	}
	if len(d.nameTerms) > 1 || strings.HasSuffix(d.Name, "s") {
		d.setUnit(d.nameTerms[len(d.nameTerms)-1])
	}
	if d.form == Path {
		d.implied = []string{"path", "file"}
	} else if d.form == Phrase && hasTerm(d.nameTerms, rank.Words("role", "search")...) {
		d.implied = []string{"search", "text", "content"}
	}
	d.folder = hasTerm(append(slices.Concat(p.NameTerms, d.descTerms), p.PurposeTerms...), "directori", "folder")
	d.needsSlash = withSlash.MatchString(d.Description)
	return d
}

// setUnit sets the unit if a word names one. A single letter counts only if the parameter's name has an underscore, such as depth_m.
func (d *param) setUnit(word string) {
	if unit, factor := unitOf(word); unit != "" && (len(word) > 1 || strings.Contains(d.Name, "_")) {
		d.unit, d.factor = unit, factor
	}
}

// forms maps the lexicon's names of kinds.
var forms = map[string]Kind{"date": Date, "time": Time, "path": Path, "glob": Glob, "url": URL, "email": Email}

// kindScores scores, by a parameter's form, the kinds of values that the parameter takes.
var kindScores = map[Kind]map[Kind]float64{
	Phrase: {Quoted: 2.5, Code: 1.5, Name: 1.5, Email: 1.5, Phrase: 0.5, Path: 0.5, URL: 0.5, Date: 0, JSON: 0.5, Number: -1},
	Date:   {Date: 2},
	Time:   {Time: 2, Quoted: 2},
	URL:    {URL: 2, Quoted: 2},
	Email:  {Email: 2},
	Path:   {Path: 3, Quoted: 1, Code: 1, Name: 1, Phrase: 0},
	Glob:   {Path: 3, Quoted: 1, Glob: 4},
}

// takes reports whether a parameter takes a value, and scores how well it fits.
func (p *Params) takes(d *param, v *Value) (score float64, ok bool) {
	switch {
	case v.Kind == Choice:
		return 4, v.Key == d.Name
	case v.Kind == Pair:
		return 9, p.PropLike(v.Key) == d.Property
	case len(d.members) > 0:
		return 0, false
	case v.Kind == JSON && d.Takes(strictjson.Kind(v.Text)):
		return 3, true
	case d.form == Number:
		if _, ok = d.number(v); v.Unit != "" && d.unit != "" {
			return 3, ok
		}
		return 0.3, ok
	case !d.item.Takes("string"), v.Unit != "", v.Kind >= Code && d.needsSlash && !strings.Contains(v.Text, "/"), d.form == Path && strings.ContainsAny(v.Text, "*?"):
		return 0, false
	}
	score, ok = kindScores[d.form][v.Kind]
	return score, ok
}

// number returns a value as a number in the parameter's unit; false if it is no number or its unit does not fit.
func (d *param) number(v *Value) (text string, ok bool) {
	unit, factor := unitOf(v.Unit)
	switch {
	case v.Kind != Number, unit != "" && unit != d.unit && (d.unit != "" || unit == "fraction"):
		return "", false
	case unit == "" || unit == d.unit && factor == d.factor || d.unit == "":
		return v.Text, true
	}
	return decimal(parse(v.Text) * factor / d.factor), true
}

// unitOf returns the dimension of a unit and its size in the dimension's base unit, such as mass and 0.001 for a gram; "" if the word names no unit.
func unitOf(name string) (dimension string, factor float64) {
	dimension, text, _ := strings.Cut(rank.Key("unit", name), ":")
	return dimension, parse(text)
}

// decimal formats a computed number without rounding errors in its last digits.
func decimal(n float64) string { return strconv.FormatFloat(math.Round(n*1e9)/1e9, 'f', -1, 64) }

// parse reads a number; 0 for any other text.
func parse(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

func hasTerm(terms []string, words ...string) bool {
	return slices.ContainsFunc(words, func(t string) bool { return slices.Contains(terms, t) })
}

// meansAny reports whether a term has the same meaning as one of terms.
func meansAny(terms []string, term string) bool {
	return slices.ContainsFunc(terms, func(t string) bool { return rank.Means(t, term) })
}

// TakesPath reports whether a property takes the path of a file or folder.
func (p *Params) TakesPath(name string) bool {
	return slices.ContainsFunc(p.params, func(d param) bool { return d.Name == name && d.form == Path })
}
