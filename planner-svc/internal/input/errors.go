package input

import (
	"regexp"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
)

// inputError matches errors that another input may avoid, otherError those that it cannot avoid. otherError has precedence: "invalid token: unauthorized"
// is about a permission.
var (
	otherError = regexp.MustCompile(`(?i)time[d -]*out|deadline exceeded|connection (?:refused|reset|closed|lost)|network|unreachable|no such host|broken pipe|\beof\b|transport|permission denied|eacces|access denied|forbidden|unauthori[sz]ed|unauthenticated|not authori[sz]ed|api key|credential|no permission|not permitted|rate limit|too many requests|quota|unavailable|cancel+ed|out of memory|no space left|disk full|internal (?:server )?error|server died|(?:status|code|http)[ :]*(?:401|403|429|5\d\d)\b|超时|网络|连接|权限|未授权|拒绝访问|限流|不可用|已取消`)
	inputError = regexp.MustCompile(`(?i)required|missing|invalid|must (?:be|have|match|not)|should be|expected|unexpected|unknown (?:propert|field|arg|param|option|key)|additional propert|not allowed|schema|validat|malformed|cannot parse|can't parse|parse error|syntax error|out of range|too (?:long|short|large|small|many|few)|unsupported|not (?:a|an) (?:file|directory|valid|number|integer|string)|is a directory|is a folder|not found|no such file|does not exist|doesn't exist|enoent|cannot find|outside|escapes|leads out|bad request|illegal|-3260[02]|缺少|必填|必须|无效|不合法|格式|参数|不存在|找不到|未找到|超出范围|不支持|不是目录|不是文件`)
)

// IsParamError reports whether another input may avoid an error: the error is about values, or the input does not fit the tool's schema; and the
// error is not about the network, permissions or time.
func IsParamError(t *catalog.Tool, in *strictjson.Object, failure string) bool {
	return !otherError.MatchString(failure) && (inputError.MatchString(failure) || len(problems(t, in)) > 0)
}

// Describe explains an error to a person in a sentence.
func Describe(l lang.Lang, t *catalog.Tool, in *strictjson.Object, failure string) string {
	if lacking := t.Missing(in); len(lacking) > 0 {
		return l.Say("%s needs values for: %s.", "%s 还需要：%s。", t.GetName(), l.List(lacking))
	}
	if p := problems(t, in); len(p) > 0 && p[0].Pointer != "" {
		return l.Say("%s: %q %s.", "%s：%s 的值不合要求（%s）。", t.GetName(), strings.TrimPrefix(p[0].Pointer, "/"), p[0].Message)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(failure), "\n")
	return l.Say("%s failed: %s", "%s 失败：%s", t.GetName(), first)
}

// Shorten limits a sentence to 50 words and 500 characters, in Chinese to 50 characters.
func Shorten(l lang.Lang, s string) string {
	const maxWords, maxCharacters = 50, 500 // in Chinese, maxWords is the number of characters
	words := strings.Fields(s)
	if l == lang.ZH {
		return lang.Clip(strings.Join(words, " "), maxWords)
	}
	if len(words) > maxWords {
		words = append(words[:maxWords-1:maxWords-1], words[maxWords-1]+"…")
	}
	return lang.Clip(strings.Join(words, " "), maxCharacters)
}
