package extract

import (
	"regexp"
	"slices"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/rank"
)

// property is what a tool's property says about the values that it takes.
type property struct {
	*catalog.Property
	terms  []string // of its name
	said   []string // of its description
	unit   *unit    // nil if it names none
	role   role
	enum   []string // its members, or those of its items
	array  bool
	number bool // it, or its items

	end        bool // it is one end of a range, and takes no number that is not said to be one
	structured bool // its items are objects or arrays
}

// role is the form of text that a property takes.
type role int

const (
	anyText role = iota
	dateText
	timeText
	pathText
	globText
	urlText
	emailText
)

// roleWords say by the words of a property's name what it takes.
var roleWords = map[string]role{"date": dateText, "born": dateText, "birth": dateText, "birthday": dateText, "path": pathText, "file": pathText, "filepath": pathText, "filename": pathText,
	"directory": pathText, "folder": pathText, "dir": pathText, "source": anyText, "glob": globText, "pattern": globText, "url": urlText, "uri": urlText, "email": emailText, "time": timeText}

func propertyOf(p *catalog.Property) property {
	d := property{Property: p, terms: rank.Terms(p.Name), said: rank.Terms(p.Description)}
	d.array = p.Takes("array") && !p.Takes("string")
	d.enum = itemsOf(p.Enum)
	kind := p.Type
	if d.array {
		items, _ := strictjson.Member(p.Schema, "items")
		of, _ := strictjson.Member(items, "type")
		if kind = strictjson.Content(of); kind == "object" || kind == "array" {
			d.structured = true
		}
		if list, ok := strictjson.Member(items, "enum"); ok {
			d.enum = itemsOf(list)
		}
	}
	d.number = kind == "number" || kind == "integer"
	if d.number {
		d.unit = d.unitOf()
	} else {
		d.role = d.roleOf()
	}
	return d
}

func itemsOf(array string) []string {
	var out []string
	for item := range strictjson.Items(array) {
		out = append(out, strictjson.Content(item))
	}
	return out
}

// inUnit finds the unit in a description: "in meters", "(kg)".
var inUnit = regexp.MustCompile(`(?i)\b(?:in|of|as)(?: a| the| degrees)? ([a-z/%°]+)|\(([a-z/%°]+)\)`)

func (d *property) unitOf() *unit {
	var names []string
	if parts := catalog.NameParts(d.Name); len(parts) > 1 || strings.HasSuffix(d.Name, "s") {
		names = append(names, parts[len(parts)-1])
	}
	for _, m := range inUnit.FindAllStringSubmatch(d.Description, -1) {
		names = append(names, strings.ToLower(m[1]+m[2]))
	}
	for _, name := range names {
		if u, ok := units()[name]; ok && (len(name) > 1 || strings.Contains(d.Name, "_")) {
			return &u
		}
	}
	return nil
}

func (d *property) roleOf() role {
	format, _ := strictjson.Member(d.Schema, "format")
	switch strictjson.Content(format) {
	case "date", "date-time":
		return dateText
	case "uri":
		return urlText
	case "email":
		return emailText
	case "time":
		return timeText
	}
	lower := strings.ToLower(d.Description)
	switch {
	case strings.Contains(d.Description, "YYYY"):
		return dateText
	case strings.Contains(d.Description, "HH:MM"):
		return timeText
	case strings.Contains(lower, "email address"):
		return emailText
	}
	for _, w := range slices.Backward(catalog.NameParts(d.Name)) {
		if r, ok := roleWords[strings.TrimSuffix(w, "s")]; ok {
			return r
		}
	}
	switch {
	case strings.Contains(lower, "glob"):
		return globText
	case strings.Contains(lower, "path of"), strings.Contains(lower, "path to"):
		return pathText
	}
	return anyText
}

// fraction reports whether 5 % is written 0.05; percent whether it is written 5.
func (d *property) fraction() bool {
	lower := strings.ToLower(d.Description)
	return strings.Contains(lower, "fraction") || strings.Contains(lower, "decimal") || strings.Contains(lower, "between 0 and 1") || strings.Contains(lower, "0.0")
}

func (d *property) percent() bool {
	lower := strings.ToLower(d.Name + " " + d.Description)
	return strings.Contains(lower, "percent") || strings.Contains(lower, "%")
}

// takes reports whether a property takes a mention, and how readily.
func (d *property) takes(m *Mention) (float64, bool) {
	switch {
	case m.Kind == Choice:
		return 4, true // of this property's enum
	case len(d.enum) > 0 || d.isFlag():
		return 0, false
	case d.number:
		return d.takesNumber(m)
	case !d.Takes("string") && !d.array || d.structured:
		return 0, m.Kind == JSON
	}
	if forms := formsOf[d.role]; forms != nil {
		_, ok := isoDate(m.Text)
		return 2, slices.Contains(forms, m.Kind) && (ok || m.Kind != Date)
	}
	if d.role != anyText {
		return d.takesPath(m)
	}
	if m.Kind >= Code && withSlash.MatchString(d.Description) && !strings.Contains(m.Text, "/") {
		return 0, false // the description asks for another form: America/New_York
	}
	return d.takesText(m)
}

// isFlag reports whether a property takes true and false alone.
func (d *property) isFlag() bool { return !d.number && d.Takes("boolean") && !d.Takes("string") }

// formsOf are the kinds that properties of a form take.
var formsOf = map[role][]Kind{dateText: {Date}, timeText: {Time, Quoted}, urlText: {URL, Quoted}, emailText: {Email}}

func (d *property) takesPath(m *Mention) (float64, bool) {
	switch m.Kind {
	case Path:
		return 3, d.role == globText || !strings.ContainsAny(m.Text, "*?")
	case Quoted:
		return 1, true
	case Code, Name:
		return 1, d.role == pathText
	}
	return 0, d.role == pathText && m.Kind == Phrase
}

// readiness is how readily a property for any text takes the kinds.
var readiness = map[Kind]float64{Quoted: 2.5, Code: 1.5, Name: 1.5, Phrase: 0.5, Path: 0.5, URL: 0.5, JSON: 0.5, Range: 0, Number: -1}

func (d *property) takesText(m *Mention) (float64, bool) {
	score, ok := readiness[m.Kind]
	switch {
	case m.unit:
		ok = hasTerm(d.terms, "unit", "currenc", "scale")
	case m.Kind == Number:
		ok = m.Unit == ""
	}
	return score, ok
}

func (d *property) takesNumber(m *Mention) (float64, bool) {
	if m.Kind == JSON {
		return 3, d.array && strings.HasPrefix(m.Text, "[")
	}
	if m.Kind != Number || d.end && d.role == anyText && hasTerm(d.terms, "line", "row", "page", "offset") {
		return 0, false
	}
	_, ok := d.value(m)
	u := units()[strings.ToLower(m.Unit)]
	switch {
	case !ok:
		return 0, false
	case u.name == "":
		return 0.3, true
	case d.unit != nil:
		return 3, true
	case u.dimension == "percent" && (d.fraction() || d.percent()):
		return 3, true
	case u.dimension == "money" && hasTerm(d.terms, "amount", "price", "princip", "bill", "budget", "cost", "salari", "gross", "bonus", "incom"):
		return 2, true
	}
	return 0, true
}

// value returns the number that a property takes for a mention; false if the units do not fit.
func (d *property) value(m *Mention) (float64, bool) {
	n := m.Number
	u, known := units()[strings.ToLower(m.Unit)]
	switch {
	case known && u.dimension == "percent":
		if d.fraction() {
			n /= 100
		} else if !d.percent() {
			return 0, false
		}
	case known && d.unit != nil:
		converted, ok := convert(n, u, *d.unit)
		if !ok {
			return 0, false
		}
		n = converted
	}
	return n, !strings.Contains(d.Type, "integer") || d.Takes("number") || n == float64(int64(n))
}

var withSlash = regexp.MustCompile(`(?:\be\.g\.|such as|\bas\b),? ['"]?[A-Za-z_]+/[A-Za-z_]+`)

func hasTerm(terms []string, any ...string) bool {
	return slices.ContainsFunc(any, func(t string) bool { return slices.Contains(terms, t) })
}

// TakesPath reports whether a property takes a file or folder.
func TakesPath(p *catalog.Property) bool {
	d := propertyOf(p)
	return d.role == pathText
}
