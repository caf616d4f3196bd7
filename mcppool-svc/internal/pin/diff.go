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
	// maxPlaces bounds the returned places.
	maxPlaces = 50
	// maxDepth bounds the keys and indexes in a place. For a deeper difference, Diff returns the place of the value that contains it.
	maxDepth = 32
)

// Diff returns the first maxPlaces places where two definitions differ, as JSON pointers (RFC 6901). If a definition cannot be read, it returns the
// empty pointer, which means the whole definition. Spacing and the order of keys do not count.
func Diff(before, after string) []string {
	a, errA := parse(before)
	b, errB := parse(after)
	if errA != nil || errB != nil {
		return []string{""}
	}
	var places []string
	compare("", a, b, 0, &places)
	return places
}

// parse decodes JSON and keeps numbers as written.
func parse(text string) (v any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

func compare(at string, a, b any, depth int, places *[]string) {
	if len(*places) >= maxPlaces || reflect.DeepEqual(a, b) {
		return
	}
	if x, y, ok := both[map[string]any](a, b); ok && depth < maxDepth {
		keys := maps.Clone(x)
		maps.Copy(keys, y)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			compare(at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), member(x, key), member(y, key), depth+1, places)
		}
		return
	}
	if x, y, ok := both[[]any](a, b); ok && depth < maxDepth && len(x) == len(y) {
		for i := range x {
			compare(at+"/"+strconv.Itoa(i), x[i], y[i], depth+1, places)
		}
		return
	}
	*places = append(*places, at)
}

// both returns two values as T; ok reports whether both are.
func both[T any](a, b any) (x, y T, ok bool) {
	x, isX := a.(T)
	y, isY := b.(T)
	return x, y, isX && isY
}

// absent is the value of a key that an object does not have.
type absent struct{}

func member(of map[string]any, key string) any {
	if v, there := of[key]; there {
		return v
	}
	return absent{}
}
