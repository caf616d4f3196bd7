package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"
)

// The functions below take text that Check or Scan accepted. Given other text they return nonsense, but they end and do not panic.

// Kind returns the JSON type of a value: object, array, string, number, boolean or null; "" if the text begins with none.
func Kind[T Text](text T) string {
	i := skipSpace(text, 0)
	if i == len(text) {
		return ""
	}
	switch b := text[i]; {
	case b == '{':
		return "object"
	case b == '[':
		return "array"
	case b == '"':
		return "string"
	case b == 't' || b == 'f':
		return "boolean"
	case b == 'n':
		return "null"
	case b == '-' || isDigit(b):
		return "number"
	}
	return ""
}

// WithArticle returns a JSON type with its article: an array, a string, null.
func WithArticle(kind string) string {
	switch kind {
	case "null":
		return kind
	case "array", "object", "integer":
		return "an " + kind
	}
	return "a " + kind
}

// Members iterates over an object's keys, unquoted, and values, as they are written, in the document's order. A value that is not an
// object has none.
func Members[T Text](text T) iter.Seq2[T, T] {
	return func(yield func(key, value T) bool) {
		for key, value := range members(text, false) {
			if !yield(Unquote(key), value) {
				return
			}
		}
	}
}

// members is Members with keys as they are written. If cut is true, it includes a last key whose value is missing.
func members[T Text](text T, cut bool) iter.Seq2[T, T] {
	return func(yield func(key, value T) bool) {
		i := skipSpace(text, 0)
		if i == len(text) || text[i] != '{' {
			return
		}
		for i = skipSpace(text, i+1); i < len(text) && text[i] == '"'; {
			keyEnd := stringEnd(text, i)
			start := skipSpace(text, min(skipSpace(text, keyEnd)+1, len(text))) // after the colon
			end := valueEnd(text, start)
			if start == len(text) && !cut || !yield(text[i:keyEnd], text[start:end]) {
				return
			}
			i = skipSpace(text, min(skipSpace(text, end)+1, len(text))) // after the comma
		}
	}
}

// Items iterates over an array's values, as they are written. A value that is not an array has none.
func Items[T Text](text T) iter.Seq[T] {
	return func(yield func(value T) bool) {
		i := skipSpace(text, 0)
		if i == len(text) || text[i] != '[' {
			return
		}
		for i = skipSpace(text, i+1); i < len(text) && text[i] != ']'; {
			end := valueEnd(text, i)
			if !yield(text[i:end]) {
				return
			}
			i = skipSpace(text, min(skipSpace(text, end)+1, len(text)))
		}
	}
}

// Member returns one value of an object.
func Member[T Text](text T, key string) (value T, ok bool) {
	for k, v := range Members(text) {
		if string(k) == key {
			return v, true
		}
	}
	return value, false
}

var errNoObject = errors.New("it is not a JSON object")

// EachMember passes the members of an object to take, in their order, and stops at take's first error. It refuses a key that comes
// twice, ignoring letter case, but only after take has got the members before it. Keys and values may point into object.
func EachMember(object []byte, take func(key, value []byte) error) error {
	if Kind(object) != "object" {
		return errNoObject
	}
	var seen foldedKeys
	for raw, value := range members(object, false) {
		key := Unquote(raw)
		if !utf8.Valid(key) { // encoding/json replaces each invalid byte
			key = []byte(string([]rune(string(key))))
		}
		if !seen.add(key) {
			return fmt.Errorf("the key %.100q comes twice", key)
		}
		if err := take(key, value); err != nil {
			return err
		}
	}
	return nil
}

// MemberMap returns the members of an object by their exact keys. It refuses what EachMember refuses.
func MemberMap(object []byte) (map[string]json.RawMessage, error) {
	fields := make(map[string]json.RawMessage, fewKeys/2)
	err := EachMember(object, func(key, value []byte) error {
		fields[string(key)] = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	return fields, nil
}

// fewKeys is how many keys are compared one by one, which is faster than a map.
const fewKeys = 16

// foldedKeys is a set of keys that differ in more than their letter case.
type foldedKeys struct {
	few  [fewKeys][]byte
	n    int // number of keys in few
	many map[string]bool
}

// add adds a key and reports whether it is new.
func (k *foldedKeys) add(key []byte) bool {
	for _, other := range k.few[:k.n] {
		if bytes.EqualFold(other, key) {
			return false
		}
	}
	if k.n < fewKeys {
		k.few[k.n] = key
		k.n++
		return true
	}
	folded := strings.ToLower(strings.ToUpper(string(key))) // some letters have two forms in one case
	if k.many == nil {
		k.many = map[string]bool{}
	}
	known := k.many[folded]
	k.many[folded] = true
	return !known
}

// Absent reports whether a member is missing or null.
func Absent(value []byte) bool { return len(value) == 0 || string(value) == "null" }

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

func skipSpace[T Text](text T, i int) int {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return i
}

// valueEnd returns where the value that starts at i ends.
func valueEnd[T Text](text T, i int) int {
	for depth := 0; i < len(text); i = tokenEnd(text, i) {
		switch b := text[i]; {
		case b == '{' || b == '[':
			depth++
		case b == '}' || b == ']':
			if depth--; depth <= 0 {
				return i + depth + 1 // a bracket that closes the enclosing value is not part of this one
			}
		case depth == 0 && isDelimiter(b):
			return i
		case depth == 0:
			return tokenEnd(text, i)
		}
	}
	return i
}

// tokenEnd returns where the token that starts at i ends. A space counts as a token.
func tokenEnd[T Text](text T, i int) int {
	if text[i] == '"' {
		return stringEnd(text, i)
	}
	for i++; i < len(text) && !isDelimiter(text[i-1]) && !isDelimiter(text[i]); i++ {
	}
	return i
}

// isDelimiter reports whether a byte is a token by itself, or space between tokens.
func isDelimiter(b byte) bool {
	switch b {
	case '{', '}', '[', ']', ',', ':', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

// stringEnd returns where the string that starts at i ends.
func stringEnd[T Text](text T, i int) int {
	quote := i
	for i++; i < len(text); {
		if quote < i {
			n := indexByte(text[i:], '"')
			if n < 0 {
				break
			}
			quote = i + n
		}
		backslash := indexByte(text[i:quote], '\\')
		if backslash < 0 {
			return quote + 1
		}
		i += backslash + 2
	}
	return len(text)
}

func indexByte[T Text](text T, b byte) int {
	if s, ok := any(text).(string); ok {
		return strings.IndexByte(s, b)
	}
	return bytes.IndexByte([]byte(text), b)
}
