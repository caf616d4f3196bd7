package strict

import "encoding/json"

// AppendString appends a text as a JSON string in one line; what is not UTF-8 in it is replaced.
func AppendString(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, err := json.Marshal(s)
			if err != nil {
				return append(to, `""`...) // a string always marshals
			}
			return append(to, text...)
		}
	}
	return append(append(append(to, '"'), s...), '"')
}
