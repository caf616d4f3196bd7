package offline

import (
	"slices"
	"strconv"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/rank"
	"pawl.dev/planner-svc/internal/result"
)

// How much of a result an answer shows.
const (
	mostInline  = 5
	mostItems   = 100
	mostContent = 4000 // characters
)

// render shows a result: the members of a structured one, else the text; then other media. If the goal names some of several lists, as
// "which files" does, the others are left out.
func render(l lang.Lang, r *result.Result, goal string) (out []string) {
	var facts, named []string
	terms := rank.Terms(goal)
	for key, raw := range strictjson.Members(r.Structured) {
		if strictjson.Kind(raw) == "array" && slices.ContainsFunc(rank.Terms(key), func(t string) bool { return slices.Contains(terms, t) }) {
			named = append(named, key)
		}
	}
	for key, raw := range strictjson.Members(r.Structured) {
		switch text := strictjson.Content(raw); strictjson.Kind(raw) {
		case "array":
			if items := itemsOf(raw); len(items) > 0 && (len(named) == 0 || slices.Contains(named, key)) {
				out = append(out, list(l, key, items)...)
			}
		case "object", "null":
		default:
			if strings.Contains(text, "\n") || len(text) > 200 {
				out = append(out, clip(l, text))
			} else {
				facts = append(facts, key+": "+text)
			}
		}
	}
	switch {
	case len(facts) > 0:
		out = append([]string{strings.Join(facts, ", ")}, out...)
	case len(out) > 0:
	case strings.TrimSpace(r.Message) == "":
		out = []string{l.Pick("Done.", "完成。")}
	default:
		out = []string{clip(l, r.Message)}
	}
	for _, m := range r.Media {
		out = append(out, strings.TrimSpace("["+m.Type+"] "+m.Name+" "+m.MIME+" "+m.URI))
	}
	return out
}

// itemsOf writes the items of an array, objects as their first text with the others and the numbers in parentheses: "a.go (1)".
func itemsOf(array string) (out []string) {
	for raw := range strictjson.Items(array) {
		line, rest := "", []string(nil)
		for _, v := range strictjson.Members(raw) {
			text := lang.Clip(strings.TrimSpace(strictjson.Content(v)), 160)
			switch kind := strictjson.Kind(v); {
			case kind == "string" && line == "":
				line = text
			case (kind == "string" || kind == "number") && text != line && !slices.Contains(rest, text):
				rest = append(rest, text)
			}
		}
		if line == "" && len(rest) == 0 {
			line = strictjson.Content(raw)
		}
		if len(rest) > 0 {
			line += " (" + strings.Join(rest, ", ") + ")"
		}
		out = append(out, line)
	}
	return out
}

// list writes items behind a heading: few short ones in one line.
func list(l lang.Lang, head string, items []string) []string {
	if len(items) <= mostInline && len(strings.Join(items, "")) < 200 {
		return []string{head + l.Pick(": ", "：") + l.List(items) + l.Pick(".", "。")}
	}
	return append([]string{head + l.Pick(":", "：")}, bullets(l, items)...)
}

func bullets(l lang.Lang, items []string) (out []string) {
	for i, item := range items {
		if i == mostItems {
			return append(out, l.Say("- … and %d more", "- ……另有 %d 个", len(items)-i))
		}
		out = append(out, "- "+item)
	}
	return out
}

// clip shows a text as it is if it is short, else fenced and cut.
func clip(l lang.Lang, text string) string {
	runes := []rune(strings.TrimRight(text, "\r\n "))
	if len(runes) <= 200 && !strings.Contains(string(runes), "\n") {
		return string(runes)
	}
	note := ""
	if len(runes) > mostContent {
		note = "\n\n" + l.Say("(The first %d of %d characters are shown.)", "（仅显示前 %d 个字符，共 %d 个。）", mostContent, len(runes))
		runes = runes[:mostContent]
	}
	fence := "```"
	for strings.Contains(string(runes), fence) {
		fence += "`"
	}
	return fence + "\n" + string(runes) + "\n" + fence + note
}

// count finds how many things of a kind a result has: by a member that is named like them, else `count`, else by the items of its only list,
// of which those of another type are left out.
func count(r *result.Result, what string) (n int, ok bool) {
	noun := nounOf(what)
	var lists []string
	cut := false
	for key, raw := range strictjson.Members(r.Structured) {
		terms := slices.DeleteFunc(rank.Terms(key), func(t string) bool { return t == "total" || rank.Means(t, "count") }) // total_lines, not files_searched
		number, err := strconv.Atoi(raw)
		switch {
		case strictjson.Kind(raw) == "array":
			lists = append(lists, raw)
		case err == nil && (len(terms) == 1 && rank.Means(terms[0], noun) || len(terms) == 0 && !ok):
			n, ok = number, true
		case key == "truncated":
			cut = raw == "true"
		}
	}
	if len(lists) != 1 || cut {
		return n, ok
	}
	all, ofType := itemsOfType(lists[0], noun)
	if !ok || ofType < all {
		n = ofType
	}
	return n, true
}

// itemsOfType counts the items of a list, and those whose type is not another: folders are no files.
func itemsOfType(list, noun string) (all, ofType int) {
	for item := range strictjson.Items(list) {
		all++
		if kind, typed := strictjson.Member(item, "type"); !typed || rank.Means(rank.Stem(strictjson.Content(kind)), noun) {
			ofType++
		}
	}
	if ofType == 0 && !rank.Means("file", noun) && !rank.Means("folder", noun) {
		return all, all // the type is another matter
	}
	return all, ofType
}

// nounOf returns the term of the counted noun: "file" of "Go files".
func nounOf(what string) string {
	terms := rank.Terms(what)
	return append([]string{""}, terms...)[len(terms)]
}
