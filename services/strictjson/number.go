package strictjson

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxNumberLen = 2000
	maxExponent  = 2000
)

// CheckNumbers refuses numbers that are short to write and expensive to compute with, such as 1e999999999. The error is an *Error.
func (d Document) CheckNumbers() error {
	for i := 0; i < len(d.text); i = tokenEnd(d.text, i) {
		if c := d.text[i]; c != '-' && !isDigit(c) {
			continue
		}
		if message := numberProblem(d.text[i:tokenEnd(d.text, i)]); message != "" {
			return &Error{Offset: i, Pointer: pointerAt(d.text, i), Message: message, Reason: ErrNumber}
		}
	}
	return nil
}

func numberProblem(number string) string {
	if len(number) > maxNumberLen {
		return fmt.Sprintf("a number has %d characters; the limit is %d", len(number), maxNumberLen)
	}
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return ""
	}
	exponent, err := strconv.Atoi(number[i+1:])
	if err != nil || exponent > maxExponent || exponent < -maxExponent {
		return fmt.Sprintf("the number %s has an exponent beyond ±%d", number, maxExponent)
	}
	return ""
}

// pointerAt returns the JSON pointer of the value that begins at an offset of valid JSON.
func pointerAt(data string, offset int) string {
	d := jsontext.NewDecoder(strings.NewReader(data), jsontext.AllowInvalidUTF8(true))
	for int(d.InputOffset()) <= offset {
		if _, err := d.ReadToken(); err != nil {
			return ""
		}
	}
	return string(d.StackPointer())
}
