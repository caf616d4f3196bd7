package catalog

import (
	"slices"
	"strings"
	"unicode"
)

// synonyms lists words that mean the same in a goal and in a tool's name or description. The first is the one they become;
// a word in several lists becomes several.
var synonyms = [][]string{
	{"read", "show", "display", "view", "print", "open", "cat", "see", "load", "读取", "读", "查看", "显示", "打开"},
	{"get", "fetch", "retrieve", "obtain", "download", "receive", "give", "获取", "下载", "取得"},
	{"list", "enumerate", "ls", "browse", "列出", "列举", "浏览"},
	{"search", "find", "lookup", "locate", "query", "grep", "look", "搜索", "查找", "检索", "查询"},
	{"create", "make", "new", "add", "generate", "insert", "创建", "新建", "新增", "添加", "生成"},
	{"write", "save", "store", "put", "写入", "保存", "写"},
	{"update", "edit", "change", "modify", "set", "patch", "replace", "更新", "修改", "编辑", "替换"},
	{"delete", "remove", "erase", "drop", "rm", "unlink", "destroy", "删除", "移除", "清除"},
	{"move", "rename", "mv", "移动", "重命名"},
	{"copy", "cp", "duplicate", "复制", "拷贝"},
	{"send", "post", "submit", "publish", "发送", "提交", "发布"},
	{"run", "execute", "invoke", "call", "trigger", "start", "launch", "运行", "执行", "调用", "启动", "触发"},
	{"sum", "add", "plus", "total", "addition", "相加", "求和", "加上", "加"},
	{"subtract", "minus", "difference", "相减", "减去"},
	{"multiply", "product", "相乘", "乘以"},
	{"divide", "quotient", "相除", "除以"},
	{"calculate", "compute", "evaluate", "计算"},
	{"echo", "repeat", "say", "回显", "重复"},
	{"translate", "translation", "翻译"},
	{"convert", "conversion", "转换"},
	{"compress", "zip", "gzip", "压缩"},
	{"file", "document", "文件", "文档"},
	{"folder", "directory", "dir", "目录", "文件夹"},
	{"env", "environment", "环境变量", "环境"},
	{"image", "picture", "photo", "图片", "图像", "照片"},
	{"message", "消息", "信息"},
	{"mail", "email", "邮件"},
	{"time", "clock", "时间"},
	{"date", "day", "日期"},
	{"weather", "forecast", "天气"},
	{"temperature", "温度", "气温"},
	{"repository", "repo", "仓库"},
	{"issue", "ticket", "工单"},
	{"user", "account", "用户"},
	{"database", "db", "数据库"},
	{"url", "link", "website", "web", "page", "网页", "网址", "链接"},
	{"graph", "图谱"},
	{"entity", "实体"},
	{"node", "节点"},
	{"think", "thinking", "thought", "思考"},
	{"resource", "资源"},
	{"location", "city", "place", "城市", "地点"},
}

// plain are words that describe nothing.
var plain = wordSet("the", "a", "an", "to", "of", "in", "on", "at", "for", "with", "and", "or", "is", "are", "was", "be", "me", "my", "i", "you", "your", "our", "this", "that", "these", "those",
	"it", "its", "them", "do", "does", "did", "what", "which", "how", "many", "much", "can", "could", "would", "will", "please", "from", "by", "as", "where", "when", "who", "there", "here", "some",
	"any", "all", "use", "used", "using", "tool", "s", "about", "into", "if", "not", "no", "so", "then", "than", "has", "have", "want", "need", "let", "only", "also", "e", "g", "returns", "return", "given")

// canon maps each word to what it becomes.
var canon = func() map[string][]string {
	m := map[string][]string{}
	for _, list := range synonyms {
		for _, w := range list {
			m[w] = append(m[w], list[0])
		}
	}
	return m
}()

// hanWords are the Chinese words of the synonyms; Chinese is not written with spaces, so they are looked for anywhere.
var hanWords = func() []string {
	var out []string
	for w := range canon {
		if !isLatin(w) {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return out
}()

// Words is a set of canonical words.
type Words map[string]bool

// WordsOf returns the canonical words of a text, without those that say nothing. Of Chinese, words of the synonym table and
// all pairs of neighbouring characters.
func WordsOf(text string) Words {
	words := Words{}
	for _, w := range NameParts(text) {
		for _, c := range canonical(w) {
			words[c] = true
		}
	}
	if isLatin(text) {
		return words
	}
	for _, w := range hanWords {
		if strings.Contains(text, w) {
			for _, c := range canon[w] {
				words[c] = true
			}
		}
	}
	var prev rune
	for _, r := range text {
		if unicode.Is(unicode.Han, r) && unicode.Is(unicode.Han, prev) {
			words[string(prev)+string(r)] = true
		}
		prev = r
	}
	return words
}

// Has tells whether the set holds a word of a name or text.
func (w Words) Has(word string) bool {
	return slices.ContainsFunc(canonical(word), func(c string) bool { return w[c] })
}

// canonical returns what a word becomes; nothing for words that say nothing.
func canonical(word string) []string {
	if plain[word] {
		return nil
	}
	if c, ok := canon[word]; ok {
		return c
	}
	stem := singular(word)
	if c, ok := canon[stem]; ok {
		return c
	}
	return []string{stem}
}

// singular cuts the endings that nouns and verbs take most.
func singular(w string) string {
	switch {
	case len(w) > 4 && strings.HasSuffix(w, "ies"):
		return w[:len(w)-3] + "y"
	case len(w) > 4 && (strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "shes") || strings.HasSuffix(w, "xes")):
		return w[:len(w)-2]
	case len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		return w[:len(w)-1]
	}
	return w
}

// NameParts divides a name or text into lower-case words, at spaces and punctuation and at camelCase humps.
func NameParts(text string) []string {
	var out []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, strings.ToLower(b.String()))
			b.Reset()
		}
	}
	var prev rune
	for _, r := range text {
		latin := r < 0x250 && (unicode.IsLetter(r) || unicode.IsDigit(r))
		if !latin || unicode.IsUpper(r) && unicode.IsLower(prev) {
			flush()
		}
		if latin {
			b.WriteRune(r)
		}
		prev = r
	}
	flush()
	return out
}

func isLatin(s string) bool {
	for _, r := range s {
		if r >= 0x2E80 {
			return false
		}
	}
	return true
}

func wordSet(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

// ContainsWord tells whether a text holds a word, not as a part of a longer one. Both are in the same case.
func ContainsWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if !IsWordByte(text, start-1) && !IsWordByte(text, end) {
			return true
		}
		from = end
	}
}

// IsWordByte tells whether a letter, digit or underscore stands at a place of a text; false outside of it.
func IsWordByte(s string, i int) bool {
	return i >= 0 && i < len(s) && (s[i] == '_' || s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z')
}
