package goal

import (
	"regexp"
	"strings"
)

// Strong separators always divide. A period divides only before a space, so that numbers stay whole (paths are masked).
var (
	strongPattern = regexp.MustCompile(`(?i)[。；;！!？?\n]+|\.(?:\s+|$)|[,，]?\s*\b(?:and\s+)?(?:then|after that|afterwards)\b[,，]?|[,，]?(?:然后|接着|随后|之后再)[,，]?`)
	weakPattern   = regexp.MustCompile(`(?i)[,，、]\s*(?:(?:and|also|plus)\s+)?|\s+(?:and also|and|also|plus|as well as)\s+|\s*&\s+|并且|并|以及|还有|同时|而且|和`)
	fillerPattern = regexp.MustCompile(`(?i)^(?:[\s,，:：]+|(?:please|pls|kindly|also|and|now|next|finally|first|firstly|second|secondly|so|ok|okay|hi|hello|hey|thanks|just|can you|could you|would you|will you|i want(?: you)? to|i need(?: you)? to|i(?:'|’)?d like(?: you)? to|i would like(?: you)? to|let'?s|let us|help me(?: to)?|report(?: back)?|find out|figure out|work out|determine|check (?:if|whether)|see (?:if|whether)|tell me|let me know|i want to know|do you know)(?:\s+|$)|请问?|麻烦你?|帮我|帮忙|告诉我|我想知道|我想要?|我要|再|还要?|也|顺便|首先|先|最后(?:再)|并且?|以及|还有|同时|你好|谢谢|看一?下(?:有))`)
	startEN       = regexp.MustCompile(`(?i)^([a-z]+(?:[-'’][a-z]+)*)\b`)
	startZH       = regexp.MustCompile(`^(?:一共|总共|共)?(?:有)?(?:多少|几个|哪|什么|列出|列举|读取?|打开|查看|显示|看看|看一?下|展示|输出|打印|浏览|统计|计算|数一?下|查找|查询|搜索|寻找|检索|找出?|调用|使用|运行|执行|写入?|创建|新建|删除|移动|复制|重命名|发送|总结|概括|介绍|说明|解释|计数|列一?下)`)
	cueZH         = regexp.MustCompile(`多少|几个|哪个|哪些|哪里|哪儿|什么|数量|个数|大小|多大|提到|包含`)
	hanPattern    = regexp.MustCompile(`\p{Han}`)
)

// verbs are words that an English clause may begin with.
var verbs = set("list", "show", "read", "open", "print", "display", "cat", "view", "count", "find", "search", "grep", "locate", "look",
	"get", "fetch", "give", "call", "run", "use", "invoke", "execute", "echo", "add", "sum", "create", "write", "delete",
	"remove", "move", "copy", "rename", "send", "check", "summarize", "summarise", "describe", "explain", "say", "which", "what", "what's", "where", "where's",
	"how", "who", "when", "is", "are", "does", "do", "tell", "browse", "download", "upload", "update", "make", "generate", "compute", "calculate",
	"convert", "translate", "query", "save", "append", "edit", "replace", "test", "start", "stop", "ls", "head", "tail")

// split divides masked text into clauses, each without filler words at its start. isVerb knows further words that a clause may
// begin with, such as tools' verbs.
func split(masked string, isVerb func(string) bool) []string {
	var out []string
	for _, sentence := range strongPattern.Split(masked, -1) {
		for _, clause := range splitWeak(sentence, isVerb) {
			if clause = StripFiller(clause); clause != "" {
				out = append(out, clause)
			}
		}
	}
	return out
}

// splitWeak divides at "and", commas and their like, where what follows begins a clause of its own.
func splitWeak(sentence string, isVerb func(string) bool) []string {
	var out []string
	start := 0
	for _, at := range weakPattern.FindAllStringIndex(sentence, -1) {
		left, right := sentence[start:at[0]], sentence[at[1]:]
		if strings.TrimSpace(left) == "" || !beginsClause(left, right, isVerb) {
			continue
		}
		out = append(out, left)
		start = at[1]
	}
	return append(out, sentence[start:])
}

// beginsClause tells whether the text after a weak separator is a clause: it begins with a verb or a question word and goes on.
func beginsClause(left, right string, isVerb func(string) bool) bool {
	const enough = 200 // bytes; a clause shows what it is at its start, and goals may have many separators
	left, right = cut(left, enough), StripFiller(cut(right, enough))
	if m := startEN.FindString(right); m != "" {
		word := strings.ToLower(m)
		rest := strings.TrimLeft(right[len(m):], " \t")
		if rest == "" || strings.HasPrefix(rest, ",") {
			return false
		}
		return verbs[word] || isVerb(word) || hanPattern.MatchString(right) && cueZH.MatchString(right) && cueZH.MatchString(left)
	}
	return startZH.MatchString(right) || cueZH.MatchString(right) && (cueZH.MatchString(left) || startZH.MatchString(StripFiller(left)))
}

// StripFiller removes politeness and conjunctions from the start of a clause.
func StripFiller(s string) string {
	for {
		s = strings.TrimSpace(s)
		n := len(fillerPattern.FindString(s))
		if n == 0 {
			return strings.TrimRight(s, " \t,，、.:：")
		}
		s = s[n:]
	}
}
