package input

import (
	"errors"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/extract"
	"pawl.dev/services/strictjson"
)

// Merge puts what a person supplied over an input: the members of content (null says nothing), key=value in the
// description, and, where one thing is still asked for, the plain text of either. Values become what the schema takes
// where nothing is lost by it; members that the tool refuses are left out.
func Merge(t *catalog.Tool, in *strictjson.Object, content, description, failure string) *strictjson.Object {
	asked := Offending(t, in, failure)
	m := merger{t: t, out: in.Clone()}
	if doc, err := strictjson.ParseObject(content); err == nil {
		for _, k := range doc.Keys() {
			v, _ := doc.Get(k)
			m.give(k, v)
		}
	} else if kind := strictjson.Kind(content); len(asked) == 1 && kind != "object" {
		m.give(asked[0], content)
	}
	c := extract.Scan(description)
	for _, l := range c.Mentions {
		if l.Kind == extract.Pair && (t.PropLike(l.Key) != nil || len(t.Props) == 0) {
			m.give(l.Key, strictjson.Quote(l.Text))
		}
	}
	if !m.supplied && strings.TrimSpace(description) != "" {
		fromWords(t, m.out, asked, c)
	}
	return extract.Ordered(t, m.out)
}

// merger takes what was supplied.
type merger struct {
	t        *catalog.Tool
	out      *strictjson.Object
	supplied bool // something was taken
}

func (m *merger) give(key, raw string) {
	p := m.t.PropLike(key)
	switch {
	case raw == "null":
		return
	case p != nil:
		v, _ := extract.Coerce(p, raw)
		m.out.Set(p.Name, v)
	case !m.t.Closed():
		m.out.Set(key, raw)
	default:
		return
	}
	m.supplied = true
}

// fromWords reads what is asked for out of a sentence: "use docs/guide.md".
func fromWords(t *catalog.Tool, out *strictjson.Object, asked []string, c *extract.Clause) {
	only := *t
	only.Props = nil
	for _, name := range asked {
		if p := t.Prop(name); p != nil {
			required := *p
			required.Required = true
			only.Props = append(only.Props, required)
		}
	}
	if len(only.Props) == 0 {
		return
	}
	found := extract.Fill(&only, c).Input
	for _, k := range found.Keys() {
		v, _ := found.Get(k)
		out.Set(k, v)
	}
}

// Repair makes another input of one that failed, with the error in view: it drops what the tool does not know, makes values
// what the schema takes, picks from enums and ranges, takes up what the error suggests where the tool only reads, and
// fills what is required from fresh, the input that the goal tells. It returns the same input where nothing of that helps.
func Repair(t *catalog.Tool, failed *strictjson.Object, failure string, fresh *strictjson.Object) *strictjson.Object {
	out := failed.Clone()
	dropUnknown(t, out, failure)
	for i := range t.Props {
		mendValue(&t.Props[i], out)
	}
	if t.Reads() {
		suggested(t, out, failure)
	}
	for _, name := range t.Missing(out) {
		if v, ok := fresh.Get(name); ok {
			out.Set(name, v)
		}
	}
	return extract.Ordered(t, out)
}

// dropUnknown renames members that are spelled differently in the schema, and removes those that the tool refuses.
func dropUnknown(t *catalog.Tool, out *strictjson.Object, failure string) {
	for _, k := range slices.Clone(out.Keys()) {
		if t.Prop(k) != nil {
			continue
		}
		if like := t.PropLike(k); like != nil && !out.Has(like.Name) {
			v, _ := out.Get(k)
			out.Set(like.Name, v)
			out.Delete(k)
		} else if t.Closed() || saysUnknown(failure, k) {
			out.Delete(k)
		}
	}
}

// mendValue makes a value what its property takes. A value that cannot be, of a property that is not required, is left out.
func mendValue(p *catalog.Property, out *strictjson.Object) {
	raw, ok := out.Get(p.Name)
	if !ok {
		return
	}
	v, fits := extract.Coerce(p, raw)
	switch {
	case raw == "null" && !p.Takes("null"), !fits && p.Enum == "" && !p.Required:
		out.Delete(p.Name)
	case fits:
		out.Set(p.Name, nearest(p, within(p, v)))
	default:
		out.Set(p.Name, nearest(p, v))
	}
}

var suggestion = regexp.MustCompile(`(?i)(?:there is|did you mean|do you mean|closest (?:match )?is|是否是|你是不是要找)[:：]?\s*["“'` + "`" + `]([^"”'` + "`" + `]+)["”'` + "`" + `]`)

// suggested puts what an error suggests in the place of the value that it is about.
func suggested(t *catalog.Tool, out *strictjson.Object, failure string) {
	m := suggestion.FindStringSubmatch(failure)
	if m == nil {
		return
	}
	for _, name := range byValue(t, out, failure) {
		if p := t.Prop(name); p != nil && p.Takes("string") {
			out.Set(name, strictjson.Quote(m[1]))
			return
		}
	}
}

var unknownWords = regexp.MustCompile(`(?i)unknown|unexpected|unrecogni[sz]ed|additional|not allowed|extra|未知|多余|不允许`)

// saysUnknown tells whether an error complains that a member is not known.
func saysUnknown(failure, name string) bool {
	return unknownWords.MatchString(failure) && catalog.ContainsWord(strings.ToLower(failure), strings.ToLower(name))
}

// nearest replaces a value outside an enum by the member that it begins, or that begins it.
func nearest(p *catalog.Property, raw string) string {
	members := slices.Collect(strictjson.Items(p.Enum))
	text := strings.ToLower(strictjson.Content(raw))
	for _, m := range members {
		if m == raw {
			return raw
		}
	}
	for _, m := range members {
		v := strings.ToLower(strictjson.Content(m))
		if text != "" && (strings.HasPrefix(v, text) || strings.HasPrefix(text, v)) {
			return m
		}
	}
	return raw
}

// within moves a number to the limit that it exceeds.
func within(p *catalog.Property, raw string) string {
	doc, err := strictjson.ParseObject(p.Schema)
	if err != nil || strictjson.Kind(raw) != "number" || len(raw) > 40 || strings.ContainsAny(raw, "eE") {
		return raw
	}
	value, ok := new(big.Rat).SetString(raw)
	if !ok {
		return raw
	}
	for _, b := range []struct {
		keyword string
		sign    int
	}{{"minimum", -1}, {"maximum", 1}} {
		limit, ok := doc.Get(b.keyword)
		if !ok || len(limit) > 40 || strings.ContainsAny(limit, "eE") {
			continue
		}
		if r, ok := new(big.Rat).SetString(limit); ok && value.Cmp(r) == b.sign {
			return limit
		}
	}
	return raw
}

// problems returns what is wrong with an input by the tool's schema.
func problems(t *catalog.Tool, in *strictjson.Object) []schema.Problem {
	if t.Schema == nil {
		return nil
	}
	var invalid *schema.Invalid
	if err := t.Schema.Validate(in.String()); errors.As(err, &invalid) {
		return invalid.Problems
	}
	return nil
}
