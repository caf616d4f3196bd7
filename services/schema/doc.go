// Package schema validates exact JSON by JSON Schema and carries it between text and google.protobuf.Struct. It keeps
// numbers as they were written, loads nothing from anywhere, and reports problems in words for people and models. It
// knows no tool and no service.
package schema
