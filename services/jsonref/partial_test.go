package jsonref_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pawl.dev/services/jsonref"
)

// renames maps the names of values that come later to their later names.
func renames(names ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, n := range names {
			if n == name {
				return "later-" + name, true
			}
		}
		return "", false
	}
}

// only looks up the values that have come since.
func only(lookup func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if old, ok := strings.CutPrefix(name, "later-"); ok {
			return lookup(old)
		}
		return "", false
	}
}

func TestPartial(t *testing.T) {
	values := map[string]string{"tricky": `{"t":"a ${goal} b","${k}":["$${x}"]}`, "dollar": `"$"`, "brace": `"{x}"`, "odd": `"\u0024{x}"`, "nothing": `""`}
	find := func(name string) (string, bool) {
		if v, ok := values[name]; ok {
			return v, true
		}
		return lookup(name)
	}
	cases := []struct {
		name, template, want string
		open                 bool
	}{
		{"nothing to do", ` {"a" : [1.0, "x\u0041"]}`, `{"a":[1.0,"x\u0041"]}`, false},
		{"all there", `{"a":"${goal}","b":"n is ${n}"}`, `{"a":"count \"it\"","b":"n is 1.50"}`, false},
		{"a reference that is left", `{"a":"${list.files.0}"}`, `{"a":"${later-list.files.0}"}`, true},
		{"both in one string", `"${n} of ${list.total}; ${n}"`, `"1.50 of ${later-list.total}; 1.50"`, true},
		{"escapes stay", `"$${n} \u0041"`, `"$${n} \u0041"`, false},
		{"escapes stay beside references", `"$${n} ${list.total}"`, `"$${n} ${later-list.total}"`, true},
		{"values that look like templates", `["${tricky}","${tricky.t}","is ${tricky.t}"]`, `[{"t":"a $${goal} b","${k}":["$$${x}"]},"a $${goal} b","is a $${goal} b"]`, false},
		{"a template that two values make up", `"${dollar}${brace} ${list.total}"`, `"$${x} ${later-list.total}"`, true},
	}
	for _, c := range cases {
		got, open, err := jsonref.Partial(c.template, find, renames("list"))
		if err != nil || got != c.want || open != c.open {
			t.Errorf("%s: Partial = %s, %v, %v; want %s", c.name, got, open, err, c.want)
			continue
		}
		whole, err := jsonref.Resolve(c.template, find)
		if again, err2 := jsonref.Resolve(got, only(find)); err != nil || err2 != nil || again != whole {
			t.Errorf("%s: %s, %v, resolved in two steps; %s, %v, in one", c.name, again, err2, whole, err)
		}
	}
	deep := strings.Repeat("[", 499) + strings.Repeat("]", 499)
	values["deep"] = deep
	for _, notYet := range []string{`"${dollar}${list.total}"`, `"${nothing}${list.total}"`, `"${list.total}${nothing}"`, `"${odd}"`, `[[["${deep}"]]]`} {
		if _, _, err := jsonref.Partial(notYet, find, renames("list")); !errors.Is(err, jsonref.ErrNotYet) {
			t.Errorf("Partial(%s): %v", notYet, err)
		}
	}
	for _, wrong := range []string{`"${nope}"`, `"${nope} ${list}"`, `"${goal.x}"`, `"x ${goal"`, `{`} {
		if _, _, err := jsonref.Partial(wrong, find, renames("list")); err == nil || errors.Is(err, jsonref.ErrNotYet) {
			t.Errorf("Partial(%s): %v", wrong, err)
		}
	}
	if _, _, err := jsonref.Partial(`"${list}"`, find, func(name string) (string, bool) { return "no name", name == "list" }); !errors.Is(err, jsonref.ErrNotYet) {
		t.Errorf("a new name that is none: %v", err)
	}
}

func FuzzPartial(f *testing.F) {
	for _, seed := range []string{`{"a":"${goal} ${list.files.0}"}`, `["$${x}","$$${n}","${n}"]`, `"${v}${n}"`, `"\u0024{v}"`, `"$${v}${v}$"`, `"${list} ${v.a}"`} {
		f.Add(seed, `"$"`)
		f.Add(seed, `""`)
		f.Add(seed, `{"a":"x ${goal} $${y}","${k}":["$",{}]}`)
		f.Add(seed, `"\ud800${\u007b"`)
	}
	f.Fuzz(func(t *testing.T, template, value string) {
		find := func(name string) (string, bool) {
			if name == "v" {
				return value, true
			}
			return lookup(name)
		}
		want, wantErr := jsonref.Resolve(template, find)
		for _, later := range [][]string{{"list", "n"}, {"v"}, {"goal", "list", "n", "v", "empty", "arr", "bad", "a-b_C"}, nil} {
			p, open, err := jsonref.Partial(template, find, renames(later...))
			switch {
			case errors.Is(err, jsonref.ErrNotYet):
				continue
			case err != nil:
				if wantErr == nil {
					t.Fatalf("in part: %v; at once: %s", err, want)
				}
				continue
			}
			got, gotErr := jsonref.Resolve(p, only(find))
			if got != want || (gotErr == nil) != (wantErr == nil) {
				t.Fatalf("in two steps, by %s: %s, %v; at once: %s, %v", p, got, gotErr, want, wantErr)
			}
			if refs, err := jsonref.Refs(p); err != nil || open != (len(refs) > 0) {
				t.Fatalf("open is %v, but %s has %v (%v)", open, p, refs, err)
			}
		}
	})
}

func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "$", "${a}", "$${a}", "$$${", "{${$"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		template := quote(t, jsonref.Escape(text))
		if got, err := jsonref.Resolve(template, lookup); err != nil || got != quote(t, text) {
			t.Fatalf("%s became %s, %v", quote(t, text), got, err)
		}
		if got, err := jsonref.ResolveText(jsonref.Escape(text), lookup); err != nil || got != text {
			t.Fatalf("%q became %q, %v", text, got, err)
		}
	})
}

func quote(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
