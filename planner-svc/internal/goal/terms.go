package goal

import (
	"regexp"
	"strings"
)

// What is searched for is what follows, or in a passive clause precedes, one of these.
var searchPatterns = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(?:mentions?|occurrences?|instances?|uses?|usages?|references?|appearances?|callers?)\s+(?:of|to|for)\s+(.+)`),
	regexp.MustCompile(`(?i)\b(?:mention(?:s|ed|ing)?|contain(?:s|ing|ed)?|references?|referencing|refer(?:s|ring)?\s+to|talk(?:s|ing)?\s+about|includes?|including|cit(?:es?|ing)|quot(?:es?|ing))\s+(.+)`),
	regexp.MustCompile(`(?i)\b(?:files?|documents?|docs|code|places?|packages?|lines?|tests?|modules?|who|what|which)\b.*?\b(?:us(?:es?|ing)|imports?|importing|calls?|calling|says?|saying|describ(?:es?|ing)|discuss(?:es|ing)?|covers?|covering|explain(?:s|ing)|document(?:s|ing))\s+(.+)`),
	regexp.MustCompile(`(?i)\b(?:files?|documents?|lines?|places?)\b.*?\b(?:with|having|have|has|match(?:es|ing)?)\s+((?:the\s+)?(?:words?|text|string|phrase|term|regex|regular expression|pattern)\s+.+|` + lit + `(?:.*[^.])?)`),
	regexp.MustCompile(`(?i)\b(?:files?|documents?|docs|pages?)\b.*?\b(?:is|are)\s+about\s+(.+)`),
	regexp.MustCompile(`(?i)\b(?:is|are|was|were|does|do|did|has|have)\s+(.+?)\s+(?:ever\s+|also\s+|being\s+|been\s+)*(?:mentioned|used|referenced|called|imported|found|contained|cited|quoted|occurs?|appears?|shows?\s+up|written|invoked)\b`),
	regexp.MustCompile(`(?i)\bwhere\s+(.+?)\s+(?:is|are|was|were|gets?)\s+(?:ever\s+|also\s+|being\s+)*(?:mentioned|used|referenced|called|imported|found|contained|cited|quoted|written|invoked)\b`),
	regexp.MustCompile(`(?i)\b(?:grep|search|look|scan)\b(?:\s+\S+){0,6}?\s+(?:for|about)\s+(.+)`),
	regexp.MustCompile(`(?i)^(?:grep|rg)\s+(?:-\w+\s+)*(.+)`),
	regexp.MustCompile(`(?:文件|文档)(?:里面?|中)?(?:有|含)\s*(.+?)\s*(?:这个|一)(?:单词|词|字样|字)`),
	regexp.MustCompile(`(?:提到|提及|包含|含有|引用|用到|使用|出现|写有|写着|涉及|调用|导入)(?:了|过|有)?\s*([^在了过的\s].*)`),
	regexp.MustCompile(`^(.+?)\s*(?:都|是|被)?\s*(?:出现|使用|提到|用|提及)?\s*在\s*(?:哪|什么|多少|几|何处).*?(?:被)?(?:提到|提及|使用|用到|引用|出现|调用)`),
	regexp.MustCompile(`^(.+?)\s*(?:都)?(?:出现|使用|提到|用)在了?\s*(?:哪|什么|多少|几)`),
	regexp.MustCompile(`^(.+?)\s*(?:一共|总共|共)?(?:出现|被提到|被使用|被引用|被调用)了?\s*(?:多少|几)次`),
}

// Weaker forms: a find or search with a bare thing behind it.
var (
	todoPattern    = regexp.MustCompile(`\b(TODO|FIXME|HACK|XXX)s?\b`)
	zhSearch       = regexp.MustCompile(`(?i)(?:搜索|检索|查找|搜|查询|查|找|grep)(?:一下|出|到)?\s*(?:所有|全部)?(?:代码|文本|内容|文件|项目|仓库|工作区)?(?:中|里|里面)?的?\s*(.+)`)
	findAnything   = regexp.MustCompile(`(?i)^(?:find|locate|(?:where|in\s+(?:what|which)\s+\w+)\s+can\s+(?:i|we|you|one)\s+find|where\s+(?:is|are)|where(?:'|’)s|look\s+for|search\s+for|search)\s+(?:me\s+)?(?:all\s+|every\s+|any\s+)?(?:the\s+|of\s+)*(.+)$`)
	definePatterns = []*regexp.Regexp{
		regexp.MustCompile(`(?i)\b(?:is|are|do\s+we|does)\s+(.+?)\s+(?:get\s+|being\s+)?(?:defined?|declared?|implement(?:ed)?)\b`),
		regexp.MustCompile(`(?i)\b(?:definition|declaration|implementation)s?\s+(?:of|for)\s+(.+)`),
		regexp.MustCompile(`(?i)\b(?:which|what)\s+(?:\S+\s+)?(?:file|package|module)s?\s+(?:defines?|declares?|implements?)\s+(.+)`),
		regexp.MustCompile(`(?i)\b(?:find|show|locate|where\s+is)\s+(?:me\s+)?(?:the\s+)?((?:function|method|type|struct|class|interface|constant|variable|enum|macro|message|service|rpc)\s+\S+)\s*$`),
		regexp.MustCompile(`(?i)^where(?:\s+is|['’]s)\s+(?:the\s+)?(\S+)\s+(?:function|method|type|struct|class|interface|constant|enum|macro|message|service|rpc)$`),
		regexp.MustCompile(`^(.+?)\s*(?:是|被)?\s*在\s*(?:哪|什么|何处).*?(?:定义|声明|实现)`),
		regexp.MustCompile(`(?:哪|什么).*?(?:定义|声明|实现)了?\s*([^的在]+)$`),
		regexp.MustCompile(`(?:查找|找到?|搜索|显示|查看)?\s*(.+?)\s*的\s*(?:定义|声明|实现)`),
	}
)

var (
	tailPattern   = regexp.MustCompile(`(?i)(?:^|\s+)(?:in|under|inside|within|across|anywhere|somewhere|throughout|from|please|on\s+lines?|at\s+least|(?:the\s+)?most|by\s+name|recursively|ignoring|case)\b.*$|\s*(?:的|在|吗|呢|有?多少|有?几|有?哪|一共|总共|这个|一词).*$`)
	articlePrefix = regexp.MustCompile(`(?i)^(?:(?:the|a|an|any|all|some|both|either|exact|literal|of|to|for|about|that|which)\s+)+`)
	nounPrefix    = regexp.MustCompile(`(?i)^(?:(words?|单词|词语|词)|(regex|regexp|regular\s+expression|正则表达式|正则)|text|string|phrase|term|name|symbol|identifier|keyword|expression|function|method|type|struct|class|interface|variable|constant|package|import|pattern|enum|message|service|rpc|macro|文本|文字|字符串|关键字|关键词|字样|内容|函数|方法|类型|结构体|接口|类|变量|常量)(?:s?\s*[:：]\s*|\s+|$)`)
	zhNounPrefix  = regexp.MustCompile(`^(?:(单词|词语|词)|(正则表达式|正则)|文本|文字|字符串|关键字|关键词|字样|内容|函数|方法|类型|结构体|接口|变量|常量)\s*`)
	nounSuffix    = regexp.MustCompile(`(?i)\s+(?:function|method|type|struct|class|interface|variable|constant|symbol|word|comments?)$|\s*(?:函数|方法|类型|结构体|接口|类|变量|常量|这个词|单词)$`)
	termJoin      = regexp.MustCompile(`(?i)\s*(?:,|，|、)\s*(?:(?:and|or)\s+)?|\s+(?:and|or)\s+|\s*(?:和|或者|或|以及)\s*`)
	identPattern  = regexp.MustCompile(`^[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*(?:\(\))?$`)
	notTerms      = set("", "it", "them", "that", "this", "those", "these", "anything", "something", "what", "which", "where", "there", "files", "file", "folder", "folders", "everything", "all", "one", "any", "and", "or", "文件", "什么", "哪些", "它", "它们")
)

// findTerms returns what the clause searches for and takes it out of the rest of the text.
func (c *clauseReader) findTerms() []Term {
	for _, p := range searchPatterns {
		if terms := c.termsAt(p, cleanTerms); len(terms) > 0 {
			return terms
		}
	}
	return nil
}

// findDefined returns the name whose definition the clause looks for.
func (c *clauseReader) findDefined() []Term {
	for _, p := range definePatterns {
		if terms := c.termsAt(p, cleanTerms); len(terms) > 0 && identPattern.MatchString(terms[0].Text) {
			name := strings.TrimSuffix(terms[0].Text, "()")
			if i := strings.LastIndexAny(name, ".:#"); i >= 0 {
				name = name[i+1:]
			}
			return []Term{{Text: name}}
		}
	}
	return nil
}

// findLoose returns what a bare "find X" searches for: quoted text, an identifier or a marker such as TODO.
func (c *clauseReader) findLoose() []Term {
	if m := todoPattern.FindStringSubmatchIndex(c.rest); m != nil {
		t := Term{Text: c.rest[m[2]:m[3]]}
		c.rest = c.rest[:m[0]] + "¶" + c.rest[m[1]:]
		return []Term{t}
	}
	for _, p := range []*regexp.Regexp{findAnything, zhSearch} {
		terms := c.termsAt(p, func(c *clauseReader, s string) []Term {
			trimmed := strings.TrimSpace(tailPattern.ReplaceAllString(s, ""))
			if m := nounPrefix.FindString(trimmed); len(m) < len(trimmed) {
				trimmed = trimmed[len(m):]
			}
			if l := c.literal(trimmed); l != nil && l.Kind == Quoted || identPattern.MatchString(trimmed) || !isASCII(trimmed) && c.literal(trimmed) == nil && !strings.Contains(trimmed, "文件") {
				return cleanTerms(c, s)
			}
			return nil
		})
		if len(terms) > 0 {
			return terms
		}
	}
	return nil
}

// termsAt applies a pattern whose first group captures terms and takes what was used out of the rest.
func (c *clauseReader) termsAt(p *regexp.Regexp, clean func(*clauseReader, string) []Term) []Term {
	m := p.FindStringSubmatchIndex(c.rest)
	if m == nil {
		return nil
	}
	captured := c.rest[m[2]:m[3]]
	terms := clean(c, captured)
	if len(terms) == 0 {
		return nil
	}
	kept := len(captured) - len(tailOf(captured))
	c.rest = c.rest[:m[2]] + "¶" + c.rest[m[2]+kept:]
	return terms
}

// tailOf returns the end of a captured term that says where, not what.
func tailOf(s string) string { return tailPattern.FindString(s) }

// cleanTerms makes terms of what a pattern captured.
func cleanTerms(c *clauseReader, s string) []Term {
	s = strings.TrimSpace(strings.TrimSuffix(s, tailOf(s)))
	s = strings.TrimSpace(articlePrefix.ReplaceAllString(s, ""))
	var word, regex bool
	for _, p := range []*regexp.Regexp{nounPrefix, zhNounPrefix} {
		if m := p.FindStringSubmatch(s); m != nil && len(m[0]) < len(s) {
			word, regex = word || m[1] != "", regex || m[2] != ""
			s = s[len(m[0]):]
		}
	}
	if terms := c.literalTerms(s, word, regex); len(terms) > 0 {
		return terms
	}
	s = strings.Trim(nounSuffix.ReplaceAllString(s, ""), " \t\"'“”.,，。:：()（）¶")
	var terms []Term
	for _, part := range termJoin.Split(s, -1) {
		if part = strings.TrimSpace(part); !notTerms[strings.ToLower(part)] {
			terms = append(terms, Term{Text: part, Word: word, Regex: regex})
		}
	}
	return terms
}

// literalTerms returns the literals in a captured text as terms; nil if there are none, or if they are tools or wildcards.
func (c *clauseReader) literalTerms(s string, word, regex bool) []Term {
	var terms []Term
	for _, r := range s {
		l := c.literal(string(r))
		if l == nil {
			continue
		}
		if l.Kind == Tool || l.Kind == Glob && !regex || l.Kind == JSON {
			return nil
		}
		text := l.Text
		if l.Kind == Pair {
			text = l.Raw
		}
		if c.take(string(r)) != nil {
			terms = append(terms, Term{Text: text, Word: word, Regex: regex})
		}
	}
	return terms
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
