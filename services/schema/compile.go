package schema

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/maypok86/otter/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// baseURL is the artificial base URL of every schema; relative references are resolved against it.
const baseURL = "pawl-schema:///"

// maxSchema bounds the text of a schema, in bytes.
const maxSchema = 1 << 20

// schemaSize estimates the memory of a compiled schema without its text, in bytes.
const schemaSize = 4 << 10

// cache holds compiled schemas, which are immutable, by their text.
var cache = otter.Must(&otter.Options[string, *Schema]{
	MaximumWeight: 4 << 20, Weigher: func(raw string, _ *Schema) uint32 { return uint32(len(raw) + schemaSize) },
})

// Schema is a compiled JSON Schema. It may be used by several goroutines.
type Schema struct {
	raw      string
	compiled *jsonschema.Schema // nil: everything fits
	graph    *graph

	properties func() []Property // read once; nil without compiled
}

// Compile reads a schema: draft 2020-12 unless it names another. "", "{}" and "true" accept everything. References
// to anything outside the schema are refused. Errors are INVALID_REQUEST.
func Compile(raw string) (*Schema, error) {
	switch strings.TrimSpace(raw) {
	case "", "{}", "true":
		return &Schema{raw: raw}, nil
	}
	if s, ok := cache.GetIfPresent(raw); ok {
		return s, nil
	}
	c, err := compile(raw)
	var g *graph
	if err == nil {
		g, err = newGraph(c)
	}
	if err != nil {
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			"the JSON Schema cannot be used: %w", err)
	}
	s := &Schema{raw: raw, compiled: c, graph: g}
	s.properties = sync.OnceValue(s.readProperties)
	cache.Set(raw, s)
	return s, nil
}

func compile(raw string) (*jsonschema.Schema, error) {
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("it has %d bytes; the limit is %d", len(raw), maxSchema)
	}
	text, err := strictjson.Parse(raw, strictjson.Rules{})
	if err == nil {
		err = text.CheckNumbers()
	}
	if err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	if kind := strictjson.Kind(raw); kind != "object" && kind != "boolean" {
		return nil, fmt.Errorf("it must be an object or a boolean, is %s", strictjson.WithArticle(kind))
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.AssertFormat()
	if err := c.AddResource(baseURL, doc); err != nil {
		return nil, describeCompile(err)
	}
	s, err := c.Compile(baseURL)
	if err != nil {
		return nil, describeCompile(err)
	}
	return s, nil
}

// noLoader prevents schemas, which are not trusted, from loading files and URLs.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is outside the schema and is not loaded; put it under $defs",
		strings.TrimPrefix(url, baseURL))
}

func describeCompile(err error) error {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return load.Err
	}
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var v *jsonschema.ValidationError
		if errors.As(invalid.Err, &v) {
			return explainer{}.explain(v)
		}
	}
	return errors.New(strings.ReplaceAll(err.Error(), baseURL, ""))
}
