package input

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
)

// merger puts members into an input, as the tool spells and takes them.
type merger struct {
	t   *catalog.Tool
	out *strictjson.Object
}

// give puts in a member unless the tool refuses it or it is null, and reports whether it did.
func (m merger) give(key, raw string) bool {
	p := m.t.PropLike(key)
	switch {
	case raw == "null", p == nil && m.t.Closed():
		return false
	case p != nil:
		raw, _ = Coerce(p, raw)
		key = p.Name
	}
	m.out.Set(key, raw)
	return true
}

// Merge puts what a person supplied over an input: the members of content (null says nothing), key=value in the description, and, if one thing is
// still asked for, the plain text of either. Values become what the schema takes if nothing is lost by it; members that the tool refuses are left out.
func Merge(t *catalog.Tool, in *strictjson.Object, content, description, failure string) *strictjson.Object {
	asked, supplied := Offending(t, in, failure), false
	m := merger{t: t, out: in.Clone()}
	if doc, err := strictjson.ParseObject(content); err == nil {
		for _, k := range doc.Keys() {
			v, _ := doc.Get(k)
			supplied = m.give(k, v) || supplied
		}
	} else if len(asked) == 1 && strictjson.Kind(content) != "object" {
		supplied = m.give(asked[0], content)
	}
	c := Scan(description)
	for _, v := range c.Values {
		if v.Kind == Pair && (t.PropLike(v.Key) != nil || len(t.Props) == 0) {
			supplied = m.give(v.Key, v.Text) || supplied
		}
	}
	if !supplied && strings.TrimSpace(description) != "" {
		fromWords(t, m.out, asked, c)
	}
	return Ordered(t, m.out)
}

// fromWords reads what is asked for out of a sentence: "use docs/guide.md".
func fromWords(t *catalog.Tool, out *strictjson.Object, asked []string, c *Clause) {
	only := *t
	only.Props = slices.DeleteFunc(slices.Clone(t.Props), func(p catalog.Property) bool { return !slices.Contains(asked, p.Name) })
	for i := range only.Props {
		only.Props[i].Required = true
	}
	found := ParamsOf(&only).Fill(c).Input
	for _, k := range found.Keys() {
		v, _ := found.Get(k)
		out.Set(k, v)
	}
}

// Repair makes another input of one that failed, with the error in view: it drops what the tool does not know, makes values what the schema takes, picks
// from enums and ranges, takes up the path of the same file that the error suggests if the tool only reads, and fills what is required from fresh, the input that the goal tells.
// It returns the same input if none of that helps.
func Repair(t *catalog.Tool, failed *strictjson.Object, failure string, fresh *strictjson.Object) *strictjson.Object {
	m := merger{t: t, out: &strictjson.Object{}}
	for _, k := range failed.Keys() {
		raw, _ := failed.Get(k)
		m.mend(k, raw, failure, failed)
	}
	if found := suggestion.FindStringSubmatch(failure); found != nil && t.Reads() {
		for _, name := range byValue(t, m.out, failure) {
			raw, _ := m.out.Get(name)
			if t.Prop(name).Takes("string") && strings.EqualFold(path.Base(strictjson.Content(raw)), path.Base(found[1])) {
				m.give(name, strictjson.Quote(found[1]))
				break
			}
		}
	}
	for _, name := range t.Missing(m.out) {
		if v, ok := fresh.Get(name); ok {
			m.give(name, v)
		}
	}
	return Ordered(t, m.out)
}

var (
	suggestion   = regexp.MustCompile(`(?i)(?:there is|did you mean|do you mean|closest (?:match )?is|是否是|你是不是要找)[:：]?\s*["“'` + "`" + `]([^"”'` + "`" + `]+)["”'` + "`" + `]`)
	unknownWords = regexp.MustCompile(`(?i)unknown|unexpected|unrecogni[sz]ed|additional|not allowed|extra|未知|多余|不允许`)
)

// mend puts in a member of an input that failed as the schema takes it. It leaves out what the error calls unknown, and what cannot be taken and is not
// required.
func (m merger) mend(key, raw, failure string, failed *strictjson.Object) {
	p := m.t.PropLike(key)
	if p == nil {
		if !unknownWords.MatchString(failure) || !catalog.ContainsWord(strings.ToLower(failure), strings.ToLower(key)) {
			m.give(key, raw)
		}
		return
	}
	v, fits := Coerce(p, raw)
	switch {
	case p.Name != key && failed.Has(p.Name):
	case raw == "null" && p.Takes("null"):
		m.out.Set(p.Name, raw)
	case fits || p.Required || p.Enum != "":
		m.give(key, within(p, nearest(p, v)))
	}
}

// nearest returns the member of an enum that a value begins, or that begins it.
func nearest(p *catalog.Property, raw string) string {
	text := strings.ToLower(strictjson.Content(raw))
	if _, ok := enumMember(p.Enum, text); ok || text == "" {
		return raw
	}
	for member := range strictjson.Items(p.Enum) {
		if m := strings.ToLower(strictjson.Content(member)); strings.HasPrefix(m, text) || strings.HasPrefix(text, m) {
			return member
		}
	}
	return raw
}

// within returns the limit that a number exceeds.
func within(p *catalog.Property, raw string) string {
	if strictjson.Kind(raw) != "number" {
		return raw
	}
	if least, ok := strictjson.Member(p.Schema, "minimum"); ok && number(raw) < number(least) {
		return least
	}
	if most, ok := strictjson.Member(p.Schema, "maximum"); ok && number(raw) > number(most) {
		return most
	}
	return raw
}
