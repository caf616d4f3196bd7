package input

import (
	"regexp"
	"slices"
	"strconv"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/services/strictjson"
)

// Slots is what is asked of a tool whose purpose is known: searching, finding, listing, reading, describing.
type Slots struct {
	Query string // text to search for
	Regex string // the same as a regular expression; used where the tool takes one
	Word  bool   // match whole words
	Glob  string // the files that are meant
	Path  string // the file or folder; "" is the root
	Lines goal.Lines
	Deep  bool
	All   bool // as much as the tool gives at once
}

// FromSlots makes the input of a tool. A required path that nothing was said about is the root.
func FromSlots(t *catalog.Tool, s Slots) *strictjson.Object {
	in := &strictjson.Object{}
	setQuery(t, in, s)
	if s.Glob != "" {
		if p := firstFree(t, in, catalog.Pattern); p != nil {
			put(in, p, s.Glob)
		}
	}
	setPath(t, in, s.Path)
	setLines(t, in, s.Lines)
	if p := t.For(catalog.Recursive, "boolean"); s.Deep && p != nil {
		in.Set(p.Name, "true")
	}
	if p := t.For(catalog.Limit, "integer"); s.All && p != nil {
		if doc, err := strictjson.ParseObject(p.Schema); err == nil {
			if most, ok := doc.Get("maximum"); ok {
				in.Set(p.Name, most)
			}
		}
	}
	fillConstants(t, in)
	return ordered(t, in)
}

func setQuery(t *catalog.Tool, in *strictjson.Object, s Slots) {
	query, flag := t.For(catalog.Query, "string"), t.For(catalog.Regex, "boolean")
	if s.Query == "" && s.Regex == "" || query == nil {
		return
	}
	word := t.For(catalog.WholeWord, "boolean")
	switch {
	case s.Regex != "" && flag != nil:
		put(in, query, s.Regex)
		in.Set(flag.Name, "true")
	case s.Query != "":
		put(in, query, s.Query)
	default:
		put(in, query, s.Regex)
	}
	if s.Word && word != nil {
		in.Set(word.Name, "true")
	}
}

// firstFree returns the first property of a role that has no value yet.
func firstFree(t *catalog.Tool, in *strictjson.Object, r catalog.Role) *catalog.Property {
	var second *catalog.Property
	for i := range t.Props {
		p := &t.Props[i]
		if in.Has(p.Name) || !p.Is(r) || !p.Takes("string") {
			continue
		}
		if p.Roles[0] == r {
			return p
		}
		if second == nil && !p.Is(catalog.Path) {
			second = p
		}
	}
	return second
}

func setPath(t *catalog.Tool, in *strictjson.Object, path string) {
	p := t.For(catalog.Path, "string")
	if p == nil {
		p = t.For(catalog.Path, "array")
	}
	switch {
	case p == nil || in.Has(p.Name):
	case path != "" && path != ".", p.Required && p.Default == "":
		if path == "" {
			path = "."
		}
		put(in, p, path)
	}
}

// setLines uses whatever the tool has for ranges: first and last line, or so many from an end.
func setLines(t *catalog.Tool, in *strictjson.Object, l goal.Lines) {
	from, to := t.For(catalog.FromLine, "integer"), t.For(catalog.ToLine, "integer")
	head, tail := numeric(t, catalog.Head), numeric(t, catalog.Tail)
	switch {
	case l == goal.Lines{}:
	case l.Last > 0 && tail != nil:
		in.Set(tail.Name, strconv.Itoa(l.Last))
	case l.Last > 0:
	case from != nil && to != nil:
		in.Set(from.Name, strconv.Itoa(l.From))
		in.Set(to.Name, strconv.Itoa(l.To))
	case head != nil:
		in.Set(head.Name, strconv.Itoa(l.To))
	}
}

func numeric(t *catalog.Tool, r catalog.Role) *catalog.Property {
	if p := t.For(r, "integer"); p != nil {
		return p
	}
	return t.For(r, "number")
}

// HasTail tells whether the tool can return the end of a file.
func HasTail(t *catalog.Tool) bool { return numeric(t, catalog.Tail) != nil }

// put sets a property to a text, as what the property takes.
func put(in *strictjson.Object, p *catalog.Property, text string) {
	if raw, ok := CoerceText(p, text); ok {
		in.Set(p.Name, raw)
	}
}

// fillConstants gives required properties the only value that they can have, or the default that the schema names.
func fillConstants(t *catalog.Tool, in *strictjson.Object) {
	for i := range t.Props {
		p := &t.Props[i]
		if !p.Required || in.Has(p.Name) {
			continue
		}
		if p.Default != "" && p.Default != "null" {
			in.Set(p.Name, strictjson.Compact(p.Default))
			continue
		}
		if doc, err := strictjson.ParseObject(p.Schema); err == nil {
			if c, ok := doc.Get("const"); ok {
				in.Set(p.Name, c)
			}
		}
		if only := slices.Collect(strictjson.Items(p.Enum)); len(only) == 1 {
			in.Set(p.Name, only[0])
		}
	}
}

// ordered puts the members in the order of the schema, so that the same input always has the same text.
func ordered(t *catalog.Tool, in *strictjson.Object) *strictjson.Object {
	out := &strictjson.Object{}
	for _, p := range t.Props {
		if v, ok := in.Get(p.Name); ok {
			out.Set(p.Name, v)
		}
	}
	for _, k := range in.Keys() {
		if v, _ := in.Get(k); !out.Has(k) {
			out.Set(k, v)
		}
	}
	return out
}

// DefinitionRegex matches the definition of a name in most programming languages.
func DefinitionRegex(name string) string {
	return `\b(?:func|function|def|fn|class|type|struct|interface|enum|trait|module|message|service|rpc|const|var|let|val)\s+(?:\([^)]*\)\s*)?` +
		regexp.QuoteMeta(name) + `\b`
}
