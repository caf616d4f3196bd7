package goal

import (
	"regexp"
	"slices"
	"strings"
)

// Kind is a sort of files that a person names by language or extension.
type Kind struct {
	Label   string // as people write it: "Go", "test", ".proto"
	Pattern string // a glob, or a part of a file name
	Name    bool   // Label is a name or glob, not a sort
}

// kindTable: label, glob, and the words for it in lower case.
var kindTable = []struct {
	label, ext string
	words      []string
}{
	{"Go", "go", []string{"go", "golang"}},
	{"Python", "py", []string{"python", "py"}},
	{"JavaScript", "{js,mjs,cjs,jsx}", []string{"javascript", "js"}},
	{"TypeScript", "{ts,tsx}", []string{"typescript", "ts"}},
	{"Java", "java", []string{"java"}},
	{"Kotlin", "{kt,kts}", []string{"kotlin"}},
	{"Rust", "rs", []string{"rust", "rs"}},
	{"C", "{c,h}", []string{"c"}},
	{"C++", "{cpp,cc,cxx,hpp,hh}", []string{"c++", "cpp"}},
	{"C#", "cs", []string{"c#", "csharp"}},
	{"Ruby", "rb", []string{"ruby", "rb"}},
	{"PHP", "php", []string{"php"}},
	{"Swift", "swift", []string{"swift"}},
	{"Lua", "lua", []string{"lua"}},
	{"shell", "{sh,bash}", []string{"shell", "bash", "sh"}},
	{"Markdown", "{md,markdown}", []string{"markdown", "md"}},
	{"proto", "proto", []string{"proto", "protobuf", "protocol buffers", "protocol buffer"}},
	{"YAML", "{yaml,yml}", []string{"yaml", "yml"}},
	{"JSON", "json", []string{"json"}},
	{"TOML", "toml", []string{"toml"}},
	{"XML", "xml", []string{"xml"}},
	{"HTML", "{html,htm}", []string{"html"}},
	{"CSS", "css", []string{"css"}},
	{"SQL", "sql", []string{"sql"}},
	{"CSV", "csv", []string{"csv"}},
	{"text", "txt", []string{"text", "txt", "plain text", "文本"}},
	{"log", "log", []string{"log", "日志"}},
	{"PDF", "pdf", []string{"pdf"}},
	{"image", "{png,jpg,jpeg,gif,svg,webp}", []string{"image", "picture", "图片", "图像"}},
	{"template", "{tmpl,tpl}", []string{"template", "模板"}},
}

// testNames is how test files are called in most languages.
const testNames = "{*_test,*.test,*.spec,test_*}"

var (
	kindWord    = kindAlternatives()
	kindNoun    = `(?:\s*(?:source|code|语言|的|源代码|源码|源|代码|脚本))*\s*(?:files?\b|documents?\b|scripts?\b|sources?\b|文件|文档|脚本)`
	kindJoin    = `(?:\s*(?:,|，|、|/|\band\b|\bor\b|&|和|或)\s*)+`
	kindPattern = regexp.MustCompile(`(?i)(` + kindWord + `(?:` + kindJoin + kindWord + `)*)(\s*(?:\btests?\b|\bspecs?\b|测试))?` + kindNoun)
	kindSplit   = regexp.MustCompile(`(?i)` + kindJoin)
	testPattern = regexp.MustCompile(`(?i)(?:\b(?:tests?|specs?)|测试)(?:\s+code|代码)?\s*(?:files?\b|文件)`)
)

func kindAlternatives() string {
	var words []string
	for _, k := range kindTable {
		for _, w := range k.words {
			words = append(words, regexp.QuoteMeta(w))
		}
	}
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) })
	for i, w := range words {
		if isWordRune(rune(w[0])) && isWordRune(rune(w[len(w)-1])) {
			words[i] = `\b` + w + `\b`
		}
	}
	return `(?:` + strings.Join(words, "|") + `|` + lit + `)`
}

// findKinds returns the sorts of files named in the text. A literal counts where it is an extension (".go files") or a glob.
func (c *clauseReader) findKinds() []Kind {
	var kinds []Kind
	for _, m := range kindPattern.FindAllStringSubmatchIndex(c.rest, -1) {
		tests := m[4] >= 0
		for _, word := range kindSplit.Split(c.rest[m[2]:m[3]], -1) {
			if k, ok := c.kindOf(strings.TrimSpace(word), tests); ok && !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	if len(kinds) == 0 && testPattern.MatchString(c.rest) {
		kinds = append(kinds, Kind{Label: "test", Pattern: "**/" + testNames + ".*"})
	}
	return kinds
}

func (c *clauseReader) kindOf(word string, tests bool) (Kind, bool) {
	if l := c.literal(word); l != nil {
		ext, ok := strings.CutPrefix(l.Text, ".")
		if l.Kind != Path || !ok || strings.Contains(ext, "/") || c.take(word) == nil {
			return Kind{}, false
		}
		return Kind{Label: l.Text, Pattern: "**/*" + l.Text}, true
	}
	lower := strings.ToLower(word)
	for _, k := range kindTable {
		if !slices.Contains(k.words, lower) {
			continue
		}
		switch {
		case tests && k.ext == "go":
			return Kind{Label: "Go test", Pattern: "**/*_test.go"}, true
		case tests:
			return Kind{Label: k.label + " test", Pattern: "**/" + testNames + "." + k.ext}, true
		}
		return Kind{Label: k.label, Pattern: "**/*." + k.ext}, true
	}
	return Kind{}, false
}
