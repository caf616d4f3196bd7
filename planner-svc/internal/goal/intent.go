package goal

import (
	"regexp"
	"slices"
	"strings"
)

// Cues: words that tell what is asked for, in English and Chinese.
var (
	countCue    = regexp.MustCompile(`(?i)\b(?:how\s+many|count|number\s+of|how\s+often)\b|多少|几[个份次篇]|数量|个数|数目|总数|统计|计数|数一?下`)
	filesNoun   = regexp.MustCompile(`(?i)\b(?:files?|documents?)\b|文件(?:[^夹]|$)|文档`)
	folderNoun  = regexp.MustCompile(`(?i)\b(?:(?:sub)?folders?|(?:sub)?director(?:y|ies))\b|文件夹|目录`)
	thisFolder  = regexp.MustCompile(`(?i)\b(?:this|the|my|our)\s+(?:(?:current|working|root|whole|same)\s+)*(?:folder|directory)\b|\b(?:current|working|root)\s+(?:folder|directory)\b|(?:当前|这个|本|根|该)(?:文件夹|目录)`)
	linesNoun   = regexp.MustCompile(`(?i)\blines?\b|\bhow\s+long\b|行`)
	statsCue    = regexp.MustCompile(`(?i)\bhow\s+(?:big|large|long|old|heavy)\b|\b(?:file\s*)?sizes?\b|\b(?:last\s+)?(?:modified|changed|updated|edited)\b|\binfo(?:rmation)?\b|\bdetails?\b|\bmetadata\b|\bstat\b|\bpermissions?\b|\bmime\b|\btype\s+of\b|\bwhat\s+(?:type|kind)\b|^is\b.*\ban?\s+(?:file|folder|directory)\b|\bline\s+count\b|多大|大小|尺寸|多少行|几行|行数|多长|修改时间|什么时候|何时|信息|权限|类型`)
	readCue     = regexp.MustCompile(`(?i)\b(?:read|open|cat|print|display|view|dump|show|output|see|head|tail|get|fetch|give|summari[sz]e|describe|explain|quote)\b|^about\b|\bcontents?\s+of\b|\bwhat(?:['’]s|\s+is|\s+are|\s+does)?\b|读|打开|查看|显示|看|展示|输出|打印|内容|什么|总结|概括|介绍|解释|说明`)
	listCue     = regexp.MustCompile(`(?i)^(?:list|ls|browse|tree|show|enumerate|display|view|print|get|give)\b|\b(?:what|which)\b.*\b(?:are\s+there|are\s+in|is\s+in|exist|there\s+are|do\s+we\s+have)\b|\bwhat(?:['’]s|\s+is|\s+are)?\s+(?:there\s+)?(?:in|inside|under)\b|\b(?:what|which)\s+(?:files|(?:sub)?folders|(?:sub)?directories)\s+(?:are|do|in|under|inside)\b|\bwhat\s+are\s+the\s+(?:files|(?:sub)?folders|(?:sub)?directories)\b|\bcontents?\s+of\b|列出|列举|列一?下|显示|查看|看|浏览|有(?:什么|哪些)|哪些|什么`)
	findCue     = regexp.MustCompile(`(?i)\b(?:find|locate|search|look\s+for|where(?:['’]s|\s+is|\s+are)|is\s+there|are\s+there|do\s+we\s+have|exists?)\b|找|搜|查|在哪|哪里|有没有|是否有|存在`)
	deepCue     = regexp.MustCompile(`(?i)\brecursive(?:ly)?\b|\btree\b|\ball\s+(?:of\s+)?(?:the\s+)?files\b|\b(?:including|with|in|through|all)\s+(?:all\s+)?(?:the\s+)?sub(?:folders|directories|dirs)\b|\beverything\b|递归|所有的?文件(?:[^夹]|$)|全部文件|包括子目录|包括子文件夹|目录树`)
	largestCue  = regexp.MustCompile(`(?i)\b(?:largest|biggest|heaviest)\b|最大的?`)
	smallCue    = regexp.MustCompile(`(?i)\b(?:smallest|tiniest)\b|最小的?`)
	whereCue    = regexp.MustCompile(`(?i)\bwhere\b|\bwhich\s+lines?\b|\bline\s+numbers?\b|\b(?:show|list|print)\b.*\blines\b|\boccurrences\b|\busages?\b|哪里|哪儿|哪一?行|什么地方|何处`)
	backCue     = regexp.MustCompile(`(?i)\b(?:it|them|they|those|these|its|their|each|the\s+(?:first|found|matching)\s+(?:one|file|result|match|hit)s?)\b|它们?|第一个|每个|这些文件|那些文件|其中|其内容`)
	aboutCue    = regexp.MustCompile(`(?i)\bwhat\s+(?:does|is|do)\s+(?:this|the|our|my)\s+(?:\w+\s+)?(?:project|repo|repository|code|codebase|program|workspace|folder|app|application|tool|library)\b|\b(?:summari[sz]e|describe|explain|introduce|(?:tell\s+me\s+)?about|overview\s+of|summary\s+of)\s+(?:this|the|our|my)\s+(?:\w+\s+)?(?:project|repo|repository|code|codebase|program|workspace|app|application|library)\b|(?:项目|仓库|工程|代码库|程序|代码)(?:主要)?(?:到底)?是?(?:用来)?(?:做|干|关于)(?:什么|啥)|(?:项目|仓库|工程|代码库|程序)是(?:什么|啥)|(?:介绍|总结|概括|说明|描述|解释)(?:一下)?(?:这个|本|该)?(?:项目|仓库|工程|代码库|程序)|(?:项目|仓库)(?:的)?(?:简介|概述|用途|作用)`)
	docPattern  = regexp.MustCompile(`(?i)\b(readme|licen[sc]e|changelog|makefile|dockerfile|contributing|codeowners|notice)\b|(许可证|更新日志|贡献指南|自述文件|说明文档)`)
	namedCue    = regexp.MustCompile(`(?i)\b(?:named|called|matching|match(?:es)?|whose\s+names?\s+(?:is|are|contains?|includes?))\s+(?:like\s+)?(` + lit + `|[\w.-]+)|(?:名为|名叫|叫做?|文件名(?:是|为|叫|包含|含有|中?含)|名字(?:是|叫|包含|含有|中?含))\s*(` + lit + `|[\w.-]+)`)
	extCue      = regexp.MustCompile(`(?i)\b(?:(?:ending|ends?)\s+(?:in|with)|(?:file\s+)?extensions?(?:\s+is|\s+of)?)\s+(` + lit + `|\w+)|(` + lit + `)\s+extension|(?:扩展名|后缀)名?(?:为|是)?\s*(` + lit + `|\w+)|以\s*(` + lit + `|\w+)\s*结尾`)
	toolCue     = regexp.MustCompile(`(?i)^(?:(?:call|invoke|execute|run|use|using|with|via)\s+(?:the\s+)?(?:tool\s+)?|(?:请?(?:调用|使用|运行|执行|用)|通过)\s*(?:工具)?\s*)` + lit + `\s*(?:(?:tool)\b|工具|来|去)?\s*(?:(?:to|and|for|in order to)\b)?[\s,，:：]*`)
	questionCue = regexp.MustCompile(`(?i)^(?:in\s+(?:what|which)|what|which|where|how|who|whose|when|why|is|are|was|were|does|do|did|can|could|has|have)\b|什么|哪|多少|几|吗|如何|怎么|为什么`)
	loneCue     = regexp.MustCompile(`(?i)^(?:` + kindWord + `|(?:the|a|an|all|any|my|our|in|of|under|and|or|also|tests?|files?|folders?|documents?)\b|文件|目录|文档)`)
)

// docNames maps what people call a document to a part of its file name.
var docNames = map[string]string{"licence": "license", "许可证": "license", "更新日志": "changelog", "贡献指南": "contributing", "自述文件": "readme", "说明文档": "readme"}

// read finds out what the clause asks for.
func (c *clauseReader) read() Clause {
	cl := Clause{Text: strings.TrimSpace(c.written(c.masked)), Lines: findLines(c.masked)}
	cl.Bare = c.expand(c.masked, func(*Literal) string { return " ¶ " })
	for _, w := range c.words() {
		l := *c.literal(w)
		cl.Literals = append(cl.Literals, l)
		if l.Kind == Tool && cl.Tool == "" {
			cl.Tool = l.Text
		}
	}
	cl.Question = questionCue.MatchString(c.masked)
	if cl.Question && !slices.ContainsFunc(cl.Literals, func(l Literal) bool { return l.Kind == JSON || l.Kind == Pair }) {
		cl.Tool = "" // a question about a tool is no order to call it
	}
	cl.Count, cl.Where = countCue.MatchString(c.masked), whereCue.MatchString(c.masked)
	cl.Deep, cl.Back = deepCue.MatchString(c.masked), c.later && backCue.MatchString(c.masked)
	cl.Stats = statsCue.MatchString(c.masked)
	cl.Largest, cl.Smallest = largestCue.MatchString(c.masked), smallCue.MatchString(c.masked)
	cl.Lone = isLone(c.masked)
	if m := toolCue.FindString(c.masked); m != "" && cl.Tool != "" {
		c.masked = strings.TrimSpace(c.masked[len(m):]) // what the tool is to do, with things named as in any other clause
		c.rest = c.masked
	}
	c.things(&cl)
	if cl.Intent == Other {
		cl.Intent = c.decide(&cl)
	}
	if cl.Intent == FindFiles || cl.Intent == CountFiles {
		filesAsNames(&cl)
	}
	return cl
}

// isLone tells whether a clause begins with a thing and has no question in it.
func isLone(masked string) bool {
	return loneCue.MatchString(masked) && !startZH.MatchString(masked) && !cueZH.MatchString(masked)
}

// things collects what the clause is about. Terms come first, since they may look like anything else.
func (c *clauseReader) things(cl *Clause) {
	switch {
	case aboutCue.MatchString(c.masked) && !slices.ContainsFunc(cl.Literals, func(l Literal) bool { return l.Kind == Path }):
		cl.Intent = About
		return
	default:
		c.searches(cl)
	}
	cl.Kinds = c.namedFiles()
	cl.Kinds = append(cl.Kinds, c.findKinds()...)
	cl.Places = c.findPlaces()
	if m := docPattern.FindStringSubmatch(c.rest); m != nil {
		cl.Doc = strings.ToLower(m[1] + m[2])
		if name, ok := docNames[cl.Doc]; ok {
			cl.Doc = name
		}
	}
	file := slices.ContainsFunc(cl.Places, func(p Place) bool { return p.File })
	if cl.Intent == Other && len(cl.Kinds) == 0 && !file && cl.Doc == "" {
		if cl.Terms = append(cl.Terms, c.findLoose()...); len(cl.Terms) > 0 {
			cl.Intent = SearchText
		}
	}
}

// searches recognises the search for a definition or a text.
func (c *clauseReader) searches(cl *Clause) {
	if cl.Terms = c.findDefined(); len(cl.Terms) > 0 {
		cl.Intent = FindDefinition
		return
	}
	if namedCue.MatchString(c.masked) && !linesNoun.MatchString(c.masked) {
		return
	}
	if cl.Terms = c.findTerms(); len(cl.Terms) > 0 {
		cl.Intent = SearchText
		return
	}
	if todoPattern.MatchString(c.rest) && (cl.Count || findCue.MatchString(c.masked) || listCue.MatchString(c.masked)) {
		cl.Terms, cl.Intent = c.findLoose(), SearchText
	}
}

// signs are what a clause that searches for no text shows of its intent.
type signs struct {
	file, files, folders                 bool // a file is named; files, folders are spoken of
	list, find, read                     bool // verbs and questions
	count, lines, stats, extreme         bool // what is asked of files
	someLines, kinds, places, back, lone bool
	deep, here                           bool // below, in the folder at hand
}

// rules decide by the first that applies.
var rules = []struct {
	intent Intent
	when   func(s signs) bool
}{
	{ListFolder, func(s signs) bool { return s.extreme && (s.files || s.kinds) }},
	{ReadFile, func(s signs) bool { return s.someLines && (s.file || s.back) }},
	{DescribeFile, func(s signs) bool { return s.count && s.lines && (s.file || s.back) }},
	{DescribeFile, func(s signs) bool { return s.stats && (s.file || s.back || s.places && !s.files && !s.list) }},
	{CountFiles, func(s signs) bool { return s.count && (s.files || s.kinds) }},
	{CountFolders, func(s signs) bool { return s.count && s.folders }},
	{Other, func(s signs) bool { return s.count }},
	{FindFiles, func(s signs) bool { return s.kinds && (s.find || s.list || s.read || s.lone) }},
	{FindFiles, func(s signs) bool { return s.file && s.find }},
	{ReadFile, func(s signs) bool { return (s.file || s.back && !s.folders) && (s.read || s.lone && s.places) }},
	{ListFolder, func(s signs) bool { return s.lone && (s.files || s.folders) && s.places }},
	{ListFolder, func(s signs) bool { return s.list && (s.places || s.files || s.folders || s.here) }},
	{ListFolder, func(s signs) bool { return s.deep }},
	{FindFiles, func(s signs) bool { return s.find && s.files && s.places }},
}

// decide finds the intent of a clause that searches for no text.
func (c *clauseReader) decide(cl *Clause) Intent {
	s := signs{
		file:  slices.ContainsFunc(cl.Places, func(p Place) bool { return p.File }) || cl.Doc != "",
		files: filesNoun.MatchString(c.rest), folders: folderNoun.MatchString(thisFolder.ReplaceAllString(c.rest, "")),
		list: listCue.MatchString(c.masked), find: findCue.MatchString(c.masked), read: readCue.MatchString(c.masked),
		count: cl.Count, lines: linesNoun.MatchString(c.rest), stats: cl.Stats, extreme: cl.Largest || cl.Smallest,
		someLines: cl.Lines != Lines{}, kinds: len(cl.Kinds) > 0, places: len(cl.Places) > 0, back: cl.Back, lone: cl.Lone, deep: cl.Deep, here: thisFolder.MatchString(c.rest),
	}
	cl.Folders = s.folders && !s.files && (s.count || !s.deep && !s.kinds && !s.places)
	cl.Deep = s.deep || s.extreme
	for _, r := range rules {
		if r.when(s) {
			return r.intent
		}
	}
	return Other
}

// namedFiles returns patterns for the files that the clause names by a glob, a name or an extension.
func (c *clauseReader) namedFiles() []Kind {
	var kinds []Kind
	for _, m := range extCue.FindAllStringSubmatch(c.rest, -1) {
		word := m[1] + m[2] + m[3] + m[4]
		text := word
		if l := c.take(word); l != nil {
			text = l.Text
		}
		text = "." + strings.TrimLeft(text, "*.")
		kinds = append(kinds, Kind{Label: text, Pattern: "**/*" + text})
	}
	for _, m := range namedCue.FindAllStringSubmatch(c.rest, -1) {
		word := m[1] + m[2]
		text := word
		if l := c.take(word); l != nil {
			text = l.Text
		}
		kinds = append(kinds, Named(text))
	}
	for _, w := range c.words() {
		if l := c.literal(w); l.Kind == Glob && c.take(w) != nil {
			kinds = append(kinds, Named(l.Text))
		}
	}
	return kinds
}

// Named is the kind of the files that have a name, match a glob, or have a text in their name.
func Named(name string) Kind {
	k := Kind{Label: name, Pattern: name, Name: true}
	if !strings.Contains(name, "/") && (isGlob(name) || fileLike(name) && !wellKnown[name]) {
		k.Pattern = "**/" + name
	}
	return k
}

// filesAsNames turns files that are looked for into names: where they are is the question.
func filesAsNames(cl *Clause) {
	var folders []Place
	for _, p := range cl.Places {
		if p.File {
			cl.Kinds = append(cl.Kinds, Named(p.Path))
			continue
		}
		folders = append(folders, p)
	}
	cl.Places = folders
	if len(cl.Kinds) == 0 && cl.Doc != "" {
		cl.Kinds, cl.Doc = []Kind{Named(cl.Doc)}, ""
	}
}
