package rest

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// decode reads JSON into a message. The error names all unknown fields (up to maxFindings) with their places. decode inspects the body for them
// only if protojson fails or a number might be rounded.
func decode(data []byte, m proto.Message) error {
	cause := protojson.Unmarshal(data, m)
	if cause == nil && !mayRound(data) {
		return nil
	}
	var at *strictjson.Error
	if err := strictjson.Check(data, strictjson.Rules{AnyUTF8: true}); errors.As(err, &at) && errors.Is(err, strictjson.ErrInvalid) {
		return invalid("the body is not valid JSON (%s): %s", position(data, at.Offset), at.Message)
	}
	if findings := inspect(data, m.ProtoReflect().Descriptor()); len(findings) > 0 {
		return report(findings)
	}
	if cause != nil {
		return misfit(cause)
	}
	return nil
}

// report returns one error for all findings.
func report(findings []finding) error {
	texts := make([]string, len(findings))
	for i, f := range findings {
		texts[i] = f.text()
	}
	e := invalid("the body does not fit: %s", strings.Join(texts, "; "))
	for _, f := range findings {
		e = e.WithViolation(f.path, f.what)
	}
	return e
}

// misfit rewords an error of protojson, whose text is `proto: (line 1:10): what` with varying spaces.
func misfit(err error) *errs.Error {
	m := regexp.MustCompile(`\(line (\d+):(\d+)\): (.*)$`).FindStringSubmatch(err.Error())
	if m == nil {
		return invalid("the body does not fit: %s", strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:")))
	}
	e := invalid("the body does not fit: %s (line %s, column %s)", m[3], m[1], m[2])
	if field := regexp.MustCompile(`\bfield "?([A-Za-z0-9_]+)"?`).FindStringSubmatch(m[3]); field != nil {
		e = e.WithViolation(field[1], m[3])
	}
	return e
}

// position returns line and column of an offset as editors count them: from 1, columns in characters.
func position(data []byte, offset int) string {
	before := string(data[:min(offset, len(data))])
	lineStart := strings.LastIndexByte(before, '\n') + 1
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[lineStart:]) + 1
	return "line " + strconv.Itoa(line) + ", column " + strconv.Itoa(column)
}
