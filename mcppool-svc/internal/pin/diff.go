package pin

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxPlaces is how many differing places are named.
	maxPlaces = 50
	// maxDepth is how deep they are looked for; what differs further inside is named by where it begins.
	maxDepth = 32
)

// Diff names the places where two definitions differ, as JSON pointers (RFC 6901) in order; the whole (an empty pointer)
// where one of them cannot be read. No place differs where only spacing or the order of keys does.
func Diff(before, after string) []string {
	a, errA := read(before)
	b, errB := read(after)
	if errA != nil || errB != nil {
		return []string{""}
	}
	var d differ
	d.compare("", a, b, 0)
	return d.places
}

// read keeps numbers as they are written.
func read(text string) (v any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

type differ struct{ places []string }

func (d *differ) compare(at string, a, b any, depth int) {
	if len(d.places) >= maxPlaces || reflect.DeepEqual(a, b) {
		return
	}
	if depth < maxDepth {
		switch x := a.(type) {
		case map[string]any:
			if y, ok := b.(map[string]any); ok {
				d.objects(at, x, y, depth)
				return
			}
		case []any:
			if y, ok := b.([]any); ok && len(x) == len(y) {
				for i := range x {
					d.compare(at+"/"+strconv.Itoa(i), x[i], y[i], depth+1)
				}
				return
			}
		}
	}
	d.places = append(d.places, at)
}

func (d *differ) objects(at string, a, b map[string]any, depth int) {
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		x, inA := a[key]
		y, inB := b[key]
		place := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		if inA && inB {
			d.compare(place, x, y, depth+1)
		} else if len(d.places) < maxPlaces {
			d.places = append(d.places, place)
		}
	}
}
