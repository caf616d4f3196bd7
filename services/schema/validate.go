package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"pawl.dev/services/strictjson"
)

// Problem is one reason why a value does not fit a schema.
type Problem struct {
	Pointer string // JSON pointer to the value; "" is the whole document
	Message string // `must be a string, is a number`
}

func (p Problem) String() string {
	if p.Pointer == "" {
		return p.Message
	}
	return strconv.Quote(p.Pointer) + ": " + p.Message
}

// Invalid is the error for a document that does not fit its schema or is not JSON.
type Invalid struct {
	Problems []Problem // at least one, ordered by pointer
}

func (e *Invalid) Error() string {
	const limit = 10
	var parts []string
	for _, p := range e.Problems[:min(len(e.Problems), limit)] {
		parts = append(parts, p.String())
	}
	if more := len(e.Problems) - limit; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// WithoutMissing removes the missing properties of the document's top level from an *Invalid, because they may be supplied later. A missing
// property stays if an unknown property seems to be its misspelling. WithoutMissing returns nil if no problem is left, or if the error is not an
// *Invalid.
func WithoutMissing(err error) error {
	var all *Invalid
	if !errors.As(err, &all) {
		return nil
	}
	present := &Invalid{}
	for _, p := range all.Problems {
		if !p.isMissingProperty() || p.Pointer != "" {
			present.Problems = append(present.Problems, p)
		}
	}
	if len(present.Problems) == 0 {
		return nil
	}
	return present
}

// Validate checks a document, given as JSON text. The error is an *Invalid.
func (s *Schema) Validate(text string) error {
	doc, err := strictjson.Parse(text, strictjson.Rules{})
	if err != nil {
		return notJSON(err)
	}
	return s.ValidateDocument(doc)
}

// ValidateDocument is Validate for a parsed document.
func (s *Schema) ValidateDocument(doc strictjson.Document) error {
	if err := doc.CheckNumbers(); err != nil {
		return notJSON(err)
	}
	if s.compiled == nil {
		return nil
	}
	text := doc.String()
	if s.graph.isCheap(len(text)) && s.graph.fits(s.compiled, text) {
		return nil
	}
	return s.validate(text)
}

// validate decodes valid JSON and runs the validator on it.
func (s *Schema) validate(text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return notJSON(err)
	}
	if err := s.graph.check(v, len(text)); err != nil {
		return err
	}
	if err := s.compiled.Validate(v); err != nil {
		var invalid *jsonschema.ValidationError
		if errors.As(err, &invalid) {
			return explainer{s.graph, v}.explain(invalid)
		}
		return &Invalid{Problems: []Problem{{Message: err.Error()}}}
	}
	return nil
}

func notJSON(err error) *Invalid {
	return &Invalid{Problems: []Problem{{Message: "it is not JSON that can be used: " + err.Error()}}}
}
