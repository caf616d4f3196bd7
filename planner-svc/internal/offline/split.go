package offline

import (
	"regexp"
	"strings"
)

// boundary is where one demand ends and the next may begin; a verb or question word must follow where a comma or "and" stands alone.
var boundary = regexp.MustCompile(`(?i)[.!?](?:\s+|$)|[;。？！；\n]\s*|,?\s+(?:and\s+)?then\s+|[,，]?\s*(?:然后|接着|再)\s*|(,?\s+and\s+|[,，]\s*(?:并且?)?)`)

// starts are words that begin a demand of its own.
var starts = regexp.MustCompile(`(?i)^(?:please\s+)?(?:how|what|which|where|who|when|read|show|list|find|search|count|get|tell|give|open|print|write|create|delete|remove|move|copy|rename|echo|add|send|run|call|use|translate|` +
	`summarize|compute|calculate|convert|update|edit|append|email|post|make|toggle|trigger|explain|compile|sort)\b|^(?:有多少|哪些|哪个|列出|读取|查看|搜索|查找|统计|创建|删除|回显|计算|显示|翻译|写入|移动|总结)`)

// split divides a goal into demands, in order. Quoted texts stay whole.
func split(goal string) []string {
	masked := mask(goal)
	var out []string
	from := 0
	for _, m := range boundary.FindAllStringSubmatchIndex(masked, -1) {
		if m[2] >= 0 && !starts.MatchString(masked[m[1]:]) {
			continue
		}
		out = append(out, goal[from:m[0]])
		from = m[1]
	}
	out = append(out, goal[from:])
	var demands []string
	for _, d := range out {
		if d = strings.Trim(d, " \t\r\n.,，;"); d != "" {
			demands = append(demands, d)
		}
	}
	return demands
}

var quoted = regexp.MustCompile(`"[^"]*"|“[^”]*”|‘[^’]*’|「[^」]*」|` + "`[^`]*`" + `|\{.*\}|'[^']*'`)

// mask replaces each quoted text by as many bytes, so that offsets stay valid.
func mask(text string) string {
	return quoted.ReplaceAllStringFunc(text, func(q string) string { return strings.Repeat("x", len(q)) })
}
