package offline

import (
	"strings"
	"unicode/utf8"

	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/lang"
)

// describe says why a step is made, in a few words.
func (p *work) describe(st *step, c goal.Clause) string {
	l, it := p.l, st.item
	if st.part == direct {
		return lang.Clip(c.Text, 120)
	}
	switch it.intent {
	case goal.SearchText:
		return l.Say("Search for %q%s", "搜索“%s”%s", it.term.Text, p.within(it))
	case goal.FindDefinition:
		if st.part == plainSearch {
			return l.Say("Search for %q%s", "搜索“%s”%s", it.term.Text, p.within(it))
		}
		return l.Say("Look for the definition of %s%s", "查找 %s 的定义%s", it.term.Text, p.within(it))
	case goal.CountFiles:
		return l.Say("Count the %s%s", "统计%s%s", p.gap(p.filesOf(it, 2)), p.place(it.path))
	case goal.FindFiles:
		return l.Say("Find the %s%s", "查找%s%s", p.gap(p.filesOf(it, 2)), p.place(it.path))
	case goal.CountFolders, goal.ListFolder:
		return l.Say("List %s", "列出%s的内容", p.folder(it.path))
	case goal.ReadFile, goal.About:
		return l.Say("Read %s%s", "读取 %s%s", it.path, p.lineRange(it.lines))
	case goal.DescribeFile:
		return l.Say("Look up %s", "查看 %s 的信息", it.path)
	}
	if st.part == preparation {
		return l.Say("Ask which folders may be used", "查询可用的目录")
	}
	return lang.Clip(c.Text, 120)
}

// within says where and in which files a search looks.
func (p *work) within(it item) string {
	s := p.place(it.path)
	if it.kind.Pattern != "" {
		s += p.l.Say(" (%s)", "（%s）", p.filesOf(it, 2))
	}
	return s
}

// place says where something is: " in docs"; nothing for the root.
func (p *work) place(dir string) string {
	if dir == "" || dir == "." {
		return ""
	}
	return p.l.Say(" in %s", "（在 %s 中）", dir)
}

func (p *work) folder(dir string) string {
	if dir == "" || dir == "." {
		return p.l.Pick("the root folder", "根目录")
	}
	return p.l.Say("%s", " %s ", dir)
}

// filesOf names the files of a kind, n of them: "Go files", "files matching *.proto", "files".
func (p *work) filesOf(it item, n int) string {
	files := lang.Plural(n, "file", "files")
	switch {
	case it.kind.Label == "":
		return p.l.Pick(files, "文件")
	case !it.kind.Name:
		return p.l.Say("%s %s", "%[1]s 文件", it.kind.Label, files)
	case strings.ContainsAny(it.kind.Label, "*?[{"):
		return p.l.Say("%[2]s matching %[1]s", "匹配 %[1]s 的文件", it.kind.Label, files)
	case strings.Contains(it.kind.Pattern, "*"):
		return p.l.Say("%[2]s named %[1]s", "名为 %[1]s 的文件", it.kind.Label, files)
	}
	return p.l.Say("%[2]s with %[1]q in the name", "名称含“%[1]s”的文件", it.kind.Label, files)
}

// gap puts a space between Chinese and Latin letters.
func (p *work) gap(s string) string {
	if p.l == lang.ZH && s != "" && s[0] < utf8.RuneSelf {
		return " " + s
	}
	return s
}

// lineRange says which lines are meant; nothing for all of them.
func (p *work) lineRange(r goal.Lines) string {
	switch {
	case r.Last > 0:
		return p.l.Say(" (last %d lines)", "（最后 %d 行）", r.Last)
	case r.To > 0 && r.From == r.To:
		return p.l.Say(" (line %d)", "（第 %d 行）", r.From)
	case r.To > 0:
		return p.l.Say(" (lines %d–%d)", "（第 %d–%d 行）", r.From, r.To)
	}
	return ""
}
