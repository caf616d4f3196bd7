// Package schema validates exact JSON by JSON Schema and reads objects that come as text or google.protobuf.Struct. It keeps
// numbers as they were written, loads nothing from outside a schema, and describes problems for people and models. The
// package knows no tool and no service.
package schema
