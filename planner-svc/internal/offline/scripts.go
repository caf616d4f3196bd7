package offline

import (
	"path"
	"slices"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/result"
)

// most bounds what one clause may unfold into: "read them" of a search with a thousand hits reads a few.
const most = 6

// script returns how a clause is carried out, and the tools that takes; nil where nothing fits.
func (p *work) script(c goal.Clause) (script, []*catalog.Tool) {
	if c.Tool != "" {
		return p.explicit(c)
	}
	t := p.capable(c.Intent, c)
	other := p.byWords(c)
	if t != nil && !(other.cover == 1 && len(other.tool.NameWords()) > 1 && !hasCapability(other.tool)) {
		if s := p.forIntent(t, c); s != nil {
			return s, []*catalog.Tool{t}
		}
	}
	if other.tool == nil {
		return nil, nil
	}
	return p.general(other.tool, c), []*catalog.Tool{other.tool}
}

// explicit serves a clause that names its tool. Of several servers that have it, one that the clause names comes first.
func (p *work) explicit(c goal.Clause) (script, []*catalog.Tool) {
	named := p.catalog.Named(c.Tool)
	if len(named) == 0 {
		return nil, nil
	}
	t := named[0]
	for _, other := range named {
		if id := strings.ToLower(other.GetMcpId()); id != "" && catalog.ContainsWord(strings.ToLower(c.Text), id) {
			t = other
		}
	}
	plain := !slices.ContainsFunc(c.Literals, func(l goal.Literal) bool { return l.Kind == goal.Pair || l.Kind == goal.JSON })
	if want, ok := capabilities[needed[c.Intent]]; ok && plain && fits(t, want) > 0 {
		if s := p.forIntent(t, c); s != nil {
			return s, []*catalog.Tool{t}
		}
	}
	return p.general(t, c), []*catalog.Tool{t}
}

// general is a single call with an input from the clause's words. Where a server has folders of its own, relative paths are
// taken as below the first of them, and a tool for folders that was given none gets that one.
func (p *work) general(t *catalog.Tool, c goal.Clause) script {
	in := p.input(t, c)
	if t.For(catalog.Path, "string") == nil {
		return once(&step{tool: t, input: in, part: direct, item: itemOf(t, in)})
	}
	return p.rooted(t, func(root string) script {
		in := in.Clone()
		for i := range t.Props {
			prop := &t.Props[i]
			raw, given := in.Get(prop.Name)
			switch {
			case !prop.Is(catalog.Path) || !prop.Takes("string"):
			case given && root != "":
				in.Set(prop.Name, strictjson.Quote(under(root, strictjson.Content(raw))))
			case !given && prop.Required && forFolders(t):
				in.Set(prop.Name, strictjson.Quote(under(root, ".")))
			}
		}
		return once(&step{tool: t, input: in, part: direct, item: itemOf(t, in)})
	})
}

// input fills a tool's input from a clause. Tools for files and text that the clause does not name get no leftover words: a
// sentence that was not understood is nothing to search for.
func (p *work) input(t *catalog.Tool, c goal.Clause) *strictjson.Object {
	if c.Tool == "" && hasCapability(t) {
		c.Question = true
	}
	return input.FromClause(t, c, p.known())
}

// forFolders tells whether a tool reads folders, so that the root is a sensible one to begin with.
func forFolders(t *catalog.Tool) bool {
	words := catalog.WordsOf(strings.Join(t.NameWords(), " "))
	return (words["folder"] || words["tree"]) && !words["create"] && !words["delete"] && !words["move"]
}

// itemOf tells what a call is about, for a tool whose results have a known shape.
func itemOf(t *catalog.Tool, in *strictjson.Object) item {
	value := func(r catalog.Role) string {
		for _, prop := range t.Props {
			if raw, ok := in.Get(prop.Name); ok && prop.Is(r) {
				return strictjson.Content(raw)
			}
		}
		return ""
	}
	for _, intent := range []goal.Intent{goal.SearchText, goal.FindFiles, goal.ReadFile, goal.DescribeFile, goal.ListFolder} {
		if fits(t, capabilities[intent]) == 0 {
			continue
		}
		it := item{intent: intent, path: value(catalog.Path)}
		switch intent {
		case goal.SearchText:
			it.term.Text = value(catalog.Query)
		case goal.FindFiles:
			it.kind = goal.Named(value(catalog.Pattern))
		}
		return it
	}
	return item{intent: goal.Other}
}

func (p *work) forIntent(t *catalog.Tool, c goal.Clause) script {
	switch c.Intent {
	case goal.SearchText, goal.FindDefinition:
		return p.rooted(t, func(root string) script { return p.searches(t, c, root) })
	case goal.CountFiles, goal.FindFiles:
		return p.rooted(t, func(root string) script { return p.finds(t, c, root) })
	case goal.CountFolders, goal.ListFolder:
		return p.rooted(t, func(root string) script { return p.lists(t, c, root) })
	case goal.ReadFile, goal.DescribeFile:
		return p.rooted(t, func(root string) script { return p.files(t, c, root) })
	case goal.About:
		return p.rooted(t, func(root string) script { return p.document(t, c, "readme", root) })
	}
	return nil
}

// rooted asks first which folders may be used, where a server has a tool for that and paths of its own: its tools take no
// relative paths, or take them relative to another folder than people mean.
func (p *work) rooted(t *catalog.Tool, then func(root string) script) script {
	for _, other := range p.catalog.Tools {
		if other.GetMcpId() == t.GetMcpId() && slices.Contains(other.NameWords(), "allowed") &&
			(slices.Contains(other.NameWords(), "directories") || slices.Contains(other.NameWords(), "roots")) && len(other.Missing(&strictjson.Object{})) == 0 {
			ask := &step{tool: other, input: &strictjson.Object{}, part: preparation, item: item{intent: goal.Other}}
			return after(ask, func(r *result.Result) script { return then(firstRoot(r)) })
		}
	}
	return then("")
}

// firstRoot reads the first absolute path of a list of folders.
func firstRoot(r *result.Result) string {
	for line := range strings.Lines(r.Message) {
		if line = strings.TrimSpace(line); path.IsAbs(line) || len(line) > 2 && line[1] == ':' && (line[2] == '\\' || line[2] == '/') {
			return line
		}
	}
	return ""
}

// under makes a path relative to a root absolute.
func under(root, p string) string {
	switch {
	case root == "" || path.IsAbs(p):
		return p
	case p == "" || p == ".":
		return root
	}
	return strings.TrimRight(root, "/") + "/" + p
}

func (p *work) searches(t *catalog.Tool, c goal.Clause, root string) script {
	var all []script
	for _, term := range c.Terms {
		for _, kind := range orNone(c.Kinds) {
			for _, place := range orNone(c.Places) {
				if len(all) < most {
					it := item{intent: c.Intent, term: term, kind: kind, path: place.Path, file: place.File}
					all = append(all, p.search(t, it, root))
				}
			}
		}
	}
	return series(all)
}

// search looks for one term. Where a word or a definition is nowhere, it looks for the bare text, and says so.
func (p *work) search(t *catalog.Tool, it item, root string) script {
	slots := input.Slots{Query: it.term.Text, Word: it.term.Word, Glob: it.kind.Pattern, Path: under(root, it.path)}
	st := &step{tool: t, part: mainPart, item: it}
	loose := &step{tool: t, part: plainSearch, item: it}
	loose.input = input.FromSlots(t, input.Slots{Query: it.term.Text, Glob: slots.Glob, Path: slots.Path})
	switch {
	case it.intent == goal.FindDefinition:
		slots.Regex = input.DefinitionRegex(it.term.Text)
	case it.term.Regex:
		slots.Regex = it.term.Text
	case it.term.Word:
		loose.part = insideWords
	}
	st.input = input.FromSlots(t, slots)
	if st.input.String() == loose.input.String() || it.term.Regex {
		return once(st)
	}
	nothing := func(r *result.Result) bool {
		s, ok := r.Search()
		return r.OK() && ok && s.Count == 0
	}
	return orElse(st, nothing, func(*result.Result) script { return once(loose) })
}

func (p *work) finds(t *catalog.Tool, c goal.Clause, root string) script {
	kinds := c.Kinds
	if len(kinds) == 0 {
		kinds = []goal.Kind{{Pattern: "**/*"}}
	}
	var all []script
	for _, kind := range kinds {
		for _, place := range orNone(c.Places) {
			if len(all) < most {
				all = append(all, p.find(t, item{intent: c.Intent, kind: kind, path: place.Path}, root))
			}
		}
	}
	return series(all)
}

// find looks for files. Where none has exactly a name, it looks for names that hold it.
func (p *work) find(t *catalog.Tool, it item, root string) script {
	build := func(part part, pattern string) *step {
		return &step{tool: t, part: part, item: it, input: input.FromSlots(t, input.Slots{Glob: pattern, Path: under(root, it.path)})}
	}
	st := build(mainPart, it.kind.Pattern)
	if !it.kind.Name || strings.ContainsAny(it.kind.Label, "*?[{") || it.kind.Pattern == it.kind.Label {
		return once(st)
	}
	nothing := func(r *result.Result) bool { return r.OK() && r.Files().Count == 0 }
	return orElse(st, nothing, func(*result.Result) script { return once(build(looseName, it.kind.Label)) })
}

func (p *work) lists(t *catalog.Tool, c goal.Clause, root string) script {
	var all []script
	for _, place := range orNone(c.Places) {
		if len(all) < most {
			it := item{intent: c.Intent, path: place.Path, deep: c.Deep}
			all = append(all, once(&step{tool: t, item: it, input: input.FromSlots(t, input.Slots{Path: under(root, place.Path), Deep: c.Deep, All: c.Largest || c.Smallest})}))
		}
	}
	return series(all)
}

// orNone returns a list with a zero value where it is empty, for loops that run at least once.
func orNone[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}
