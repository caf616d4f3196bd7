package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

var errNoObject = errors.New("it is not a JSON object")

// Object splits an object of valid JSON by its exact keys. A key that comes twice, or twice in different letter case, would
// be read differently by different programs; it is refused. Values are not looked into, nor copied.
func Object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return nil, errNoObject
	}
	fields := make(map[string]json.RawMessage, smallObject/2)
	var folded map[string]bool
	for i = skipSpace(raw, i+1); i < len(raw) && raw[i] == '"'; i = skipSpace(raw, i) {
		end := stringEnd(raw, i)
		key, err := keyOf(raw[i:end])
		if err != nil {
			return nil, err
		}
		if folded, err = once(fields, folded, key); err != nil {
			return nil, err
		}
		i = skipSpace(raw, end)
		if i == len(raw) || raw[i] != ':' {
			return nil, errNoObject
		}
		i = skipSpace(raw, i+1)
		end = valueEnd(raw, i)
		fields[key] = raw[i:end:end]
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i++
		}
	}
	if i >= len(raw) || raw[i] != '}' {
		return nil, errNoObject
	}
	return fields, nil
}

func keyOf(raw []byte) (key string, err error) {
	if len(raw) >= 2 && strings.IndexByte(string(raw), '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1]), nil
	}
	err = json.Unmarshal(raw, &key)
	return key, err
}

// once refuses a key that is there already. Many keys are remembered folded, few are compared.
func once(fields map[string]json.RawMessage, folded map[string]bool, key string) (map[string]bool, error) {
	twice := false
	if len(fields) < smallObject {
		for k := range fields {
			twice = twice || strings.EqualFold(k, key)
		}
	} else {
		if folded == nil {
			folded = make(map[string]bool, 4*smallObject)
			for k := range fields {
				folded[strings.ToLower(k)] = true
			}
		}
		twice = folded[strings.ToLower(key)]
		folded[strings.ToLower(key)] = true
	}
	if twice {
		return nil, fmt.Errorf("the key %.100q comes twice", key)
	}
	return folded, nil
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
