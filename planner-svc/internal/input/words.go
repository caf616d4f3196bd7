package input

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"

	"pawl.dev/planner-svc/internal/rank"
)

//go:embed words.txt
var wordsText string

// table is what words.txt says of a class: by word, the key of its line, and by key, the words.
type table struct {
	key   map[string]string
	words map[string][]string
}

// tables returns words.txt by class. English words that are compared with those of tools are stems.
var tables = sync.OnceValue(func() map[string]table {
	all := map[string]table{}
	for line := range strings.Lines(wordsText) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] == "#" {
			continue
		}
		t, ok := all[f[0]]
		if !ok {
			t = table{key: map[string]string{}, words: map[string][]string{}}
			all[f[0]] = t
		}
		stemmed, keys := f[0] == "role" || f[0] == "form", f[1:2]
		if f[0] == "role" {
			keys = strings.Split(f[1], ",")
		}
		for _, key := range keys {
			if f[0] == "role" {
				key = rank.Stem(key)
			}
			for _, w := range f[2:] {
				if f[0] == "set" {
					t.key[key+" "+w], t.key[key+" "+rank.Stem(w)] = key, key
					continue
				}
				if stemmed {
					w = rank.Stem(w)
				}
				t.key[w], t.words[key] = key, append(t.words[key], w)
			}
		}
	}
	return all
})

// In reports whether a word or stem is in a set of words.txt.
func In(set, term string) bool { return tables()["set"].key[set+" "+term] != "" }

// lookup returns the key of a word in a class, or "".
func lookup(class, word string) string { return tables()[class].key[strings.ToLower(word)] }

// unit is a unit of measurement; n of it are (n - offset) * factor of the dimension's first unit.
type unit struct {
	dimension      string
	factor, offset float64
}

// unitOf returns the unit of a name.
func unitOf(name string) (u unit, ok bool) {
	f := strings.Split(lookup("unit", name), ":")
	if len(f) < 2 {
		return u, false
	}
	u.dimension, u.factor = f[0], number(f[1])
	if len(f) > 2 {
		u.offset = number(f[2])
	}
	return u, true
}

// rounded keeps seven digits of a computed number.
func rounded(n float64) float64 {
	if n == float64(int64(n)) {
		return n
	}
	return number(strconv.FormatFloat(n, 'g', 7, 64))
}

// number reads a number of words.txt, or one that was found to be one; 0 for anything else.
func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return n
}
