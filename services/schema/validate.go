package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"pawl.dev/services/strictjson"
)

// Problem is one thing that does not fit.
type Problem struct {
	Pointer string // JSON pointer to the value; "" is the whole document
	Message string // `must be string, is number`
}

func (p Problem) String() string {
	if p.Pointer == "" {
		return p.Message
	}
	return strconv.Quote(p.Pointer) + ": " + p.Message
}

// Invalid is the error of a document that does not fit its schema, or is not JSON.
type Invalid struct {
	Problems []Problem // at least one, ordered by pointer
}

func (e *Invalid) Error() string {
	const most = 10
	var b strings.Builder
	for i, p := range e.Problems {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(e.Problems)-most)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// Validate checks a document, given as JSON text. The error is an *Invalid.
func (s *Schema) Validate(doc string) error {
	if err := strictjson.Check(doc, strictjson.Rules{BoundedNumbers: true}); err != nil {
		return notJSON(err)
	}
	if s.compiled == nil {
		return nil
	}
	if s.quick != nil && s.plan.cheap(len(doc)) && s.quick.fits(doc) {
		return nil
	}
	return s.validate(doc)
}

// validate is Validate for a text that is JSON.
func (s *Schema) validate(doc string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
	if err != nil {
		return notJSON(err)
	}
	if err := s.plan.check(v, len(doc)); err != nil {
		return err
	}
	if err := s.compiled.Validate(v); err != nil {
		var invalid *jsonschema.ValidationError
		if errors.As(err, &invalid) {
			return s.hinted(problemsOf(invalid), invalid, v)
		}
		return &Invalid{Problems: []Problem{{Message: err.Error()}}}
	}
	return nil
}

func notJSON(err error) *Invalid {
	return &Invalid{Problems: []Problem{{Message: "it is not JSON that can be used: " + err.Error()}}}
}
