package input

import (
	"regexp"
	"slices"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
)

// Merge puts what a person supplied over an input: the members of content (null says nothing), key=value in the description, and, if one thing is
// still asked for, the plain text of either. Values become what the schema takes if nothing is lost by it; members that the tool refuses are left out.
func Merge(t *catalog.Tool, in *strictjson.Object, content, description, failure string) *strictjson.Object {
	asked := Offending(t, in, failure)
	out, supplied := in.Clone(), false
	give := func(key, raw string) {
		p := t.PropLike(key)
		switch {
		case raw == "null", p == nil && t.Closed():
			return
		case p != nil:
			raw, _ = Coerce(p, raw)
			key = p.Name
		}
		out.Set(key, raw)
		supplied = true
	}
	if doc, err := strictjson.ParseObject(content); err == nil {
		for _, k := range doc.Keys() {
			v, _ := doc.Get(k)
			give(k, v)
		}
	} else if len(asked) == 1 && strictjson.Kind(content) != "object" {
		give(asked[0], content)
	}
	c := Scan(description)
	for _, v := range c.Values {
		if v.Kind == Pair && (t.PropLike(v.Key) != nil || len(t.Props) == 0) {
			give(v.Key, v.Text)
		}
	}
	if !supplied && strings.TrimSpace(description) != "" {
		fromWords(t, out, asked, c)
	}
	return Ordered(t, out)
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
// from enums and ranges, takes up what the error suggests if the tool only reads, and fills what is required from fresh, the input that the goal tells.
// It returns the same input if none of that helps.
func Repair(t *catalog.Tool, failed *strictjson.Object, failure string, fresh *strictjson.Object) *strictjson.Object {
	out := failed.Clone()
	dropUnknown(t, out, failure)
	for i := range t.Props {
		mendValue(&t.Props[i], out)
	}
	if m := suggestion.FindStringSubmatch(failure); m != nil && t.Reads() {
		for _, name := range byValue(t, out, failure) {
			if t.Prop(name).Takes("string") {
				out.Set(name, strictjson.Quote(m[1]))
				break
			}
		}
	}
	for _, name := range t.Missing(out) {
		if v, ok := fresh.Get(name); ok {
			out.Set(name, v)
		}
	}
	return Ordered(t, out)
}

var (
	suggestion   = regexp.MustCompile(`(?i)(?:there is|did you mean|do you mean|closest (?:match )?is|是否是|你是不是要找)[:：]?\s*["“'` + "`" + `]([^"”'` + "`" + `]+)["”'` + "`" + `]`)
	unknownWords = regexp.MustCompile(`(?i)unknown|unexpected|unrecogni[sz]ed|additional|not allowed|extra|未知|多余|不允许`)
)

// dropUnknown renames members that are spelled differently in the schema, and removes those that the tool refuses or the error calls unknown.
func dropUnknown(t *catalog.Tool, out *strictjson.Object, failure string) {
	for _, k := range slices.Clone(out.Keys()) {
		like := t.PropLike(k)
		switch {
		case like != nil && like.Name == k:
		case like != nil && !out.Has(like.Name):
			v, _ := out.Get(k)
			out.Set(like.Name, v)
			out.Delete(k)
		case t.Closed(), unknownWords.MatchString(failure) && catalog.ContainsWord(strings.ToLower(failure), strings.ToLower(k)):
			out.Delete(k)
		}
	}
}

// mendValue makes a value what its property takes: the member of an enum that it begins or that begins it, a number within the limits. A value that
// cannot be, of a property that is not required, is left out.
func mendValue(p *catalog.Property, out *strictjson.Object) {
	raw, ok := out.Get(p.Name)
	if !ok {
		return
	}
	v, fits := Coerce(p, raw)
	if raw == "null" && !p.Takes("null") || !fits && p.Enum == "" && !p.Required {
		out.Delete(p.Name)
		return
	}
	out.Set(p.Name, within(p, nearest(p, v)))
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
