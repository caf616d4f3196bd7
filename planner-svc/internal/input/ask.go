package input

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
)

// Offending returns the names of the properties that a person should look at: required ones that are missing, those that the schema refuses, and
// those whose name or value the error contains. If there are none, it returns all required properties; if none is required, all properties.
func Offending(t *catalog.Tool, in *strictjson.Object, failure string) []string {
	found := t.Missing(in)
	for _, problem := range problems(t, in) {
		name, _, _ := strings.Cut(strings.TrimPrefix(problem.Pointer, "/"), "/")
		found = append(found, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	words := strings.FieldsFunc(strings.ToLower(failure), func(r rune) bool {
		return r != '_' && r != '-' && (r > unicode.MaxLatin1 || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	})
	var named, required, all []string
	for _, p := range t.Props {
		raw, _ := in.Get(p.Name)
		value := strictjson.Content(raw)
		// A single letter in an error is no name.
		if slices.Contains(found, p.Name) || len(p.Name) > 1 && slices.Contains(words, strings.ToLower(p.Name)) || len(value) > 1 && strings.Contains(failure, value) {
			named = append(named, p.Name)
		}
		if all = append(all, p.Name); p.Required {
			required = append(required, p.Name)
		}
	}
	switch {
	case len(named) > 0:
		return named
	case len(required) > 0:
		return required
	}
	return all
}

// problems returns the violations of the tool's schema by an input.
func problems(t *catalog.Tool, in *strictjson.Object) []schema.Problem {
	var invalid *schema.Invalid
	if t.Schema == nil || !errors.As(t.Schema.Validate(in.String()), &invalid) {
		return nil
	}
	return invalid.Problems
}

// Form returns the JSON Schema of an object with the named properties of a tool, each nullable, with titles and descriptions kept, none required.
func Form(t *catalog.Tool, names []string) string {
	props := &strictjson.Object{}
	for _, name := range names {
		if p := t.Prop(name); p != nil {
			props.Set(name, nullable(p))
		}
	}
	return `{"type":"object","properties":` + props.String() + `,"required":[]}`
}

// composed matches schemas that refer to others, combine them or take one value only: adding a type does not make them nullable.
var composed = regexp.MustCompile(`"(?:\$[a-zA-Z]+|anyOf|oneOf|allOf|not|const|if)":`)

// nullable returns a property's schema, made to accept null too. Of a composed schema, it keeps only the title, description, default, types and
// enum: the tool's own schema checks the completed input.
func nullable(p *catalog.Property) string {
	doc, err := strictjson.ParseObject(strictjson.Compact(p.Schema))
	if err != nil || composed.MatchString(doc.String()) {
		doc = &strictjson.Object{}
		for _, k := range []string{"title", "description", "default"} {
			if v, ok := strictjson.Member(p.Schema, k); ok {
				doc.Set(k, v)
			}
		}
	}
	if p.Type != "" {
		doc.Set("type", withNull(`["`+strings.ReplaceAll(p.Type, "|", `","`)+`"]`, `"null"`))
	}
	if p.Enum != "" {
		doc.Set("enum", withNull(p.Enum, "null"))
	}
	return doc.String()
}

// withNull adds null, which is the JSON to add, to a JSON array unless the array holds it.
func withNull(array, null string) string {
	items := slices.Collect(strictjson.Items(array))
	if !slices.Contains(items, null) {
		items = append(items, null)
	}
	return strictjson.Array(items)
}

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
