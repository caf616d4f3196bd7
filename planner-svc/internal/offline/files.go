package offline

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/result"
)

// bareDocs are documents that people name without the extension that their files have.
var bareDocs = map[string]bool{"README": true, "CHANGELOG": true, "CONTRIBUTING": true, "SECURITY": true}

// severalCue tells that all of what was found is meant, not the first.
var severalCue = regexp.MustCompile(`(?i)\b(?:them|they|these|those|their|each|all)\b|它们|每个|这些|那些|都`)

// files reads or describes the files that a clause names, or that were found before; nil where it names none.
func (p *work) files(t *catalog.Tool, c goal.Clause, root string) script {
	paths := filePaths(c)
	if len(paths) == 1 && bareDocs[paths[0]] {
		return p.document(t, c, strings.ToLower(paths[0]), root)
	}
	if len(paths) == 0 && c.Doc != "" {
		return p.document(t, c, c.Doc, root)
	}
	if len(paths) == 0 && c.Back {
		paths = p.known().Paths
		if !severalCue.MatchString(c.Text) {
			paths = paths[:min(1, len(paths))]
		}
	}
	if len(paths) == 0 {
		return p.nothingFound(c)
	}
	var all []script
	for _, file := range paths[:min(most, len(paths))] {
		all = append(all, p.file(t, item{intent: c.Intent, path: file, lines: c.Lines}, root))
	}
	return series(all)
}

// nothingFound is for a clause about what was found, when nothing was: it is done without a step.
func (p *work) nothingFound(c goal.Clause) script {
	if c.Back && len(p.sections) > 0 {
		return func([]done) *step { return nil }
	}
	return nil
}

// filePaths returns the files that a clause names. A folder named beside bare file names is where they are.
func filePaths(c goal.Clause) []string {
	var files, folders []string
	for _, place := range c.Places {
		if place.File {
			files = append(files, place.Path)
		} else {
			folders = append(folders, place.Path)
		}
	}
	if len(files) == 0 {
		return folders
	}
	if len(folders) == 1 && !slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, "/") }) {
		for i, f := range files {
			files[i] = path.Join(folders[0], f)
		}
	}
	return files
}

// file reads or describes one file: its last lines by way of its length, and wherever it is if it is not where it was said
// to be.
func (p *work) file(t *catalog.Tool, it item, root string) script {
	full := under(root, it.path)
	info := p.capable(goal.DescribeFile, goal.Clause{})
	if it.intent == goal.ReadFile && it.lines.Last > 0 && !input.HasTail(t) && info != nil && info != t {
		ask := &step{tool: info, part: preparation, item: item{intent: goal.DescribeFile, path: it.path}, input: input.FromSlots(info, input.Slots{Path: full})}
		return after(ask, func(r *result.Result) script {
			if i, ok := r.Info(); ok && r.OK() && i.Lines != nil && *i.Lines > 0 {
				it.lines = goal.Lines{From: max(1, *i.Lines-it.lines.Last+1), To: *i.Lines}
			}
			return p.fileOrElsewhere(t, it, root, full)
		})
	}
	return p.fileOrElsewhere(t, it, root, full)
}

func (p *work) fileOrElsewhere(t *catalog.Tool, it item, root, full string) script {
	call := func(part part, file string) *step {
		return &step{tool: t, part: part, item: it, input: input.FromSlots(t, input.Slots{Path: file, Lines: it.lines})}
	}
	finder := p.capable(goal.FindFiles, goal.Clause{})
	if finder == nil || finder.GetMcpId() != t.GetMcpId() {
		return once(call(mainPart, full))
	}
	gone := func(r *result.Result) bool { return !r.OK() && input.NotFound(r.GetError()) }
	return orElse(call(mainPart, full), gone, func(*result.Result) script {
		name := goal.Named(path.Base(it.path))
		look := &step{tool: finder, part: lookAround, item: item{intent: goal.FindFiles, kind: name},
			input: input.FromSlots(finder, input.Slots{Glob: name.Pattern, Path: under(root, "")})}
		return after(look, func(r *result.Result) script {
			if file := shallowest(r.Files().Paths, ""); r.OK() && file != "" {
				found := call(elsewhere, file)
				found.item.path = file
				return once(found)
			}
			return nil
		})
	})
}

// document reads a file that is named by its role, such as the readme: it looks what the root holds, and below if it must.
func (p *work) document(t *catalog.Tool, c goal.Clause, name, root string) script {
	read := func(file string) script {
		it := item{intent: c.Intent, path: file, lines: c.Lines}
		return once(&step{tool: t, item: it, input: input.FromSlots(t, input.Slots{Path: file, Lines: c.Lines})})
	}
	find := p.searchDocument(name, root, read)
	list := p.capable(goal.ListFolder, goal.Clause{})
	if list == nil {
		return find
	}
	look := &step{tool: list, part: preparation, item: item{intent: goal.ListFolder}, input: input.FromSlots(list, input.Slots{Path: under(root, "")})}
	return after(look, func(r *result.Result) script {
		l, _ := r.Listing()
		var here []string
		for _, e := range l.Entries {
			if !e.Folder() {
				here = append(here, e.Path)
			}
		}
		if file := shallowest(here, name); file != "" {
			return read(under(root, file))
		}
		return find
	})
}

// searchDocument finds a document below the root; nil where no tool can.
func (p *work) searchDocument(name, root string, read func(string) script) script {
	finder := p.capable(goal.FindFiles, goal.Clause{})
	if finder == nil {
		return nil
	}
	look := &step{tool: finder, part: lookAround, item: item{intent: goal.FindFiles, kind: goal.Kind{Label: name, Pattern: name, Name: true}},
		input: input.FromSlots(finder, input.Slots{Glob: name, Path: under(root, "")})}
	return after(look, func(r *result.Result) script {
		if file := shallowest(r.Files().Paths, name); r.OK() && file != "" {
			return read(file)
		}
		return nil
	})
}

// shallowest returns the path with the fewest folders whose file name begins with a prefix, in any case; the first of
// several. Among equals, the plain document goes before its translations (README.md before README.zh.md).
func shallowest(paths []string, prefix string) string {
	best, depth := "", 0
	for _, p := range paths {
		if !strings.HasPrefix(strings.ToLower(path.Base(p)), prefix) {
			continue
		}
		if d := strings.Count(p, "/")*100 + strings.Count(path.Base(p), "."); best == "" || d < depth {
			best, depth = p, d
		}
	}
	return best
}
