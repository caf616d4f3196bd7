package offline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/result"
)

// listing shows what is in a folder: all of it, its folders, or its largest or smallest files.
func (p *work) listing(d done, l result.Listing, c goal.Clause) []string {
	if c.Largest || c.Smallest {
		return p.extremes(d, l, c)
	}
	var folders, files []string
	all := make([]string, 0, len(l.Entries))
	for _, e := range l.Entries {
		line := entry(e, d.item.deep)
		all = append(all, line)
		if e.Folder() {
			folders = append(folders, line)
		} else {
			files = append(files, line)
		}
	}
	least := ""
	if l.Truncated {
		least = p.l.Pick("at least ", "至少")
	}
	n, m := len(folders), len(files)
	head := p.l.Say("%s holds %s%d %s and %d %s", "%s有%s %d 个文件夹和 %[5]d 个文件", p.subject(d.item.path), least,
		n, lang.Plural(n, "folder", "folders"), m, lang.Plural(m, "file", "files"))
	if c.Folders {
		head = p.l.Say("%s holds %s%d %s", "%s有%s %d 个文件夹", p.subject(d.item.path), least, n, lang.Plural(n, "folder", "folders"))
		all = folders
	}
	if len(all) == 0 {
		return []string{head + p.l.Pick(".", "。")}
	}
	return append([]string{head + p.l.Pick(":", "：")}, p.bullets(all, len(all))...)
}

// extremes shows the largest or smallest files of a listing.
func (p *work) extremes(d done, l result.Listing, c goal.Clause) []string {
	var files []result.Entry
	for _, e := range l.Entries {
		if e.Type == "file" && (len(c.Kinds) == 0 || slices.ContainsFunc(c.Kinds, func(k goal.Kind) bool { return goal.Matches(k.Pattern, e.Path) })) {
			files = append(files, e)
		}
	}
	slices.SortStableFunc(files, func(a, b result.Entry) int {
		if c.Smallest {
			return cmp.Compare(a.Size, b.Size)
		}
		return cmp.Compare(b.Size, a.Size)
	})
	it := d.item
	if len(c.Kinds) == 1 {
		it.kind = c.Kinds[0]
	}
	if len(files) == 0 {
		return []string{p.l.Say("There are no %s%s.", "没有%s%s。", p.gap(p.filesOf(it, 2)), p.place(it.path))}
	}
	head := p.l.Say("The largest of %d %s%s:", "%d 个%s中最大的%s：", len(files), p.gap(p.filesOf(it, len(files))), p.place(it.path))
	if c.Smallest {
		head = p.l.Say("The smallest of %d %s%s:", "%d 个%s中最小的%s：", len(files), p.gap(p.filesOf(it, len(files))), p.place(it.path))
	}
	out := []string{head}
	for _, e := range files[:min(5, len(files))] {
		out = append(out, "- "+e.Path+" ("+size(e.Size)+")")
	}
	if l.Truncated {
		out = append(out, p.l.Pick("The listing was cut off; there may be others.", "列表被截断，可能还有其他文件。"))
	}
	return out
}

func entry(e result.Entry, deep bool) string {
	name := e.Name
	if deep || name == "" {
		name = e.Path
	}
	switch {
	case e.Folder():
		return name + "/"
	case e.Size > 0:
		return name + " (" + size(e.Size) + ")"
	}
	return name
}

// size writes bytes as people read them.
func size(n int64) string {
	switch {
	case n < 1024:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/1024)
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// subject names a folder at the start of a sentence.
func (p *work) subject(dir string) string {
	name := strings.TrimSpace(p.folder(dir))
	if after, ok := strings.CutPrefix(name, "the "); ok {
		return "The " + after
	}
	if p.l == lang.ZH && name[len(name)-1] < utf8.RuneSelf {
		return name + " "
	}
	return name
}
