package offline

import (
	"encoding/json"
	"fmt"
	"slices"
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

// render shows a result: the members of a structured one, else the text.
func render(l lang.Lang, r *result.Result) []string {
	structured := r.Structured()
	if strictjson.Kind(structured) != "object" {
		if strings.TrimSpace(r.Message) == "" {
			return append([]string{l.Pick("Done.", "完成。")}, media(r)...)
		}
		return append([]string{clip(l, r.Message)}, media(r)...)
	}
	var facts, out []string
	for key, raw := range strictjson.Members(structured) {
		switch strictjson.Kind(raw) {
		case "array":
			if items := itemsOf(raw); len(items) > 0 && !repeats(structured, key) {
				out = append(out, list(l, key, items)...)
			}
		case "object", "null":
		default:
			text := strictjson.Content(raw)
			if strings.Contains(text, "\n") || len(text) > 200 {
				out = append(out, clip(l, text))
			} else {
				facts = append(facts, key+": "+text)
			}
		}
	}
	if len(facts) > 0 {
		out = append([]string{strings.Join(facts, ", ")}, out...)
	}
	return append(out, media(r)...)
}

// repeats reports whether a list only tells more of what another one sums up: the matches of files.
func repeats(structured, key string) bool {
	_, files := strictjson.Member(structured, "files")
	return key != "files" && files && key == "matches"
}

func media(r *result.Result) []string {
	var out []string
	for _, m := range r.Media {
		out = append(out, strings.TrimSpace("["+m.Type+"] "+m.Name+" "+m.MIME+" "+m.URI))
	}
	return out
}

// itemsOf writes the items of an array, objects as their first text with the rest in parentheses: "a.go (1)".
func itemsOf(array string) []string {
	var out []string
	for raw := range strictjson.Items(array) {
		if strictjson.Kind(raw) != "object" {
			out = append(out, strictjson.Content(raw))
			continue
		}
		var texts, rest []string
		seen := map[string]bool{}
		for _, v := range strictjson.Members(raw) {
			kind, text := strictjson.Kind(v), strictjson.Content(v)
			switch {
			case kind == "string" && len(texts) == 0:
				texts = append(texts, text)
			case (kind == "string" || kind == "number") && !seen[text]:
				rest = append(rest, lang.Clip(strings.TrimSpace(text), 160))
			}
			seen[text] = true
		}
		line := strings.Join(texts, "")
		if len(rest) > 0 {
			line += " (" + strings.Join(rest, ", ") + ")"
		}
		out = append(out, line)
	}
	return out
}

func list(l lang.Lang, name string, items []string) []string {
	if len(items) <= mostInline && len(strings.Join(items, "")) < 200 {
		return []string{name + ": " + l.List(items)}
	}
	return append([]string{name + ":"}, bullets(l, items)...)
}

func bullets(l lang.Lang, items []string) []string {
	var out []string
	for i, item := range items {
		if i == mostItems {
			out = append(out, l.Say("- … and %d more", "- ……另有 %d 个", len(items)-i))
			break
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

// tally is how many things there are, and which if the result lists all.
type tally struct {
	n       int
	items   []string
	atLeast bool
}

// count finds how many things of a kind a result tells of: by a member that is named like them, else `count`, else by the items of its only list,
// of which those of another type are left out; of a text, by its lines.
func count(r *result.Result, what string) (t tally, ok bool) {
	structured := r.Structured()
	if structured == "" {
		return countLines(r.Message), r.Message != ""
	}
	noun := nounOf(what)
	named := func(text string) bool { // no other word is beside it: total_lines, not files_searched
		terms := slices.DeleteFunc(rank.Terms(text), func(t string) bool { return t == "total" || means(t, "count") })
		return len(terms) == 1 && means(terms[0], noun)
	}
	var lists []string
	cut := false
	for key, raw := range strictjson.Members(structured) {
		switch kind := strictjson.Kind(raw); {
		case kind == "array":
			lists = append(lists, raw)
		case kind == "number" && (named(key) || !ok && (key == "count" || key == "total")):
			ok = json.Unmarshal([]byte(raw), &t.n) == nil
		case key == "truncated":
			cut = raw == "true"
		}
	}
	if len(lists) == 1 {
		list, filtered := ofType(lists[0], named)
		if t.items = itemsOf(list); !ok || filtered {
			t.n, t.atLeast, ok = len(t.items), cut, true
		}
	}
	if len(t.items) != t.n {
		t.items = nil
	}
	return t, ok
}

// nounOf returns the term of what is counted: "file" of "Go files".
func nounOf(what string) string {
	terms := rank.Terms(what)
	return append([]string{""}, terms...)[len(terms)]
}

// countLines counts the lines of a text; one that says "No …" has none.
func countLines(text string) (t tally) {
	if !strings.HasPrefix(strings.ToLower(text), "no ") {
		t.items = strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' })
	}
	t.n = len(t.items)
	return t
}

// ofType leaves out the items whose type is another: folders among files.
func ofType(array string, named func(string) bool) (list string, filtered bool) {
	var kept []string
	others := 0
	for raw := range strictjson.Items(array) {
		if kind, ok := strictjson.Member(raw, "type"); ok && named(strictjson.Content(kind)) {
			kept = append(kept, raw)
		} else if ok {
			others++
		}
	}
	if others == 0 || len(kept) == 0 && !named("file") && !named("folder") {
		return array, false
	}
	return strictjson.Array(kept), true
}

// stream emits paragraphs one by one, with an empty line between them. Bullets stay together.
func stream(paragraphs []string, emit func(string) error) error {
	for i, text := range paragraphs {
		switch {
		case i == 0:
		case strings.HasPrefix(text, "- "):
			text = "\n" + text
		default:
			text = "\n\n" + text
		}
		if err := emit(text); err != nil {
			return fmt.Errorf("offline: write the answer: %w", err)
		}
	}
	return nil
}
