package offline

import (
	"cmp"
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
	maxInline  = 5    // items in one line
	maxItems   = 100  // items of a list
	maxContent = 4000 // characters of a text
)

// render renders a result: its structured members, or its text if it has none; then the media. If the demand names some of the lists, as
// "which files" does, only these are rendered.
func render(l lang.Lang, r *result.Result, demand string) []string {
	var facts, lists, named, out []string
	demandTerms := rank.Terms(demand)
	for key, raw := range strictjson.Members(r.Structured) {
		switch text := strictjson.Content(raw); {
		case strictjson.Kind(raw) == "object", raw == "null", raw == "[]":
		case strictjson.Kind(raw) == "array":
			lists = append(lists, list(l, key, raw))
			if slices.ContainsFunc(rank.Terms(key), func(t string) bool { return slices.Contains(demandTerms, t) }) {
				named = append(named, lists[len(lists)-1])
			}
		case strings.Contains(text, "\n"), len(text) > 200:
			out = append(out, clip(l, text))
		default:
			facts = append(facts, key+": "+text)
		}
	}
	if len(named) > 0 {
		lists = named
	}
	if out = append(out, lists...); len(facts) > 0 {
		out = append([]string{strings.Join(facts, ", ")}, out...)
	}
	if len(out) == 0 {
		out = []string{cmp.Or(clip(l, r.Message), l.Pick("Done.", "完成。"))}
	}
	for _, m := range r.Media {
		out = append(out, strings.TrimSpace("["+m.Type+"] "+m.Name+" "+m.MIME+" "+m.URI))
	}
	return out
}

// list renders a heading and the items of an array, a few short ones in one line. It reduces objects to their texts and numbers: "a.go (1)".
func list(l lang.Lang, head, array string) string {
	var items []string
	for raw := range strictjson.Items(array) {
		var texts, numbers []string
		for _, v := range strictjson.Members(raw) {
			switch text := lang.Clip(strings.TrimSpace(strictjson.Content(v)), 160); {
			case strictjson.Kind(v) == "string" && !slices.Contains(texts, text):
				texts = append(texts, text)
			case strictjson.Kind(v) == "number":
				numbers = append(numbers, text)
			}
		}
		if texts = append(texts, numbers...); len(texts) == 0 {
			texts = []string{strictjson.Content(raw)}
		}
		if len(texts) > 1 {
			texts[0] += " (" + strings.Join(texts[1:], ", ") + ")"
		}
		items = append(items, texts[0])
	}
	if len(items) <= maxInline && len(strings.Join(items, "")) < 200 {
		return head + l.Pick(": ", "：") + l.List(items) + l.Pick(".", "。")
	}
	return head + l.Pick(":", "：") + "\n\n" + bullets(l, items)
}

func bullets(l lang.Lang, items []string) string {
	if more := len(items) - maxItems; more > 0 {
		items = append(slices.Clone(items[:maxItems]), l.Say("… and %d more", "……另有 %d 个", more))
	}
	return "- " + strings.Join(items, "\n- ")
}

// clip returns a short text unchanged, and a longer text in a code fence, with at most maxContent characters.
func clip(l lang.Lang, text string) string {
	text = strings.TrimRight(text, "\r\n ")
	runes := []rune(text)
	if len(runes) <= 200 && !strings.Contains(text, "\n") {
		return text
	}
	note := ""
	if len(runes) > maxContent {
		note = "\n\n" + l.Say("(The first %d of %d characters are shown.)", "（仅显示前 %d 个字符，共 %d 个。）", maxContent, len(runes))
		text = string(runes[:maxContent])
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence + note
}

// count returns how many things of the noun's kind a result has: the number in the member of that name, else in `count`. If the result has a single
// list, its items are counted instead if there is no such number or the items are fewer.
func count(r *result.Result, noun string) (n int, ok bool) {
	items, lists := 0, 0
	for key, raw := range strictjson.Members(r.Structured) {
		terms := slices.DeleteFunc(rank.Terms(key), func(t string) bool { return t == "total" || rank.Means(t, "count") }) // total_lines becomes lines; files_searched keeps two terms
		number, err := strconv.Atoi(raw)
		switch {
		case err == nil && (len(terms) == 1 && rank.Means(terms[0], noun) || len(terms) == 0 && !ok):
			n, ok = number, true
		case key == "truncated" && raw == "true":
			lists += 2 // the list is incomplete: do not count it
		}
		if strictjson.Kind(raw) == "array" {
			items, lists = itemsOf(raw, noun), lists+1
		}
	}
	if lists == 1 && (!ok || items < n) {
		return items, true
	}
	return n, ok
}

// itemsOf counts the items of a list. If the noun is a file or a folder, it leaves out items of another type.
func itemsOf(list, noun string) (n int) {
	for item := range strictjson.Items(list) {
		if kind, typed := strictjson.Member(item, "type"); !typed || !rank.In("place", noun) || rank.Means(rank.Stem(strictjson.Content(kind)), noun) {
			n++
		}
	}
	return n
}
