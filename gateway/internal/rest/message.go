package rest

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// message builds the request message from the path's variables, the body and the query.
func (r *Route) message(variables map[string]string, body []byte, query url.Values) (proto.Message, error) {
	m := r.input.New().Interface()
	if err := setBody(r, m, body); err != nil {
		return nil, err
	}
	if err := setQuery(r, m, query); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !utf8.ValidString(variables[name]) {
			return nil, invalid("%q does not fit {%s} in the path: it is not valid UTF-8", variables[name], name)
		}
		if err := runtime.PopulateFieldFromPath(m, name, variables[name]); err != nil {
			return nil, invalid("%q does not fit {%s} in the path: %w", variables[name], name, err)
		}
	}
	return m, nil
}

func setBody(rt *Route, m proto.Message, body []byte) error {
	switch {
	case len(body) == 0:
		return nil
	case rt.Body == "":
		return invalid("%s %s takes no body; its parameters go into the query", rt.Method, rt.Template)
	case rt.Body == wholeBody:
		return decode(body, m)
	}
	fd := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(rt.Body))
	return decode(body, m.ProtoReflect().Mutable(fd).Message().Interface())
}

// setQuery sets the fields that the query names. An unknown parameter is an error, because it may be a misspelt filter.
func setQuery(rt *Route, m proto.Message, query url.Values) error {
	for _, key := range slices.Sorted(maps.Keys(query)) {
		if err := checkParameter(rt, key); err != nil {
			return err
		}
		if i := slices.IndexFunc(query[key], func(s string) bool { return !utf8.ValidString(s) }); i >= 0 {
			what := fmt.Sprintf("its value %q is not valid UTF-8", query[key][i])
			return invalid("the parameter %s of the query does not fit: %s", key, what).WithViolation(key, what)
		}
		parameter := url.Values{key: query[key]}
		if err := runtime.PopulateQueryParameters(m, parameter, utilities.NewDoubleArray(nil)); err != nil {
			return badParameter(rt.RPC.Input(), key, query[key], err)
		}
	}
	return nil
}

// checkParameter returns an error if the route has no such query parameter.
func checkParameter(rt *Route, key string) error {
	known := parameters(rt)
	first, _, _ := strings.Cut(key, ".")
	first, _, _ = strings.Cut(first, "[")
	if fd := field(rt.RPC.Input(), first); fd != nil && slices.Contains(known, fd.JSONName()) {
		return nil
	}
	what := unknownName("parameter", key, known)
	if rt.Body != "" {
		what += "; the rest goes into the body, as JSON"
	}
	return invalid("the query of %s %s does not fit: %s", rt.Method, rt.Template, what).WithViolation(key, what)
}

// parameters returns the query parameters of a route: the fields that are not set from path or body.
func parameters(rt *Route) []string {
	if rt.Body == wholeBody {
		return nil
	}
	var names []string
	fields := rt.RPC.Input().Fields()
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		if name == rt.Body || slices.Contains(rt.variables, name) {
			continue
		}
		names = append(names, fields.Get(i).JSONName())
	}
	return names
}

func badParameter(md protoreflect.MessageDescriptor, key string, values []string, cause error) error {
	what := cause.Error()
	if fd := field(md, key); fd != nil && fd.Kind() == protoreflect.EnumKind {
		for _, v := range values {
			if fd.Enum().Values().ByName(protoreflect.Name(v)) == nil {
				what = unknownValue(v, fd.Enum())
			}
		}
	} else if fd != nil {
		what = parseProblem(fd, strings.Join(values, ", "), cause)
	}
	return invalid("the parameter %s of the query does not fit: %s", key, what).WithViolation(key, what)
}

// parseProblem rewords errors of Go's parsers of numbers and times, which name Go functions and layouts.
func parseProblem(fd protoreflect.FieldDescriptor, value string, cause error) string {
	var number *strconv.NumError
	switch {
	case errors.As(cause, &number) && errors.Is(number, strconv.ErrRange):
		return fmt.Sprintf("it must be %s, is %q: beyond the range of %s", typeName(fd), value, fd.Kind())
	case errors.As(cause, &number):
		return fmt.Sprintf("it must be %s, is %q", typeName(fd), value)
	case errors.As(cause, new(*time.ParseError)):
		return fmt.Sprintf("it must be a time such as 2026-01-02T03:04:05Z, is %q", value)
	}
	return cause.Error()
}

// typeName names the type of a parameter that is not text.
func typeName(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "a number"
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return "a whole number, 0 or more"
	}
	return "a whole number"
}
