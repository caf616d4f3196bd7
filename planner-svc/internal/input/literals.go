package input

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/services/strictjson"
)

// free tells whether a literal exists and has not been used.
func (f *filler) free(i int) bool { return i >= 0 && i < len(f.used) && !f.used[i] }

// next returns the first free literal of the kinds, -1 if there is none.
func (f *filler) next(kinds ...goal.LiteralKind) int {
	for _, k := range kinds {
		for i, l := range f.c.Literals {
			if l.Kind == k && f.free(i) {
				return i
			}
		}
	}
	return -1
}

// kindsFor lists the literals that suit a property, the most fitting first. A property that is not required gets only
// those that fit without doubt.
func kindsFor(p *catalog.Property) []goal.LiteralKind {
	switch {
	case p.Is(catalog.URL):
		return []goal.LiteralKind{goal.URL}
	case p.Is(catalog.Path), p.Is(catalog.Target):
		if p.Required {
			return []goal.LiteralKind{goal.Path, goal.Quoted}
		}
		return []goal.LiteralKind{goal.Path}
	case p.Is(catalog.Pattern) && p.Roles[0] == catalog.Pattern:
		if p.Required {
			return []goal.LiteralKind{goal.Glob, goal.Quoted, goal.Path}
		}
		return []goal.LiteralKind{goal.Glob}
	case !p.Required:
		return nil
	case p.Is(catalog.Query):
		return []goal.LiteralKind{goal.Quoted, goal.Path, goal.URL}
	}
	return []goal.LiteralKind{goal.Quoted, goal.URL, goal.Path}
}

// fromLiterals gives literals to text properties, first to those that are required. Where a path and a text compete for
// quoted text, paths take what looks like one.
func (f *filler) fromLiterals(required bool) {
	f.each(func(p *catalog.Property) {
		if p.Required != required || p.Enum != "" || p.Type == "" || !p.Takes("string") && !p.Takes("array") {
			return
		}
		i := f.next(kindsFor(p)...)
		if i < 0 {
			return
		}
		if p.Takes("string") {
			f.used[i] = f.set(p, strictjson.Quote(f.c.Literals[i].Text))
			return
		}
		if t := itemOf(p).Type; t != "string" && t != "" {
			return
		}
		var items []string
		for ; i >= 0; i = f.next(kindsFor(p)...) {
			items, f.used[i] = append(items, strictjson.Quote(f.c.Literals[i].Text)), true
		}
		f.in.Set(p.Name, strictjson.Array(items))
	})
}

// fromSlots uses what the clause was understood to be about.
func (f *filler) fromSlots() {
	f.each(func(p *catalog.Property) {
		if len(p.Roles) == 0 || p.Enum != "" {
			return
		}
		if text := f.slot(p); text != "" {
			put(f.in, p, text)
		}
		if p.Roles[0] == catalog.Recursive && f.c.Deep {
			f.in.Set(p.Name, "true")
		}
	})
	if f.c.Lines != (goal.Lines{}) {
		setLines(f.t, f.in, f.c.Lines)
	}
}

// slot returns the term, pattern or place of the clause that a property is for; "" if there is none.
func (f *filler) slot(p *catalog.Property) string {
	c := &f.c
	named := len(c.Kinds) > 0 && c.Kinds[0].Name
	switch {
	case p.Required && p.Is(catalog.Path) && named:
		return c.Kinds[0].Label
	case p.Required && p.Is(catalog.Query) && len(c.Terms) > 0:
		return c.Terms[0].Text
	case p.Roles[0] == catalog.Pattern && len(c.Kinds) > 0:
		return c.Kinds[0].Pattern
	case p.Roles[0] == catalog.Path && len(c.Places) > 0 && !f.tells(c.Places[0].Path):
		return c.Places[0].Path
	}
	return ""
}

// tells says whether a value is in the input already.
func (f *filler) tells(text string) bool {
	return slices.ContainsFunc(f.in.Keys(), func(k string) bool {
		v, _ := f.in.Get(k)
		return strictjson.Content(v) == text
	})
}

var (
	callPrefix = regexp.MustCompile(`(?i)^(?:(?:please|call|invoke|execute|run|use|using|with|the|tool|me|for|on|and|to|that)\b|请|调用|使用|运行|执行|工具|用|[,:，：]|\s)+`)
	toolPrefix = regexp.MustCompile(`(?i)^\s*tool\b\s*(?:(?:to|and|with)\b)?`)
	articles   = regexp.MustCompile(`(?i)^\s*(?:(?:the|an?|all|of|my)\s+)+`)
	textPrefix = regexp.MustCompile(`(?i)^(?:(?:that|for|about|with|saying|says|back|the\s+(?:word|words|message|text|phrase|sentence|string))\b|[:：,，]|\s)+`)
)

// fromRest gives the rest of the sentence to the one text that is still required: "echo hello world".
func (f *filler) fromRest() {
	var open []*catalog.Property
	f.each(func(p *catalog.Property) {
		texts := p.Takes("string") || p.Takes("array") && itemOf(p).Type == "string"
		if p.Required && texts && p.Type != "" && p.Enum == "" && !p.Is(catalog.Path) && !p.Is(catalog.URL) {
			open = append(open, p)
		}
	})
	if len(open) != 1 || slices.Contains(f.used, true) || f.c.Back {
		return
	}
	if rest := f.rest(open[0]); rest != "" {
		f.set(open[0], strictjson.Quote(rest))
	}
}

// rest is the clause without the words that chose the tool.
func (f *filler) rest(p *catalog.Property) string {
	text := f.c.Text
	for _, l := range f.c.Literals {
		if l.Kind == goal.Tool {
			text = strings.Replace(text, l.Raw, "", 1)
		}
	}
	text = callPrefix.ReplaceAllString(text, "")
	name := catalog.WordsOf(strings.Join(f.t.NameWords(), " ") + " " + p.Name)
	for {
		bare := articles.ReplaceAllString(text, "")
		word, after := firstWord(bare)
		if after == "" || !name.Has(strings.ToLower(word)) {
			break
		}
		text = toolPrefix.ReplaceAllString(after, "")
	}
	return strings.TrimSpace(textPrefix.ReplaceAllString(text, ""))
}

// firstWord divides a text after its first word. Chinese words of tools' names are cut off as a whole.
func firstWord(text string) (word, after string) {
	text = strings.TrimLeft(text, " \t:：,，")
	end := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == ':' || r == '：' || r == ',' || r == '，' })
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

// fromKnown uses earlier outputs where the clause refers to them.
func (f *filler) fromKnown() {
	f.each(func(p *catalog.Property) {
		if !p.Required || !f.c.Back {
			return
		}
		switch {
		case p.Is(catalog.Path) && p.Takes("string") && len(f.known.Paths) > 0:
			put(f.in, p, f.known.Paths[0])
		case p.Is(catalog.Path) && p.Takes("array") && len(f.known.Paths) > 0:
			var items []string
			for _, path := range f.known.Paths {
				items = append(items, strictjson.Quote(path))
			}
			f.in.Set(p.Name, strictjson.Array(items))
		case p.Takes("string") && p.Type != "" && p.Enum == "" && f.known.Text != "" && (p.Is(catalog.Text) || p.Is(catalog.Query)):
			put(f.in, p, f.known.Text)
		}
	})
}
