package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

var (
	errNoObject = errors.New("it is not a JSON object")
	errNoArray  = errors.New("it is not a JSON array")
)

// Object splits an object of valid JSON by its exact keys. A key that comes twice, or twice in different letter case, would
// be read differently by different programs; it is refused. Values are not looked into, nor copied.
func Object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	fields := make(map[string]json.RawMessage, smallObject/2)
	err := Members(raw, func(key []byte, value json.RawMessage) error {
		fields[string(key)] = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	return fields, nil
}

// Members is Object for who has a place for each member: take gets them in their order. The key is only lent. An error may come behind
// members that were taken.
func Members(raw json.RawMessage, take func(key []byte, value json.RawMessage) error) error {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return errNoObject
	}
	var seen keys
	for i = skipSpace(raw, i+1); i < len(raw) && raw[i] == '"'; i = skipSpace(raw, i) {
		end := stringEnd(raw, i)
		key, err := keyOf(raw[i:end])
		if err != nil {
			return err
		}
		if !seen.add(key) {
			return fmt.Errorf("the key %.100q comes twice", key)
		}
		i = skipSpace(raw, end)
		if i == len(raw) || raw[i] != ':' {
			return errNoObject
		}
		i = skipSpace(raw, i+1)
		end = valueEnd(raw, i)
		if err := take(key, raw[i:end:end]); err != nil {
			return err
		}
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i++
		}
	}
	if i >= len(raw) || raw[i] != '}' {
		return errNoObject
	}
	return nil
}

// Elements splits an array of valid JSON: take gets its values in their order.
func Elements(raw json.RawMessage, take func(json.RawMessage) error) error {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '[' {
		return errNoArray
	}
	for i = skipSpace(raw, i+1); i < len(raw) && raw[i] != ']'; i = skipSpace(raw, i) {
		end := valueEnd(raw, i)
		if err := take(raw[i:end:end]); err != nil {
			return err
		}
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i++
		}
	}
	if i >= len(raw) {
		return errNoArray
	}
	return nil
}

func keyOf(raw []byte) ([]byte, error) {
	if len(raw) >= 2 && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return raw[1 : len(raw)-1], nil
	}
	var key string
	err := json.Unmarshal(raw, &key)
	return []byte(key), err
}

// keys are those of one object. Few are compared, many are remembered folded.
type keys struct {
	few  [smallObject][]byte
	n    int
	many map[string]bool
}

// add says whether a key is new, in whatever letter case.
func (k *keys) add(key []byte) bool {
	if k.n < smallObject {
		for _, other := range k.few[:k.n] {
			if bytes.EqualFold(other, key) {
				return false
			}
		}
		k.few[k.n] = key
		k.n++
		return true
	}
	if k.many == nil {
		k.many = make(map[string]bool, 4*smallObject)
		for _, other := range k.few {
			k.many[strings.ToLower(string(other))] = true
		}
	}
	folded := strings.ToLower(string(key))
	if k.many[folded] {
		return false
	}
	k.many[folded] = true
	return true
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// valueEnd is where the value that begins at i has ended.
func valueEnd(raw []byte, i int) int {
	for depth := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		default:
			for i++; i < len(raw) && !strings.ContainsRune(",:]}[{\" \t\r\n", rune(raw[i])); i++ {
				continue
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return len(raw)
}

// Absent says whether a member is missing, or null.
func Absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
