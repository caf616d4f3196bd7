package offline

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/result"
)

// How much of a result an answer shows.
const (
	mostFiles   = 20
	mostLines   = 10
	mostEntries = 100
	mostContent = 4000 // characters
	mostAbout   = 1500
)

// found tells what a search for text found: the files with their counts, and the lines where those were asked for.
func (p *work) found(d done, s result.Search, c goal.Clause) []string {
	term, where := d.item.term.Text, p.within(d.item)
	if d.item.file {
		where = ""
	}
	if s.Count == 0 {
		if d.item.file {
			return []string{p.l.Say("%[2]s does not mention %[1]q.", "%[2]s 没有提到“%[1]s”。", term, d.item.path)}
		}
		if d.item.intent == goal.FindDefinition {
			return []string{p.l.Say("%s is not defined or mentioned anywhere%s.", "没有找到 %s 的定义，也没有提到它的地方%s。", term, where)}
		}
		return []string{p.l.Say("No file mentions %q%s.", "没有文件提到“%s”%s。", term, where)}
	}
	if d.item.intent == goal.FindDefinition {
		if d.part == plainSearch {
			head := p.l.Say("No definition of %s was recognised; it is mentioned here:", "没有识别出 %s 的定义；提到它的地方：", term)
			return append([]string{head}, p.matches(s)...)
		}
		if len(s.Matches) == 1 {
			m := s.Matches[0]
			return []string{p.l.Say("%s is defined at %s:%d: `%s`", "%s 定义在 %s:%d：`%s`", term, m.Path, m.Line, strings.TrimSpace(m.Text))}
		}
		head := p.l.Say("%s is defined in %d places:", "%s 有 %d 处定义：", term, s.Count)
		return append([]string{head}, p.matches(s)...)
	}
	head := p.foundHead(d, s, where)
	if c.Where || s.FileCount == 1 && s.Count <= 3 {
		return append([]string{head}, p.matches(s)...)
	}
	return []string{head}
}

func (p *work) foundHead(d done, s result.Search, where string) string {
	var files []string
	for i, f := range s.Files {
		if i == mostFiles {
			break
		}
		files = append(files, fmt.Sprintf("%s (%d)", f.Path, f.Count))
	}
	list := p.l.List(files)
	if more := s.FileCount - len(files); more > 0 {
		list += p.l.Say(" and %d more", " 等另外 %d 个", more)
	}
	what := p.l.Say("%q", "“%s”", d.item.term.Text)
	switch {
	case d.part == insideWords:
		what = p.l.Say("%q does not stand alone as a word, but as a part of longer ones it", "“%s”没有作为单独的单词出现，但作为其他词的一部分", d.item.term.Text)
	case d.item.term.Word:
		what = p.l.Say("The word %q", "单词“%s”", d.item.term.Text)
	}
	lines := p.l.Say("%d matching "+lang.Plural(s.Count, "line", "lines"), "%d 个匹配行", s.Count)
	return p.l.Say("%s is mentioned in %d %s (%s)%s: %s.", "%s在 %[2]d 个文件中出现（%[4]s）%[5]s：%[6]s。",
		what, s.FileCount, lang.Plural(s.FileCount, "file", "files"), lines, where, list)
}

// matches shows the first lines that were found.
func (p *work) matches(s result.Search) []string {
	var out []string
	for i, m := range s.Matches {
		if i == mostLines {
			out = append(out, p.l.Say("- … and %d more", "- ……另有 %d 处", s.Count-i))
			break
		}
		out = append(out, fmt.Sprintf("- %s:%d: `%s`", m.Path, m.Line, lang.Clip(strings.TrimSpace(m.Text), 160)))
	}
	return out
}

// filesFound tells how many files there are, and which where that was asked or they are few.
func (p *work) filesFound(d done, f result.Files) []string {
	it, where, pattern, least := d.item, p.place(d.item.path), "", ""
	if !it.kind.Name && it.kind.Label != "" {
		pattern = p.l.Say(" (%s)", "（%s）", it.kind.Pattern)
	}
	if f.Count == 0 {
		return []string{p.l.Say("There are no %s%s%s.", "没有%s%s%s。", p.gap(p.filesOf(it, 2)), pattern, where)}
	}
	if d.part == looseName {
		it.kind.Pattern = it.kind.Label
	}
	if f.AtLeast {
		least = p.l.Pick("at least ", "至少 ")
	}
	head := p.l.Say("There %s %s%d %s%s%s", "共有%[2]s %[3]d 个%[4]s%[5]s%[6]s",
		lang.Plural(f.Count, "is", "are"), least, f.Count, p.gap(p.filesOf(it, f.Count)), pattern, where)
	few := f.Count <= 5 && len(f.Paths) == f.Count
	switch {
	case few:
		return []string{head + p.l.Pick(": ", "：") + p.l.List(f.Paths) + p.l.Pick(".", "。")}
	case it.intent == goal.CountFiles && !it.kind.Name:
		return []string{head + p.l.Pick(".", "。")}
	}
	return append([]string{head + p.l.Pick(":", "：")}, p.bullets(f.Paths, f.Count)...)
}

// bullets lists the first of so many things.
func (p *work) bullets(things []string, count int) []string {
	var out []string
	for i, thing := range things {
		if i == mostEntries {
			break
		}
		out = append(out, "- "+thing)
	}
	if more := count - len(out); more > 0 {
		out = append(out, p.l.Say("- … and %d more", "- ……另有 %d 个", more))
	}
	return out
}

// content shows a file, or the lines that were asked for.
func (p *work) content(d done, c result.Content) []string {
	file := d.item.path
	if c.Path != "" {
		file = c.Path
	}
	text := c.Text
	if last := d.item.lines.Last; last > 0 {
		text = lastLines(text, last)
	}
	head := file
	switch {
	case d.item.lines != goal.Lines{} && c.Total > 0:
		head += p.l.Say(" (lines %d–%d of %d)", "（第 %d–%d 行，共 %d 行）", c.From, c.To, c.Total)
	case d.item.lines != goal.Lines{}:
		head += p.lineRange(d.item.lines)
	case c.Total > 0:
		head += p.l.Say(" (%d %[2]s)", "（共 %[1]d 行）", c.Total, lang.Plural(c.Total, "line", "lines"))
	}
	if d.part == elsewhere {
		head = p.l.Say("It is not where you named it; found %s", "不在所述位置；找到了 %s", head)
	}
	if strings.TrimSpace(text) == "" {
		return []string{p.l.Say("%s: empty.", "%s：空。", head)}
	}
	out := []string{head + p.l.Pick(":", "："), p.fenced(text, strings.TrimPrefix(path.Ext(file), "."))}
	if c.Truncated {
		out = append(out, p.l.Pick("The tool cut the file off there; it is longer.", "工具在此处截断，文件还有更多内容。"))
	}
	return out
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// fenced shows a text as a block that nothing in it can end, cut where it is long.
func (p *work) fenced(text, language string) string {
	total := utf8.RuneCountInString(text)
	note := ""
	if total > mostContent {
		text = string([]rune(text)[:mostContent])
		note = "\n\n" + p.l.Say("(The first %d of %d characters are shown.)", "（仅显示前 %d 个字符，共 %d 个。）", mostContent, total)
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimRight(text, "\r\n") + "\n" + fence + note
}

// about shows the beginning of a readme: its title and its first paragraphs.
func (p *work) about(d done, c result.Content) []string {
	text := strings.TrimSpace(c.Text)
	if i := strings.Index(text, "\n## "); i > 200 {
		text = strings.TrimSpace(text[:i])
	}
	if runes := []rune(text); len(runes) > mostAbout {
		text = strings.TrimSpace(string(runes[:mostAbout])) + " …"
	}
	var quote []string
	for line := range strings.SplitSeq(text, "\n") {
		quote = append(quote, strings.TrimRight("> "+line, " \r"))
	}
	return []string{p.l.Say("%s says:", "%s 中写道：", d.item.path), strings.Join(quote, "\n")}
}

// info tells what is known of a file.
func (p *work) info(d done, i result.Info) []string {
	name := i.Path
	if name == "" {
		name = d.item.path
	}
	if i.Type == "directory" {
		return []string{p.l.Say("%s is a folder, last changed %s.", "%s 是文件夹，最后修改于 %s。", name, i.Modified)}
	}
	parts := []string{p.l.Say("%d bytes", "%d 字节", *i.Size)}
	if *i.Size >= 1024 {
		parts[0] += p.l.Say(" (%s)", "（%s）", size(*i.Size))
	}
	if i.Lines != nil {
		parts = append(parts, p.l.Say("%d %s", "%d 行", lineArgs(p.l, *i.Lines)...))
	}
	if i.MIME != "" {
		parts = append(parts, i.MIME)
	}
	if i.Modified != "" {
		parts = append(parts, p.l.Say("last changed %s", "最后修改于 %s", i.Modified))
	}
	return []string{p.l.Say("%s: %s.", "%s：%s。", name, strings.Join(parts, p.l.Pick(", ", "，")))}
}

func lineArgs(l lang.Lang, n int) []any {
	if l == lang.ZH {
		return []any{n}
	}
	return []any{n, lang.Plural(n, "line", "lines")}
}
